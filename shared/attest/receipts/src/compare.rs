//! Two receipts of one host, one before and one after: devices that are gone, figures that fell, and whose doing it is.

use std::collections::BTreeMap;

use assay_protocol::verdict::Class;
use assay_work::{DeviceId, PublicKey};
use serde::Serialize;

use crate::claims::{
    Appraisal, Claims, DeviceResult, FindingClaim, HostResult, ProvenClaims, ReasonClaim, Tier, device_label,
};

/// The rules of a comparison.
#[derive(Debug, Clone, Copy)]
pub struct ComparisonRules {
    /// Whether the receipts may be about different keys. Devices are then matched by claimed model and capacity.
    pub by_model: bool,
    /// The share by which a rate may fall.
    pub rate_tolerance: f64,
    /// The share by which memory may fall.
    pub memory_tolerance: f64,
    /// A rate that took less time to measure before is not judged, in seconds.
    pub least_seconds: f64,
}

/// Why two receipts do not compare.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ComparisonError {
    /// The receipts are about different keys.
    #[error(
        "the receipts are about different keys, {before} and {after}: --by-model compares hosts without a common key"
    )]
    OtherMiner {
        /// The key of the earlier receipt.
        before: PublicKey,
        /// The key of the later receipt.
        after: PublicKey,
    },
    /// The second receipt is the older one.
    #[error("the second receipt is older than the first: give the earlier one first")]
    Order,
}

/// The result of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ComparisonResult {
    /// Nothing is worse than before.
    Same,
    /// The host shows less than before, by its own doing.
    Worse,
    /// One of the receipts does not show enough.
    Undecided,
}

/// The item of a receipt that a row compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ComparedItem {
    /// The status of the host.
    Status,
    /// A device that is new, gone or was not asked, by its claimed model.
    Device,
    /// The claimed model of a device.
    Model,
    /// Bytes in memory at once, the share that may be hidden among them.
    MemoryBytes,
    /// The share of the memory that may be hidden.
    HiddenShare,
    /// 10¹² operations a second.
    Tops,
    /// 10⁹ bytes a second of the probe.
    ProbeGbPerS,
    /// 10⁹ bytes a second of the sweep.
    SweepGbPerS,
    /// 10⁹ bytes a second of the linked probe.
    LinkedGbPerS,
    /// A reason of the later receipt.
    Reason,
    /// An enforced finding of the later receipt.
    Finding,
}

/// A value of one side.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum ComparedValue {
    /// A number, in the unit of its item.
    Figure(f64),
    /// A name, or a sentence.
    Text(String),
}

/// One compared value.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComparedRow {
    /// The item.
    pub item: ComparedItem,
    /// The device's label, in the receipt that has it; the later one of two.
    pub device: Option<String>,
    /// The earlier value.
    pub before: Option<ComparedValue>,
    /// The later value.
    pub after: Option<ComparedValue>,
    /// The share by which a figure rose.
    pub rise: Option<f64>,
    /// The class of a reason: whose doing it is.
    pub class: Option<String>,
    /// The result of this row alone.
    pub result: ComparisonResult,
}

/// A comparison, row by row.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// The worst of the rows.
    pub result: ComparisonResult,
    /// Whether both are about one key. Else the devices are not known to be the same ones.
    pub same_key: bool,
    /// The status first, then reasons, findings and devices.
    pub rows: Vec<ComparedRow>,
}

