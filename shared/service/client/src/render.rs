//! A verdict, for a person.

use std::fmt::Write;

use assay_program::render::table::{self, Cell};
use assay_program::render::{Screen, short_ids, units};
use assay_protocol::verdict::{
    Bound, DeviceWork, Hiding, KindRate, LinkWork, NamedDevice, Outcome, Reason, Verdict, WALKS_ELSEWHERE_RULE, Work,
};
use assay_work::text::{printable, quoted};

const HEADER: [&str; 10] =
    ["device", "matrices", "GiB held", "MACs", "seconds", "TOPS", "probe GB/s", "samples", "segments", "claimed s"];

/// Width of a screen for one line per device with all figures.
const WIDE: u16 = 120;
/// The most devices, including the whole host, that a narrower screen shows as columns.
const MAX_COLUMNS: usize = 3;
/// Positions in [`HEADER`] of the figures of more devices on a narrower screen.
const NARROW: [usize; 5] = [1, 2, 4, 5, 6];

/// The outcome, its reasons, each device's figures, and their bounds. Without a final line break.
pub fn text(verdict: &Verdict, screen: &Screen) -> String {
    let mut out = headline(verdict, screen);
    for reason in &verdict.reasons {
        out += &paragraph(reason, verdict);
    }
    if !verdict.devices.is_empty() {
        let _ = write!(out, "\n\n{}", figures(verdict, screen));
    }
    let field = verdict.field_operations_per_s(&verdict.whole);
    if field > 0.0 {
        let _ = write!(out, "\n\nField operations: {} a second", units::count(field as u128));
    }
    out += &rates(verdict);
    out += &link(verdict);
    out += &sweeps(verdict);
    out += &bounds(verdict);
    out += &hiding(verdict);
    out += &not_challenged(verdict);
    out += &changed_devices(verdict);
    out
}

fn headline(verdict: &Verdict, screen: &Screen) -> String {
    let (name, colour) = match verdict.outcome {
        Outcome::Pass => ("PASS", 32),
        Outcome::Fail => ("FAIL", 31),
        Outcome::Inconclusive => ("INCONCLUSIVE", 33),
    };
    let name = if screen.colour { format!("\x1b[1;{colour}m{name}\x1b[0m") } else { name.to_owned() };
    let mut out = format!("{name}  {}\n", verdict.meaning());
    let _ = write!(out, "  challenge  {}\n  miner      {}", verdict.challenge_id, verdict.miner_key);
    // That of a challenge whose validator was lost is not known.
    if verdict.n > 0 {
        let passes = units::counted(verdict.iterations.into(), "iteration");
        let _ = write!(out, "\n  work       {}, n = {}, {passes}, ", verdict.precision, verdict.n);
        out += &match verdict.mode {
            Some(mode) => format!("{} checked by {mode}", verdict.iterations_checked),
            None => "none checked".to_owned(),
        };
    }
    if let Some(round_trip_ms) = verdict.round_trip_ms {
        let _ = write!(out, "\n  link       {} ms round trip", units::figures(round_trip_ms));
        let gaps = [
            ("to hand over", verdict.handover_ms),
            ("for roots", verdict.roots_ms),
            ("for digests", verdict.digests_ms),
        ];
        for (what, ms) in gaps {
            if let Some(ms) = ms {
                let _ = write!(out, ", {} ms {what}", units::figures(ms));
            }
        }
    }
    if verdict.abandoned_recently > 0 {
        let (abandoned, of) = (verdict.abandoned_recently, verdict.recent_challenges);
        let _ =
            write!(out, "\n  history    {abandoned} of the last {} abandoned", units::counted(of.into(), "challenge"));
    }
    out
}

