//! The results of each device, the time of each part, and the miner's claims of its sensors.

use std::collections::BTreeSet;

use assay_program::render::units::{self, figures, gib};
use assay_protocol::claims::Telemetry;
use assay_protocol::verdict::{DeviceWork, Verdict, Work};
use maud::{Markup, html};

use crate::frame::headings;
use crate::text::{capital, name, short};

const SHOWN: [&str; 10] = [
    "Device",
    "#Matrices",
    "#GiB held",
    "#MACs",
    "#Seconds",
    "#TOPS",
    "#Probe GB/s",
    "#Samples",
    "#Segments",
    "#Claimed s",
];

/// The table of figures.
pub(super) fn section(verdict: &Verdict) -> Markup {
    if verdict.devices.is_empty() {
        return Markup::default();
    }
    html! {
        section aria-labelledby="shown" {
            h2 id="shown" { "What each device showed" }
            div.table.cards tabindex="0" role="group" aria-labelledby="shown" {
                table {
                    (headings(&SHOWN))
                    tbody {
                        @for device in &verdict.devices {
                            tr { th scope="row" { (label(device)) } (cells(&device.work)) }
                        }
                        @if verdict.devices.len() > 1 { tr { th scope="row" { "Whole host" } (cells(&verdict.whole)) } }
                    }
                }
            }
            @if let field = verdict.field_operations_per_s(&verdict.whole) && field > 0.0 {
                p { (units::count(field as u128)) " field operations a second: squarings and additions modulo BN254's order." }
            }
            (rates(verdict))
            (link(verdict))
            (sweeps(verdict))
            p.muted {
                "On the validator's clock; nothing is subtracted for the network. Names and claimed seconds are claims."
            }
        }
    }
}

pub(super) fn label(device: &DeviceWork) -> Markup {
    let id = device.device_id.to_string();
    html! { (name(&device.name)) span.sub { code title=(id) { (short(&id)) } } }
}

/// The same on one line, among other words.
pub(super) fn label_in_line(device: &DeviceWork) -> Markup {
    let id = device.device_id.to_string();
    html! { (name(&device.name)) " (" code title=(id) { (short(&id)) } ")" }
}

/// The rates of the devices by kind of work, where some device showed more than one kind.
fn rates(verdict: &Verdict) -> Markup {
    let is_told =
        |device: &DeviceWork| device.rates.iter().any(|rate| rate.precision != verdict.precision || rate.detour > 1.0);
    let kinds: BTreeSet<_> = verdict.devices.iter().flat_map(|d| &d.rates).map(|rate| rate.precision).collect();
    if !verdict.devices.iter().any(is_told) {
        return Markup::default();
    }
    let rate =
        |device: &DeviceWork, kind| device.rates.iter().find(|rate| rate.precision == kind).map(|rate| rate.tops);
    html! {
        h3 id="rates" { "TOPS by kind of work" }
        div.table.cards tabindex="0" role="group" aria-labelledby="rates" {
            table {
                thead { tr { th scope="col" { "Device" } @for kind in &kinds { th.num scope="col" { (kind) } } } }
                tbody {
                    @for device in &verdict.devices {
                        tr {
                            th scope="row" { (label(device)) }
                            @for kind in &kinds {
                                td.num data-of=(kind) { (rate(device, *kind).map_or_else(|| "–".to_owned(), shown)) }
                            }
                        }
                    }
                }
            }
        }
        p.muted {
            "Each of the last challenge of its kind that was passed. A rate can be understated, never overstated; it does "
            "not show which unit computed it."
            @for kind in kinds.iter().filter(|kind| kind.largest_detour() > 1.0) {
                " In " (kind) " a known detour over another unit is up to ×" (kind.largest_detour()) " as fast."
            }
        }
    }
}

/// The linked probe's results, where there was one.
fn link(verdict: &Verdict) -> Markup {
    let Some(link) = &verdict.link else { return Markup::default() };
    html! {
        h3 id="link" { "Memory of one another" }
        p {
            "The " (verdict.devices.len()) " devices reach one another's memory at " (figures(link.gb_per_s))
            " GB/s into each, all at once; a step of all walks took " (figures(1e6 * link.step_seconds)) " µs."
        }
        p.muted {
            "Were they in two hosts with half of the slots each, the network between them would carry "
            (figures(link.half_gb_per_s)) " GB/s each way; with the smallest device alone in another host, "
            (figures(link.least_gb_per_s)) ". A network that is as fast is not told apart, and where devices have PCIe "
            "alone, neither is one of 400 Gbit/s for each."
        }
    }
}