/// Compares two receipts whose signatures hold.
///
/// # Errors
/// [`ComparisonError`]: they are about different keys, or in the wrong order.
pub fn compare(before: &Claims, after: &Claims, rules: &ComparisonRules) -> Result<Comparison, ComparisonError> {
    let same_key = before.sub == after.sub;
    if !same_key && !rules.by_model {
        return Err(ComparisonError::OtherMiner { before: before.sub, after: after.sub });
    }
    let (earlier, later) = (&before.submods.host.ear_verifier_claims, &after.submods.host.ear_verifier_claims);
    if later.challenged_at < earlier.challenged_at {
        return Err(ComparisonError::Order);
    }
    let mut rows = vec![status(before.ear_status, after.ear_status)];
    rows.extend(later.reasons.iter().map(|found| reason(found, earlier)));
    rows.extend(later.findings.iter().filter(|finding| finding.enforced).map(|found| finding(found, earlier)));
    // Challenges by other rules fill less memory, or compute less: light ones, for example.
    let [asked_before, asked_after] = [before, after].map(|claims| &claims.submods.host.ear_appraisal_policy_ids);
    let work = |host: &HostResult| (host.precision, host.n, host.mode.clone());
    let same_work = work(earlier) == work(later) && asked_before == asked_after;
    let rates = RateRules { rules, same_work };
    for pair in pairs(before, after, same_key) {
        rows.extend(pair.rows(later, &rates));
    }
    let linked = [earlier, later].map(|host| host.linked.as_ref().map(|link| (link.gb_per_s, link.seconds)));
    rows.extend(rates.row(ComparedItem::LinkedGbPerS, None, linked));
    let is_any = |wanted| rows.iter().any(|row| row.result == wanted);
    let result = if is_any(ComparisonResult::Worse) {
        ComparisonResult::Worse
    } else if is_any(ComparisonResult::Undecided) || !shows(earlier) || !shows(later) || is_cut(later) {
        ComparisonResult::Undecided
    } else {
        ComparisonResult::Same
    };
    Ok(Comparison { result, same_key, rows })
}

/// Whether a receipt shows memory.
fn shows(host: &HostResult) -> bool {
    host.proven.is_some_and(|proven| proven.bytes > 0)
}

/// Whether a receipt leaves out reasons or findings.
const fn is_cut(host: &HostResult) -> bool {
    host.reasons_left_out > 0 || host.findings_left_out > 0
}

fn row(item: ComparedItem, result: ComparisonResult) -> ComparedRow {
    ComparedRow { item, device: None, before: None, after: None, rise: None, class: None, result }
}

fn status(before: Tier, after: Tier) -> ComparedRow {
    let result = match after {
        Tier::Contraindicated if before != Tier::Contraindicated => ComparisonResult::Worse,
        Tier::Warning if before == Tier::Affirming => ComparisonResult::Undecided,
        Tier::None => ComparisonResult::Undecided,
        _ => ComparisonResult::Same,
    };
    let [before, after] = [before, after].map(|tier| Some(ComparedValue::Text(tier.name().to_owned())));
    ComparedRow { before, after, ..row(ComparedItem::Status, result) }
}

/// A reason of the later receipt. One of the host's own doing that the earlier one has as well is nothing new.
fn reason(reason: &ReasonClaim, earlier: &HostResult) -> ComparedRow {
    let hosts = [Class::Forged, Class::Late, Class::Evasive, Class::Short, Class::Sick];
    let is_hosts = hosts.iter().any(|class| class.name() == reason.class);
    let is_old = earlier.reasons.iter().any(|old| (&old.code, old.device_id) == (&reason.code, reason.device_id));
    let result = match is_hosts {
        true if is_old => ComparisonResult::Same,
        true => ComparisonResult::Worse,
        false => ComparisonResult::Undecided,
    };
    let text = ComparedValue::Text(format!("{}: {}", reason.code, reason.detail));
    let device = reason.device_id.map(device_label);
    ComparedRow { device, after: Some(text), class: Some(reason.class.clone()), ..row(ComparedItem::Reason, result) }
}

/// An enforced finding of the later receipt.
fn finding(finding: &FindingClaim, earlier: &HostResult) -> ComparedRow {
    let mut enforced = earlier.findings.iter().filter(|old| old.enforced);
    let is_old = enforced.any(|old| (&old.code, old.device_id) == (&finding.code, finding.device_id));
    let result = if is_old { ComparisonResult::Same } else { ComparisonResult::Worse };
    let text = ComparedValue::Text(format!("{}: {}", finding.code, finding.detail));
    let device = finding.device_id.map(device_label);
    ComparedRow { device, after: Some(text), ..row(ComparedItem::Finding, result) }
}

