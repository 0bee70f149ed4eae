//! Log lines for operators.
//!
//! Each line has the same few fields under the same names, so that a search finds all lines of a miner or of a
//! challenge.

use std::fmt;
use std::net::SocketAddr;
use std::time::Instant;

use assay_observe::trace_id;
use assay_policy::Change;
use assay_program::logging::list;
use assay_protocol::verdict::{NamedDevice, Outcome, Reason, Verdict};
use assay_work::text::quoted;
use assay_work::{ChallengeId, PublicKey};
use tracing::field::{DisplayValue, display};

use crate::order::Order;
use crate::takeover::{EnterError, place};
use assay_judge::action::ChallengeFacts;
use assay_judge::facts::FleetFinding;
use assay_listen::gate::{Gate, LogPermit};

/// The session of an event.
#[derive(Debug, Clone)]
pub struct EventSession {
    pub session: u64,
    /// Proved key of the miner.
    pub miner: PublicKey,
    /// Address of the peer.
    pub address: Option<SocketAddr>,
    /// The miner's program and version: a claim.
    pub agent: String,
    /// Time of its acceptance.
    pub since: Instant,
}

/// Logs a miner that proved its key and was entered, perhaps in the place of an earlier session.
pub fn connected(gate: &Gate, who: &EventSession, devices: usize, before: Option<&EventSession>) {
    let EventSession { session, miner, address, agent, .. } = who;
    if let Some(LogPermit { left_out }) = gate.line(*address) {
        let (address, agent) = (field(*address), agent.as_str());
        tracing::info!(%miner, address, agent, devices, session, left_out, "miner connected");
    }
    if let Some(before) = before
        && let Some(LogPermit { left_out }) = gate.line(*address)
    {
        tracing::warn!(
            %miner,
            address = field(*address),
            previous_address = field(before.address),
            session,
            left_out,
            "this session took over from an earlier one of the same key, {}: if that was another miner, give each a key of \
             its own (key_file)",
            place(before.address)
        );
    }
}

/// Logs a miner that proved its key and was not entered.
pub fn not_entered(gate: &Gate, who: &EventSession, error: EnterError) {
    let EventSession { session, miner, address, .. } = who;
    let Some(LogPermit { left_out }) = gate.line(*address) else { return };
    let address = field(*address);
    let other_address = if let EnterError::InChallenge(other) = error { field(other) } else { None };
    if matches!(error, EnterError::NotAllowed(_) | EnterError::Waiting(_)) {
        tracing::info!(%miner, address, session, left_out, "miner refused: {error}");
    } else {
        tracing::warn!(%miner, address, other_address, session, left_out, "miner refused: {error}");
    }
}

/// Logs the end of a miner's session.
pub fn left(gate: &Gate, who: &EventSession, why: &str) {
    let EventSession { session, miner, address, agent, since } = who;
    let connected_s = since.elapsed().as_secs();
    let Some(LogPermit { left_out }) = gate.line(*address) else { return };
    let (address, agent) = (field(*address), agent.as_str());
    tracing::info!(%miner, address, agent, connected_s, session, left_out, "miner left: {why}");
}

/// Logs a connection that ended before it belonged to a miner.
pub fn turned_away(gate: &Gate, session: u64, address: Option<SocketAddr>, why: &str) {
    if let Some(LogPermit { left_out }) = gate.line(address) {
        tracing::info!(address = field(address), session, left_out, "no session: {why}");
    }
}

/// Logs the start of a challenge.
pub fn started(who: &EventSession, facts: &ChallengeFacts, order: &Order) {
    let ChallengeFacts { id, mode, precision, n, iterations, devices, slots, .. } = *facts;
    let EventSession { miner, address, .. } = who;
    tracing::info!(
        challenge = %id,
        trace_id = trace_id(id),
        %miner,
        address = field(*address),
        precision = %precision,
        n,
        iterations,
        devices,
        slots,
        %mode,
        by = order.asked.name(),
        kind = order.kind,
        round = field(order.round.as_ref().map(|round| &round.id)),
        "challenge started"
    );
}

