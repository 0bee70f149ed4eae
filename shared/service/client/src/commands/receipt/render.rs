//! Claims of a receipt, for a person.

use std::fmt::Write;

use assay_program::render::table::{self, Cell};
use assay_program::render::{Screen, short_ids, units};
use assay_program::utc;
use assay_receipts::{BoundClaim, Claims, HostResult, ProvenClaims, Tier};
use assay_work::text::{printable, quoted};

/// Limits of every receipt.
const NOT_PROVEN: &str = "Not proven: what the devices are (models are the miner's claims), whose they are, and anything \
                          after the challenge.";

/// The status, the checks, each device's figures, and their bounds. Without a final line break.
pub fn text(claims: &Claims, screen: &Screen) -> String {
    let host = &claims.submods.host.ear_verifier_claims;
    let mut out = format!("{}: {}\n", claims.ear_status.name(), meaning(claims));
    let mut line = |name: &str, value: String| {
        let _ = write!(out, "\n  {name:<10} {value}");
    };
    line("receipt", claims.jti.clone());
    line("issued", format!("{}, expires {}", utc::text(claims.iat), utc::text(claims.exp)));
    line("validator", format!("{} ({})", host.validator_key, quoted(&claims.ear_verifier_id.build)));
    line("miner", format!("{}, {}, group {}", host.miner_key, printable(&host.state, 64), quoted(&host.group)));
    line("nonce", claims.eat_nonce.as_ref().map_or_else(|| "none".into(), ToString::to_string));
    line("challenge", format!("{}, sent {}", host.challenge_id, utc::text(host.challenged_at)));
    line("work", checked(host));
    for (name, ids) in [("left out", &host.not_challenged), ("missing", &host.missing_devices)] {
        if !ids.is_empty() {
            let ids: Vec<_> = ids.iter().map(ToString::to_string).collect();
            line(name, format!("{}: {}", units::counted(ids.len() as u64, "device"), ids.join(", ")));
        }
    }
    for reason in &host.reasons {
        let device = reason.device_id.map(|id| format!(", device {id}")).unwrap_or_default();
        let (class, code) = (printable(&reason.class, 64), printable(&reason.code, 64));
        let _ = write!(out, "\n\n  {class} {code}{device}: {}", printable(&reason.detail, usize::MAX));
    }
    for finding in &host.findings {
        let kind = if finding.enforced { "finding" } else { "recorded only" };
        let _ =
            write!(out, "\n\n  {kind} {}: {}", printable(&finding.code, 64), printable(&finding.detail, usize::MAX));
    }
    let left_out = host.reasons_left_out + host.findings_left_out;
    if left_out > 0 {
        let _ = write!(out, "\n\n  {left_out} more reasons and findings");
    }
    if !claims.submods.devices.is_empty() {
        let _ = write!(out, "\n\n{}", devices(claims, screen));
    }
    out + &bounds(host) + "\n\n" + NOT_PROVEN
}

fn meaning(claims: &Claims) -> String {
    let outcome = printable(&claims.submods.host.ear_verifier_claims.outcome, 64);
    match claims.ear_status {
        Tier::Affirming => format!("the verdict is a {outcome}, and no enforced finding speaks against the host"),
        Tier::Warning if claims.submods.host.ear_verifier_claims.proven.is_some_and(|proven| proven.bytes == 0) => {
            format!("the verdict is a {outcome}, but no memory was shown")
        }
        Tier::Warning => format!("the verdict is a {outcome}, but the miner's state speaks against relying on it"),
        Tier::Contraindicated if outcome == "pass" => "the work held, but a finding speaks against the host".into(),
        Tier::Contraindicated => format!("the verdict is a {outcome}"),
        Tier::None => format!("the verdict is {outcome}: neither a pass nor the miner's failure"),
    }
}

fn checked(host: &HostResult) -> String {
    let mode = host.mode.as_deref().map_or_else(
        || "none checked".into(),
        |mode| format!("{} checked by {}", host.iterations_checked, printable(mode, 64)),
    );
    format!("{}, n = {}, iterations: {}, {mode}", host.precision, host.n, host.iterations)
}

fn devices(claims: &Claims, screen: &Screen) -> String {
    let header = ["device", "claimed model", "status", "GiB held", "TOPS", "probe GB/s", "hidden at most"];
    let mut rows = table::new(screen, &header);
    let ids = claims.submods.devices.keys().map(|label| label.trim_start_matches("device-"));
    for (id, device) in short_ids(ids).iter().zip(claims.submods.devices.values()) {
        let found = &device.ear_verifier_claims;
        let model = device.ear_attester_claims.as_ref().map(|claims| quoted(&claims.claimed_model).to_string());
        let hidden = found.hidden_share_at_most.map_or_else(|| "–".to_owned(), units::percent);
        let [held, tops, rate] = figures(found.proven.as_ref());
        rows.add_row([
            Cell::new(printable(id, 64)),
            Cell::new(model.unwrap_or_default()),
            Cell::new(device.ear_status.name()),
            table::figure(held),
            table::figure(tops),
            table::figure(rate),
            table::figure(hidden),
        ]);
    }
    if claims.submods.devices.len() > 1 {
        let [held, tops, rate] = figures(claims.submods.host.ear_verifier_claims.proven.as_ref());
        let nothing = || Cell::new("–");
        rows.add_row([
            Cell::new("whole host"),
            nothing(),
            Cell::new(claims.submods.host.ear_status.name()),
            table::figure(held),
            table::figure(tops),
            table::figure(rate),
            nothing(),
        ]);
    }
    table::text(&rows)
}

fn figures(proven: Option<&ProvenClaims>) -> [String; 3] {
    let shown = |proven: &ProvenClaims| {
        [units::gib(proven.bytes), units::figures(proven.tops), units::figures(proven.gb_per_s)]
    };
    proven.map_or_else(|| ["–"; 3].map(str::to_owned), shown)
}

fn bounds(host: &HostResult) -> String {
    let Some(soundness) = &host.soundness else { return String::new() };
    let line = |what: &str, bound: &BoundClaim| {
        let chance = units::probability(bound.log2_probability_at_most);
        format!("\n  - {} of {what}: {chance}", units::percent(bound.wrong))
    };
    let work = soundness.work.iter().map(|b| line("the work rests on wrong values", b));
    let drawn = soundness.iterations.iter().map(|b| line("the iterations are faked", b));
    let memory = soundness.memory.iter().map(|b| line("the memory does not hold its slots", b));
    let lines: String = work.chain(drawn).chain(memory).collect();
    if lines.is_empty() { lines } else { format!("\n\nProbability of passing undetected:{lines}") }
}