fn paragraph(reason: &Reason, verdict: &Verdict) -> String {
    let device = reason.device_id.map(|id| {
        let name = verdict.devices.iter().find(|d| d.device_id == id).map(|d| format!(" ({})", quoted(&d.name)));
        format!(", device {id}{}", name.unwrap_or_default())
    });
    let code = reason.code;
    let mut out = format!("\n\n  {} {code}{}: {}", code.class(), device.unwrap_or_default(), code.about());
    if !reason.detail.is_empty() {
        let _ = write!(out, "\n    what:   {}", printable(&reason.detail, usize::MAX));
    }
    let _ = write!(out, "\n    advice: {}", code.advice());
    out
}

/// One line per device; on a narrow screen one column per device for a few devices, else fewer figures.
fn figures(verdict: &Verdict, screen: &Screen) -> String {
    let ids = short_ids(verdict.devices.iter().map(|device| device.device_id));
    let mut rows: Vec<_> = verdict.devices.iter().zip(&ids).map(|(d, id)| row(label(d, id), &d.work)).collect();
    if rows.len() > 1 {
        rows.push(row("whole host".to_owned(), &verdict.whole));
    }
    let is_narrow = screen.width.is_some_and(|width| width < WIDE);
    if is_narrow && rows.len() <= MAX_COLUMNS {
        let header: Vec<_> = std::iter::once(HEADER[0]).chain(rows.iter().map(|row| row[0].as_str())).collect();
        let mut table = table::new(screen, &header);
        for (index, name) in HEADER.iter().enumerate().skip(1) {
            table.add_row(cells(name, rows.iter().map(|row| &row[index])));
        }
        return table::text(&table);
    }
    let columns: Vec<_> = if is_narrow { NARROW.into() } else { (1..HEADER.len()).collect() };
    let header: Vec<_> = std::iter::once(0).chain(columns.iter().copied()).map(|index| HEADER[index]).collect();
    let mut table = table::new(screen, &header);
    for row in &rows {
        table.add_row(cells(&row[0], columns.iter().map(|index| &row[*index])));
    }
    table::text(&table)
}

fn cells<'a>(label: &str, figures: impl IntoIterator<Item = &'a String>) -> Vec<Cell> {
    std::iter::once(Cell::new(label)).chain(figures.into_iter().map(table::figure)).collect()
}

fn label(device: &DeviceWork, id: &str) -> String {
    format!("{id} {}", quoted(&device.name))
}

fn row(label: String, work: &Work) -> [String; HEADER.len()] {
    let shown = |number: f64| if number == 0.0 { "–".to_owned() } else { units::figures(number) };
    [
        label,
        work.matrices.to_string(),
        units::gib(work.bytes_held),
        units::count(work.multiply_accumulates),
        shown(work.seconds),
        shown(work.tops),
        shown(work.probe_gb_per_s),
        work.samples.to_string(),
        work.segments.to_string(),
        work.claimed_seconds.map_or_else(|| "–".to_owned(), units::figures),
    ]
}

/// Rates of each device by kind of work, where the table of figures does not show them.
fn rates(verdict: &Verdict) -> String {
    let is_told =
        |device: &DeviceWork| device.rates.iter().any(|rate| rate.precision != verdict.precision || rate.detour > 1.0);
    if !verdict.devices.iter().any(is_told) {
        return String::new();
    }
    let ids = short_ids(verdict.devices.iter().map(|device| device.device_id));
    let mut out = "\n\nRates by kind of work, in TOPS, each of the last challenge passed:".to_owned();
    for (device, id) in verdict.devices.iter().zip(&ids) {
        let rate = |rate: &KindRate| {
            let by =
                if rate.detour > 1.0 { format!(" (a detour makes up to ×{})", rate.detour) } else { String::new() };
            format!("{} {}{by}", rate.precision, units::figures(rate.tops))
        };
        let rates: Vec<_> = device.rates.iter().map(rate).collect();
        let _ = write!(out, "\n  - {}: {}", label(device, id), rates.join(", "));
    }
    out
}