/// The sweep's results of each device, where there was one.
fn sweeps(verdict: &Verdict) -> Markup {
    let swept: Vec<_> = verdict.devices.iter().filter_map(|device| Some((device, device.sweep?))).collect();
    html! {
        @if !swept.is_empty() {
            h3 id="sweep" { "Memory read in order" }
            ul.sentences {
                @for (device, sweep) in swept { li { (label_in_line(device)) ": " (sweep.meaning()) "." } }
            }
        }
    }
}

/// A figure, or a dash where the challenge did not come so far.
fn shown(number: f64) -> String {
    if number == 0.0 { "–".to_owned() } else { figures(number) }
}

fn cells(work: &Work) -> Markup {
    let cells = [
        ("Matrices", work.matrices.to_string()),
        ("GiB held", gib(work.bytes_held)),
        ("MACs", units::count(work.multiply_accumulates)),
        ("Seconds", shown(work.seconds)),
        ("TOPS", shown(work.tops)),
        ("Probe GB/s", shown(work.probe_gb_per_s)),
        ("Samples", work.samples.to_string()),
        ("Segments", work.segments.to_string()),
        ("Claimed s", work.claimed_seconds.map_or_else(|| "–".to_owned(), figures)),
    ];
    html! { @for (of, figure) in cells { td.num data-of=(of) { (figure) } } }
}

/// How long each part of the challenge took, drawn to scale.
pub(super) fn clock(verdict: &Verdict) -> Markup {
    let (work, probe) = (verdict.whole.seconds, verdict.whole.probe_seconds);
    let after = |ms: Option<f64>| ms.unwrap_or(0.0) / 1000.0;
    let parts = [
        ("work", "Work, to the commitment", work),
        ("probe", "Probe, to its answer", probe),
        ("roots", "Roots behind the commitment", after(verdict.roots_ms)),
        ("digests", "Digests behind the answer", after(verdict.digests_ms)),
    ];
    let longest = parts.iter().map(|part| part.2).filter(|seconds| seconds.is_finite()).fold(0.0, f64::max);
    html! {
        section.panel.clock aria-labelledby="times" {
            h2 id="times" { "Times" }
            @if longest > 0.0 {
                (bars(&parts, longest))
            } @else {
                p.none { "The challenge ended before anything was timed." }
            }
            dl.facts {
                @if let Some(ms) = verdict.round_trip_ms { dt { "Round trip" } dd { (figures(ms)) " ms, by ping" } }
                @if let Some(ms) = verdict.handover_ms {
                    dt { "Handover" } dd { (figures(ms)) " ms: the longest wait of a message for the miner to read" }
                }
            }
        }
    }
}

/// Seconds, or milliseconds where they are few.
fn timed(seconds: f64) -> String {
    if seconds < 1.0 { format!("{} ms", figures(seconds * 1000.0)) } else { format!("{} s", figures(seconds)) }
}

fn bars(parts: &[(&str, &str, f64); 4], longest: f64) -> Markup {
    const WIDTH: f64 = 420.0;
    const ROW: usize = 34;
    let width = |seconds: f64| ((seconds / longest).clamp(0.0, 1.0) * WIDTH).max(1.0).round();
    let words: Vec<_> = parts.iter().map(|(_, what, seconds)| format!("{what}: {}", timed(*seconds))).collect();
    html! {
        svg viewBox={ "0 0 " (WIDTH) " " (ROW * parts.len()) } role="img" aria-label=(words.join("; ")) {
            @for (index, (class, what, seconds)) in parts.iter().enumerate() {
                text.tick x="0" y=(index * ROW + 11) { (what) ": " (timed(*seconds)) }
                rect.(class) x="0" y=(index * ROW + 16) width=(width(*seconds)) height="10" rx="2" {}
            }
        }
    }
}

/// The miner's claims of its sensors' readings.
pub(super) fn claims(verdict: &Verdict) -> Markup {
    let claimed: Vec<_> =
        verdict.devices.iter().filter_map(|device| Some((device, device.claimed_telemetry.as_ref()?))).collect();
    if claimed.is_empty() {
        return Markup::default();
    }
    html! {
        section aria-labelledby="claims" {
            h2 id="claims" { "Sensors, as the miner claims" }
            div.table.cards tabindex="0" role="group" aria-labelledby="claims" {
                table {
                    (headings(&["Device", "Readings", "To look at"]))
                    tbody {
                        @for (device, telemetry) in claimed {
                            tr {
                                th scope="row" { (label(device)) }
                                td data-of="Readings" { (telemetry) }
                                td data-of="To look at" { (troubles(telemetry)) }
                            }
                        }
                    }
                }
            }
            p.muted { "No verdict rests on these." }
        }
    }
}

fn troubles(telemetry: &Telemetry) -> Markup {
    let troubles = telemetry.troubles();
    html! {
        @if troubles.is_empty() { span.muted { "Nothing" } }
        @for trouble in troubles { p { (capital(&trouble)) "." } }
    }
}