/// A device before and after.
struct DevicePair<'a> {
    label: &'a str,
    before: Option<&'a Appraisal<DeviceResult>>,
    after: Option<&'a Appraisal<DeviceResult>>,
}

/// The devices of both receipts, matched by id, or by claimed model where the keys differ.
fn pairs<'a>(before: &'a Claims, after: &'a Claims, same_key: bool) -> Vec<DevicePair<'a>> {
    let mut found = Vec::new();
    if same_key {
        let mut rest: BTreeMap<_, _> = after.submods.devices.iter().collect();
        for (label, earlier) in &before.submods.devices {
            found.push(DevicePair { label, before: Some(earlier), after: rest.remove(label) });
        }
        found.extend(rest.into_iter().map(|(label, later)| DevicePair { label, before: None, after: Some(later) }));
        return found;
    }
    let [mut earlier, mut later] = [before, after].map(by_model);
    let models: Vec<_> = earlier.keys().chain(later.keys()).copied().collect();
    for model in models {
        let mut others = later.remove(model).unwrap_or_default().into_iter();
        for (label, before) in earlier.remove(model).unwrap_or_default() {
            let match_after = others.next();
            let label = match_after.map_or(label, |(label, _)| label);
            found.push(DevicePair { label, before: Some(before), after: match_after.map(|(_, device)| device) });
        }
        found.extend(others.map(|(label, after)| DevicePair { label, before: None, after: Some(after) }));
    }
    found
}

type LabelledDevice<'a> = (&'a str, &'a Appraisal<DeviceResult>);

/// The devices of each claimed model, the largest first.
fn by_model(claims: &Claims) -> BTreeMap<&str, Vec<LabelledDevice<'_>>> {
    let mut models: BTreeMap<_, Vec<LabelledDevice<'_>>> = BTreeMap::new();
    for (label, device) in &claims.submods.devices {
        models.entry(model(device)).or_default().push((label, device));
    }
    let capacity = |device: &Appraisal<DeviceResult>| {
        device.ear_verifier_claims.proven.map_or((0, 0.0), |proven| (proven.bytes, proven.tops))
    };
    for devices in models.values_mut() {
        devices.sort_by(|(_, one), (_, other)| {
            let ((bytes, tops), (other_bytes, other_tops)) = (capacity(one), capacity(other));
            other_bytes.cmp(&bytes).then(other_tops.total_cmp(&tops))
        });
    }
    models
}

fn model(device: &Appraisal<DeviceResult>) -> &str {
    device.ear_attester_claims.as_ref().map_or("", |claims| &claims.claimed_model)
}