/// Result of the linked probe, and its ambiguities.
fn link(verdict: &Verdict) -> String {
    let Some(LinkWork { gb_per_s, step_seconds, half_gb_per_s, least_gb_per_s, .. }) = &verdict.link else {
        return String::new();
    };
    format!(
        "\n\nThe {} devices reach one another's memory at {} GB/s into each, all at once:\
         \n  - a step of all walks took {} µs\
         \n  - two hosts with half of the slots each: only over a network of {} GB/s each way\
         \n  - the smallest device in another host: only over a network of {} GB/s each way",
        verdict.devices.len(),
        units::figures(*gb_per_s),
        units::figures(step_seconds * 1e6),
        units::figures(*half_gb_per_s),
        units::figures(*least_gb_per_s),
    )
}

/// Result of the sweep of each device.
fn sweeps(verdict: &Verdict) -> String {
    let ids = short_ids(verdict.devices.iter().map(|device| device.device_id));
    let line = |(device, id): (&DeviceWork, &String)| {
        device.sweep.map(|sweep| format!("\n  - {}: {}", label(device, id), sweep.meaning()))
    };
    let lines: String = verdict.devices.iter().zip(&ids).filter_map(line).collect();
    if lines.is_empty() { lines } else { format!("\n\nSweep:{lines}") }
}

fn bounds(verdict: &Verdict) -> String {
    let line = |what: &str, bound: &Bound| {
        let (fraction, chance) = (units::percent(bound.fraction), units::probability(bound.log2_probability));
        format!("\n  - {fraction} of {what}: {chance}")
    };
    let work = verdict.work_bounds.iter().map(|b| line("the work rests on wrong values", b));
    let memory = verdict.probe_bounds.iter().map(|b| line("the memory does not hold its slots", b));
    let drawn = verdict.iteration_bounds.iter().map(|b| line("the iterations are faked", b));
    let linked = verdict.link.iter().flat_map(|link| &link.bounds);
    let linked = linked.map(|b| line("the lines of the linked probe are wrong", b));
    let mut lines: String = work.chain(drawn).chain(memory).chain(linked).collect();
    if !lines.is_empty() {
        lines = format!("\n\nProbability of passing undetected:{lines}");
    }
    lines
}

/// The device with the largest part of memory possibly elsewhere.
fn hiding(verdict: &Verdict) -> String {
    let hidden = |device: &DeviceWork| device.hiding.map(|hiding| (device.device_id, hiding));
    let most = verdict.devices.iter().filter_map(hidden).max_by(|a, b| a.1.share.total_cmp(&b.1.share));
    let Some((id, hiding)) = most else { return String::new() };
    let Hiding { rate_per_s, rate_is_shown_only, computed, over_buses, share, .. } = hiding;
    let of = if verdict.devices.len() > 1 { format!(" (device {id})") } else { String::new() };
    let percent = |share: f64| {
        if share > 1.0 { "more than all".into() } else { format!("{} %", units::figures(100.0 * share)) }
    };
    let most = if share >= 1.0 { "all of it".to_owned() } else { format!("at most {}", percent(share)) };
    let by = if rate_is_shown_only { ", the rate shown since no peak is known" } else { "" };
    let gb_per_s = |bytes_per_s: f64| units::figures(bytes_per_s / 1e9);
    let several = verdict.devices.len() > 1;
    let mean = if several { "\n  - devices can hide for one another: the bound is for their mean" } else { "" };
    let is_first = hiding.rule < WALKS_ELSEWHERE_RULE;
    let operands = if hiding.is_by_operands {
        let (rate, held) = (gb_per_s(hiding.operand_bytes_per_s), units::figures(hiding.chip_bytes / 1e6));
        format!(
            "\n  - blocks of lines by operands read again at {rate} GB/s, {held} MB on the chip: {}",
            percent(hiding.operands)
        )
    } else {
        String::new()
    };
    let at = if is_first { String::new() } else { format!(" at {} GB/s", gb_per_s(hiding.bus_bytes_per_s)) };
    let elsewhere = match hiding {
        _ if is_first => "not bounded by the rule of that time".into(),
        _ if hiding.copy_bytes_per_s == 0.0 => "none assumed (copy_gb_per_s)".into(),
        _ => format!("{} at {} GB/s", percent(hiding.elsewhere), gb_per_s(hiding.copy_bytes_per_s)),
    };
    format!(
        "\n\nMemory that may have been elsewhere{of}: {most}\
         \n  - lines moved over buses{at} in the time of the probe: {}\
         \n  - lines computed again at {} T MAC/s{by}: {}\
         {operands}\n  - steps made in a copy elsewhere: {elsewhere}{mean}",
        percent(over_buses),
        units::figures(rate_per_s / 1e12),
        percent(computed)
    )
}