/// Logs the start of a challenge's phase.
pub fn phase(who: &EventSession, challenge: ChallengeId, phase: &str, began: Instant) {
    let seconds = seconds(began);
    let (miner, address, trace_id) = (&who.miner, field(who.address), trace_id(challenge));
    tracing::info!(%challenge, trace_id, %miner, address, phase, seconds, "challenge goes on");
}

/// Logs a recorded verdict. `began` is `None` where the host had no device to challenge.
pub fn verdict(who: &EventSession, verdict: &Verdict, began: Option<Instant>) {
    let Verdict {
        challenge_id, miner_key, outcome, reasons, mode, precision, n, iterations, devices, whole, link, ..
    } = verdict;
    let reason_codes = (!reasons.is_empty()).then(|| list(reasons.iter().map(|reason| reason.code.name())));
    let details = (!reasons.is_empty()).then(|| list(reasons.iter().map(detail)));
    let named = |devices: &[NamedDevice]| (!devices.is_empty()).then(|| list(devices.iter().map(name)));
    // Unproved figures get no field.
    let shown = |number: f64| Some((number * 1e3).round() / 1e3).filter(|rounded| *rounded > 0.0);
    macro_rules! line {
        ($level:ident) => {
            tracing::$level!(
                challenge = %challenge_id,
                trace_id = trace_id(*challenge_id),
                miner = %miner_key,
                address = field(who.address),
                reasons = reason_codes,
                details,
                missing = named(&verdict.missing_devices),
                new = named(&verdict.new_devices),
                precision = %precision,
                n,
                iterations,
                devices = devices.len(),
                slots = (whole.matrices > 0).then_some(whole.matrices),
                mode = field(*mode),
                seconds = began.map(seconds),
                work_s = shown(whole.seconds),
                probe_s = shown(whole.probe_seconds),
                tops = shown(whole.tops),
                gb_per_s = shown(whole.probe_gb_per_s),
                link_gb_per_s = link.as_ref().and_then(|link| shown(link.gb_per_s)),
                gib_held = shown(whole.bytes_held as f64 / f64::from(1 << 30)),
                "{outcome}"
            )
        };
    }
    let is_plain = *outcome == Outcome::Pass && verdict.missing_devices.is_empty();
    if is_plain { line!(info) } else { line!(warn) }
}

/// Logs findings beside the work, and the change of the attestation state.
pub fn judged(who: &EventSession, found: &[FleetFinding], change: Option<&Change>) {
    let EventSession { miner, .. } = who;
    for FleetFinding { code, device_id, other, detail, enforced, disputed: _ } in found {
        let (device, other) = (field(*device_id), other.as_deref());
        tracing::warn!(%miner, device, other, enforced, finding = %code, "found: {detail}");
    }
    if let Some(Change { from, to, why, detail }) = change {
        let why = why.name();
        if to.is_attested() {
            tracing::info!(%miner, %from, %to, why, "attestation: {detail}");
        } else {
            tracing::warn!(%miner, %from, %to, why, "attestation: {detail}");
        }
    }
}

fn detail(reason: &Reason) -> String {
    let on = reason.device_id.map(|id| format!(", device {id}")).unwrap_or_default();
    format!("{}{on}: {}", reason.code, quoted(&reason.detail))
}

fn name(device: &NamedDevice) -> String {
    format!("{} {}", device.device_id, quoted(&device.name))
}

/// A field with the value; empty for `None`.
fn field<T: fmt::Display>(value: Option<T>) -> Option<DisplayValue<T>> {
    value.map(display)
}

/// Seconds since a time, to the millisecond.
fn seconds(since: Instant) -> f64 {
    (since.elapsed().as_secs_f64() * 1e3).round() / 1e3
}