impl DevicePair<'_> {
    fn rows(&self, later: &HostResult, rates: &RateRules<'_>) -> Vec<ComparedRow> {
        let device = Some(self.label.to_owned());
        let text = |device: &Appraisal<DeviceResult>| Some(ComparedValue::Text(model(device).to_owned()));
        let (before, after) = match (self.before, self.after) {
            (Some(before), Some(after)) => (before, after),
            (before, after) => {
                let is_in = |ids: &[DeviceId]| ids.iter().any(|id| device_label(*id) == self.label);
                let result = match after {
                    Some(_) => ComparisonResult::Same,
                    None if is_in(&later.missing_devices) => ComparisonResult::Worse,
                    // A receipt that shows nothing, such as of a declined challenge, names no device.
                    None if is_in(&later.not_challenged) || !shows(later) => ComparisonResult::Undecided,
                    None => ComparisonResult::Worse,
                };
                let [before, after] = [before, after].map(|device| device.and_then(text));
                return vec![ComparedRow { device, before, after, ..row(ComparedItem::Device, result) }];
            }
        };
        let mut rows = Vec::new();
        if model(before) != model(after) {
            let changed = row(ComparedItem::Model, ComparisonResult::Worse);
            rows.push(ComparedRow { device: device.clone(), before: text(before), after: text(after), ..changed });
        }
        let [earlier, later] = [before, after].map(|device| &device.ear_verifier_claims);
        let shown =
            |figure: fn(&ProvenClaims) -> (f64, f64)| [earlier, later].map(|result| result.proven.as_ref().map(figure));
        let bytes = [earlier, later].map(|result| filled(result).map(|bytes| (bytes, f64::INFINITY)));
        let sweeps = [earlier, later].map(|result| result.sweep.map(|sweep| (sweep.gb_per_s, sweep.seconds)));
        for (item, figures) in [
            (ComparedItem::MemoryBytes, bytes),
            (ComparedItem::Tops, shown(|proven| (proven.tops, proven.seconds))),
            (ComparedItem::ProbeGbPerS, shown(|proven| (proven.gb_per_s, proven.probe_seconds))),
            (ComparedItem::SweepGbPerS, sweeps),
        ] {
            rows.extend(rates.row(item, device.clone(), figures));
        }
        rows.extend(hidden_share(device, earlier, later, rates.rules));
        rows
    }
}

/// The bytes that a device held, of which the proven ones are those that were not elsewhere.
fn filled(result: &DeviceResult) -> Option<f64> {
    let shown = 1.0 - result.hidden_share_at_most.unwrap_or(0.0);
    #[expect(clippy::cast_precision_loss, reason = "a ratio of two numbers of bytes")]
    result.proven.filter(|_| shown > 0.0).map(|proven| proven.bytes as f64 / shown)
}

/// A share that rose so far that less memory is shown, which a slow link does as well as a host.
fn hidden_share(
    device: Option<String>,
    earlier: &DeviceResult,
    later: &DeviceResult,
    rules: &ComparisonRules,
) -> Option<ComparedRow> {
    let (before, after) = (earlier.hidden_share_at_most?, later.hidden_share_at_most?);
    let is_more = 1.0 - after < (1.0 - before) * (1.0 - rules.memory_tolerance);
    let result = if is_more { ComparisonResult::Undecided } else { ComparisonResult::Same };
    let [before, after] = [before, after].map(|share| Some(ComparedValue::Figure(share)));
    Some(ComparedRow { device, before, after, ..row(ComparedItem::HiddenShare, result) })
}

/// The rules, and whether both receipts are of the same work by the same policy.
struct RateRules<'a> {
    rules: &'a ComparisonRules,
    same_work: bool,
}

impl RateRules<'_> {
    /// A figure before and after, each with the seconds of its measurement. `None` where it was not shown before.
    fn row(
        &self,
        item: ComparedItem,
        device: Option<String>,
        [before, after]: [Option<(f64, f64)>; 2],
    ) -> Option<ComparedRow> {
        let (earlier, seconds) = before.filter(|(figure, _)| *figure > 0.0)?;
        let before = Some(ComparedValue::Figure(earlier));
        let Some((later, _)) = after else {
            // Not measured again, or the work did not hold: a reason says so.
            return Some(ComparedRow { device, before, ..row(item, ComparisonResult::Undecided) });
        };
        let tolerance = match item {
            ComparedItem::MemoryBytes => self.rules.memory_tolerance,
            _ => self.rules.rate_tolerance,
        };
        // A stall of the link weighs too much in a short measurement.
        let is_judged = self.same_work && seconds >= self.rules.least_seconds;
        let result = match later >= earlier * (1.0 - tolerance) {
            true => ComparisonResult::Same,
            false if is_judged => ComparisonResult::Worse,
            false => ComparisonResult::Undecided,
        };
        let (after, rise) = (Some(ComparedValue::Figure(later)), Some(later / earlier - 1.0));
        Some(ComparedRow { device, before, after, rise, ..row(item, result) })
    }
}

#[cfg(test)]
mod tests;