fn not_challenged(verdict: &Verdict) -> String {
    let mut out = String::new();
    for device in &verdict.not_challenged {
        let (id, name) = (device.device_id, quoted(&device.name));
        let slots = units::counted(device.slots.into(), "slot");
        let _ = write!(out, "\nNot challenged: device {id} ({name}), which holds {slots} of n = {}.", verdict.n);
    }
    if out.is_empty() { out } else { format!("\n{out}") }
}

/// The missing devices, and the new ones.
fn changed_devices(verdict: &Verdict) -> String {
    let line = |what: &str, device: &NamedDevice, about: &str| {
        format!("\n{what}: device {} ({}), {about}.", device.device_id, quoted(&device.name))
    };
    let missing = verdict.missing_devices.iter().map(|d| line("Missing", d, "which the key showed before"));
    let new = verdict.new_devices.iter().map(|d| line("New", d, "which the key never showed before"));
    let out: String = missing.chain(new).collect();
    if out.is_empty() { out } else { format!("\n{out}") }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use assay_protocol::verdict::{Mode, ReasonCode, UnchallengedDevice};
    use assay_work::{ChallengeId, DeviceId, PublicKey};

    fn work() -> Work {
        Work {
            matrices: 512,
            bytes_held: 2 << 30,
            multiply_accumulates: 4_380_000_000_000,
            seconds: 7.3,
            tops: 1.2,
            probe_bytes: 1 << 30,
            probe_seconds: 0.25,
            probe_gb_per_s: 4.29,
            samples: 128,
            segments: 32,
            claimed_seconds: Some(7.1),
        }
    }

    pub(crate) fn verdict(reasons: Vec<Reason>) -> Verdict {
        let device = |id: u8| DeviceWork {
            device_id: DeviceId([id; 16]),
            name: "H200\x1b[2J".to_owned(),
            work: work(),
            claimed_telemetry: None,
            sweep: None,
            rates: Vec::new(),
            hiding: Some(Hiding {
                rate_per_s: 1.3e15,
                rate_is_shown_only: true,
                computed: 0.021,
                over_buses: 0.0125,
                share: 0.085,
                bus_bytes_per_s: 64e9,
                copy_bytes_per_s: 0.0,
                elsewhere: 0.0,
                open_walks: 0.089,
                rule: assay_protocol::verdict::HIDING_RULE,
                ..Hiding::default()
            }),
        };
        Verdict {
            challenge_id: ChallengeId([1; 16]),
            miner_key: PublicKey([2; 32]),
            validator_key: PublicKey([3; 32]),
            outcome: assay_protocol::verdict::outcome_of(&reasons),
            reasons,
            precision: assay_work::Precision::Int8,
            mode: Some(Mode::Audit),
            n: 2048,
            iterations: 1,
            iterations_checked: 1,
            devices: vec![device(0xaa), device(0xbb)],
            whole: work(),
            work_bounds: vec![Bound { fraction: 0.1, log2_probability: -19.45 }],
            iteration_bounds: vec![Bound { fraction: 0.05, log2_probability: -0.5 }],
            probe_bounds: vec![Bound { fraction: 0.01, log2_probability: -1.86 }],
            round_trip_ms: Some(3.21),
            handover_ms: Some(0.05),
            roots_ms: Some(1.5),
            digests_ms: None,
            not_challenged: vec![UnchallengedDevice { device_id: DeviceId([0xcc; 16]), name: "tiny".into(), slots: 2 }],
            missing_devices: Vec::new(),
            new_devices: Vec::new(),
            link: Some(LinkWork {
                seconds: 0.2,
                step_seconds: 39.1e-6,
                crossed_bytes: 1 << 40,
                gb_per_s: 375.2,
                half_gb_per_s: 857.0,
                least_gb_per_s: 429.0,
                segments: 32,
                bounds: vec![Bound { fraction: 0.01, log2_probability: -29.7 }],
            }),
            receipt: None,
            abandoned_recently: 1,
            recent_challenges: 20,
            unix_seconds: 0,
        }
    }

    #[test]
    fn a_pass_shows_what_was_found_and_how_sure_that_is() {
        let shown = text(&verdict(vec![]), &Screen::FILE);
        assert!(shown.starts_with("PASS  all checks passed\n"), "{shown}");
        let mut nothing = verdict(vec![]);
        nothing.whole.bytes_held = 0;
        let shown_none = text(&nothing, &Screen::FILE);
        assert!(shown_none.starts_with("PASS  all checks passed, but no memory was shown\n"), "{shown_none}");
        for part in [
            "n = 2048, 1 iteration, 1 checked by audit",
            "3.21 ms round trip, 0.05 ms to hand over, 1.50 ms for roots\n",
            "1 of the last 20 challenges abandoned",
            "Memory that may have been elsewhere (device bbbb",
            "): at most 8.50 %\n",
            "lines moved over buses at 64.0 GB/s in the time of the probe: 1.25 %",
            "steps made in a copy elsewhere: none assumed (copy_gb_per_s)",
            "lines computed again at 1300 T MAC/s, the rate shown since no peak is known: 2.10 %",
            "(\"tiny\"), which holds 2 slots of n = 2048",
            "aaaaaaaa \"H200",
            "bbbbbbbb \"H200",
            "whole host",
            "4.38 T",
            "10 % of the work rests on wrong values: 2⁻¹⁹",
            "5 % of the iterations are faked: 70.8 %",
            "1 % of the memory does not hold its slots: 27.6 %",
            "The 2 devices reach one another's memory at 375 GB/s into each, all at once:\n",
            "a step of all walks took 39.1 µs",
            "two hosts with half of the slots each: only over a network of 857 GB/s each way",
            "the smallest device in another host: only over a network of 429 GB/s each way",
            "1 % of the lines of the linked probe are wrong: 2⁻²⁹",
        ] {
            assert!(shown.contains(part), "{part} in\n{shown}");
        }
    }

    #[test]
    fn a_reason_comes_with_its_class_device_and_advice() {
        let reason = Reason::on_device(ReasonCode::AuditElement, DeviceId([0xbb; 16]), "slot 7, row 3");
        let shown = text(&verdict(vec![reason]), &Screen::FILE);
        assert!(shown.starts_with("FAIL  the miner sent invalid data"), "{shown}");
        let device = "bb".repeat(16);
        assert!(shown.contains(&format!("forged audit_element, device {device} (\"H200")), "{shown}");
        assert!(shown.contains("what:   slot 7, row 3"), "{shown}");
        assert!(shown.contains(ReasonCode::AuditElement.advice()), "{shown}");
        let late = text(&verdict(vec![Reason::new(ReasonCode::ProbeLate, "")]), &Screen::FILE);
        assert!(late.starts_with("FAIL  the miner was too late"), "{late}");
        let evasive = text(&verdict(vec![Reason::new(ReasonCode::AbandonedRepeatedly, "")]), &Screen::FILE);
        assert!(evasive.starts_with("FAIL  the miner broke off too many challenges"), "{evasive}");
        let lost = Verdict { n: 0, iterations: 0, ..verdict(vec![Reason::new(ReasonCode::ValidatorLost, "")]) };
        let shown = headline(&lost, &Screen::FILE);
        assert!(!shown.contains("work") && shown.contains("\n  link "), "it is not known: {shown}");
        let busy = text(&verdict(vec![Reason::new(ReasonCode::MinerBusy, "")]), &Screen::FILE);
        assert!(busy.starts_with("INCONCLUSIVE"), "{busy}");
    }

    #[test]
    fn missing_and_new_devices_are_named() {
        let named = |id| NamedDevice { device_id: DeviceId([id; 16]), name: "H200\x1b[2J".to_owned() };
        let (missing_devices, new_devices) = (vec![named(0xcc)], vec![named(0xdd)]);
        let verdict = |reasons| Verdict {
            missing_devices: missing_devices.clone(),
            new_devices: new_devices.clone(),
            ..verdict(reasons)
        };
        let shown = text(&verdict(vec![]), &Screen::FILE);
        assert!(shown.starts_with("PASS"), "{shown}");
        for part in
            [format!("\nMissing: device {} (\"H200", "cc".repeat(16)), format!("\nNew: device {}", "dd".repeat(16))]
        {
            assert!(shown.contains(&part), "{part} in\n{shown}");
        }
        assert!(!shown.contains('\x1b'));
        let reason = Reason::on_device(ReasonCode::DeviceMissing, DeviceId([0xcc; 16]), "it is gone");
        let shown = text(&verdict(vec![reason]), &Screen::FILE);
        assert!(shown.starts_with("INCONCLUSIVE  all checks passed, but not on all devices"), "{shown}");
        let reason = Reason::new(ReasonCode::ExpectationMissed, "1 of 2 devices took part");
        let shown = text(&verdict(vec![reason]), &Screen::FILE);
        assert!(shown.starts_with("FAIL  the host showed less than is expected of it"), "{shown}");
    }

    #[test]
    fn a_miners_texts_do_not_steer_the_terminal() {
        let reason = Reason::new(ReasonCode::Protocol, "a\x1b]0;title\x07\nPASS");
        let shown = text(&verdict(vec![reason]), &Screen::FILE);
        assert!(!shown.contains(['\x1b', '\x07']), "{shown}");
        assert!(!shown.lines().any(|line| line.starts_with("PASS")), "{shown}");
    }

    #[test]
    fn tables_keep_to_the_width_and_colour_is_for_the_outcome() {
        let screen = Screen { width: Some(80), colour: true };
        let shown = text(&verdict(vec![]), &screen);
        assert!(shown.starts_with("\x1b[1;32mPASS\x1b[0m"));
        let (_, table) = shown.split_once("abandoned\n\n").unwrap();
        let (table, _) = table.split_once("\n\n").unwrap();
        assert!(table.contains("aaaaaaaa \"H200") && table.contains("4.38 T"), "{shown}");
        assert!(table.lines().all(|line| line.chars().count() <= 80), "{shown}");
        // The most devices of a host, with a long name.
        let name = "NVIDIA H100 80GB HBM3 MIG 1g.10gb".to_owned();
        let named =
            |id| DeviceWork { device_id: DeviceId([id; 16]), name: name.clone(), ..verdict(vec![]).devices[0].clone() };
        for count in [2, 64] {
            let many = Verdict { devices: (0..count).map(named).collect(), ..verdict(vec![]) };
            let shown = text(&many, &Screen { width: Some(100), colour: false });
            assert!(shown.lines().all(|line| line.chars().count() <= 100), "{shown}");
        }
        // One line per device where there is room.
        let wide = text(&verdict(vec![]), &Screen { width: Some(140), colour: false });
        assert!(wide.lines().any(|line| line.contains("aaaaaaaa \"H200") && line.contains("4.38 T")), "{wide}");
    }
}
