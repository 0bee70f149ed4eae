//! The receipts of one host over a period, as a lender reads them: the time with proof, the least and the median
//! capacity, the devices, and each change. Figures name the receipts that they rest on.

use std::collections::{BTreeMap, BTreeSet};

use assay_work::{Precision, PublicKey};
use serde::{Deserialize, Serialize};

use crate::claims::{Claims, HostResult, Tier, device_label};

/// Changes, and receipts without proof, that are listed: the rest is counted.
const MAX_LISTED: usize = 200;
const DAY_S: u64 = 86_400;
const HOUR_S: f64 = 3600.0;

/// A value, and the receipt that states it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stated<T> {
    /// The value.
    pub value: T,
    /// The receipt's id.
    pub receipt: String,
}

/// The least of a figure, and the lower one of its medians, over the receipts with proof.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StatedRange<T> {
    /// The least.
    pub least: Stated<T>,
    /// The median.
    pub median: Stated<T>,
}

/// A key of the host, from its first receipt on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KeyUse {
    /// The key.
    pub key: PublicKey,
    /// When the first receipt about it was issued, in seconds since 1970.
    pub since_s: u64,
    /// That receipt's id.
    pub receipt: String,
}

/// A day, in UTC.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DayProof {
    /// Its first second, since 1970.
    pub start_s: u64,
    /// Hours of it with proof.
    pub hours: f64,
    /// The first receipt with proof of that day; null: there is none.
    pub receipt: Option<String>,
    /// The least memory that a receipt of that day proves, in bytes.
    pub least_bytes: Option<Stated<u64>>,
}

/// A stretch without proof.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProofGap {
    /// Its start, in seconds since 1970.
    pub from_s: u64,
    /// Its end.
    pub until_s: u64,
    /// The receipt whose proof ended there; null at the start of the period.
    pub after: Option<String>,
}

/// A device over the period.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DevicePeriod {
    /// Its label.
    pub device: String,
    /// The model that the host claims, in the last receipt.
    pub claimed_model: String,
    /// Receipts with proof that it is in.
    pub receipts: u32,
    /// The first of them.
    pub first: Stated<u64>,
    /// The last of them.
    pub last: Stated<u64>,
    /// Bytes in memory at once.
    pub bytes: Option<StatedRange<u64>>,
}

/// A change of the host's identity or devices, between two receipts with proof.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PeriodChange {
    /// When the receipt that shows it was issued, in seconds since 1970.
    pub at_s: u64,
    /// `key`, `device_new`, `device_gone` or `model`.
    pub what: String,
    /// The key, the device, or both models.
    pub detail: String,
    /// The receipt that shows it.
    pub receipt: String,
}

/// A receipt that proves nothing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Unproven {
    /// When it was issued, in seconds since 1970.
    pub at_s: u64,
    /// The receipt.
    pub receipt: String,
    /// Its status.
    pub status: Tier,
    /// Its reasons, class and code of each, and its enforced findings.
    pub reasons: Vec<String>,
}

/// The rate of a kind of work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KindRange {
    /// The kind, by its number.
    pub precision: Precision,
    /// 10¹² operations a second.
    pub tops: StatedRange<f64>,
}

/// A host's receipts over a period.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PeriodReport {
    /// The keys that the receipts are about, in order of their first one.
    pub keys: Vec<KeyUse>,
    /// The start of the period, in seconds since 1970.
    pub from_s: u64,
    /// Its end, or the time of the report.
    pub until_s: u64,
    /// Receipts of the period, by status.
    pub receipts: BTreeMap<String, u32>,
    /// Days with a receipt with proof.
    pub days_proven: u32,
    /// Hours in which a receipt with proof was in force.
    pub hours_proven: f64,
    /// The other hours.
    pub hours_without_proof: f64,
    /// The longest stretch without proof.
    pub longest_gap: Option<ProofGap>,
    /// Bytes in memory at once, of the host, by the policy that asked for most: as all capacities here.
    pub bytes: Option<StatedRange<u64>>,
    /// Rates of the host, by kind of work.
    pub rates: Vec<KindRange>,
    /// 10⁹ bytes a second of the probe, of the host.
    pub probe_gb_per_s: Option<StatedRange<f64>>,
    /// Every day of the period.
    pub days: Vec<DayProof>,
    /// Every device that a receipt with proof names.
    pub devices: Vec<DevicePeriod>,
    /// Changes of identity and devices, oldest first.
    pub changes: Vec<PeriodChange>,
    /// Changes that are not listed.
    pub changes_left_out: u64,
    /// Receipts of the period without proof, oldest first.
    pub unproven: Vec<Unproven>,
    /// Such receipts that are not listed.
    pub unproven_left_out: u64,
}

impl PeriodReport {
    /// The report of these receipts of one host, whose signatures hold. Those issued before the period count for the time
    /// in it that they are in force.
    pub fn of(mut receipts: Vec<Claims>, from_s: u64, until_s: u64) -> Self {
        receipts.sort_by(|one, other| (one.iat, &one.jti).cmp(&(other.iat, &other.jti)));
        receipts.dedup_by(|one, other| one.jti == other.jti);
        receipts.retain(|receipt| receipt.iat < until_s);
        let spans = spans(&receipts, from_s, until_s);
        let changes = changes(&receipts, from_s);
        let (before, receipts) = receipts.split_at(receipts.partition_point(|receipt| receipt.iat < from_s));
        let proven: Vec<_> = receipts.iter().filter(|receipt| receipt.ear_status == Tier::Affirming).collect();
        let full = fullest(&proven);
        let days = days(&proven, &full, &spans, from_s, until_s);
        let hours_proven = hours(&spans, from_s, until_s);
        let unproven = unproven(receipts);
        let mut by_status = BTreeMap::new();
        for receipt in receipts {
            *by_status.entry(receipt.ear_status.name().to_owned()).or_insert(0) += 1;
        }
        Self {
            // Without a receipt of the period those before it name the host.
            keys: keys(if receipts.is_empty() { before } else { receipts }),
            from_s,
            until_s,
            receipts: by_status,
            days_proven: days.iter().filter(|day| day.receipt.is_some()).map(|_| 1).sum(),
            hours_proven,
            hours_without_proof: until_s.saturating_sub(from_s) as f64 / HOUR_S - hours_proven,
            longest_gap: longest_gap(&spans, from_s, until_s),
            bytes: range(&full, proven_bytes, u64::cmp),
            rates: rates(&proven),
            probe_gb_per_s: range(&full, |receipt| Some(host(receipt).proven?.gb_per_s), f64::total_cmp),
            days,
            devices: devices(&proven, &full),
            changes_left_out: changes.len().saturating_sub(MAX_LISTED) as u64,
            changes: changes.into_iter().take(MAX_LISTED).collect(),
            unproven_left_out: unproven.len().saturating_sub(MAX_LISTED) as u64,
            unproven: unproven.into_iter().take(MAX_LISTED).collect(),
        }
    }
}

const fn host(receipt: &Claims) -> &HostResult {
    &receipt.submods.host.ear_verifier_claims
}

/// The receipts by the policy of the one that proves most memory of a whole host: others ask for less, such as those of
/// light challenges. One in which a device took no part proves less.
fn fullest<'a>(proven: &[&'a Claims]) -> Vec<&'a Claims> {
    let asked = |receipt: &'a Claims| &receipt.submods.host.ear_appraisal_policy_ids;
    let whole: Vec<_> = proven.iter().copied().filter(|receipt| host(receipt).not_challenged.is_empty()).collect();
    let most = whole.iter().max_by_key(|receipt| proven_bytes(receipt)).map(|receipt| asked(receipt));
    let of_most = |receipt: &&'a Claims| Some(asked(receipt)) == most;
    // Not every device computes each kind.
    let kinds: BTreeSet<_> = whole.into_iter().filter(of_most).map(|receipt| host(receipt).precision.code()).collect();
    let is_whole = |receipt: &&Claims| kinds.contains(&host(receipt).precision.code());
    proven.iter().copied().filter(|receipt| of_most(receipt) && is_whole(receipt)).collect()
}

fn proven_bytes(receipt: &Claims) -> Option<u64> {
    Some(host(receipt).proven?.bytes)
}

/// A stretch in which a receipt with proof is in force.
struct ProofSpan<'a> {
    from_s: u64,
    until_s: u64,
    receipt: &'a str,
}

/// The stretches with proof, in order of their start: each from the issue of a receipt to its end, or to a receipt that
/// speaks against the host. They may overlap.
fn spans(receipts: &[Claims], from_s: u64, until_s: u64) -> Vec<ProofSpan<'_>> {
    let mut spans: Vec<ProofSpan<'_>> = Vec::new();
    for receipt in receipts {
        match receipt.ear_status {
            Tier::Affirming => {
                spans.push(ProofSpan { from_s: receipt.iat, until_s: receipt.exp.min(until_s), receipt: &receipt.jti });
            }
            Tier::Warning | Tier::Contraindicated => {
                spans.iter_mut().for_each(|span| span.until_s = span.until_s.min(receipt.iat));
            }
            Tier::None => {}
        }
    }
    for span in &mut spans {
        span.from_s = span.from_s.max(from_s);
    }
    spans.retain(|span| span.until_s > span.from_s);
    spans
}

/// The hours that any of these stretches covers.
fn hours(spans: &[ProofSpan<'_>], from_s: u64, until_s: u64) -> f64 {
    let (mut seconds, mut end) = (0, from_s);
    for span in spans {
        let last = span.until_s.min(until_s);
        seconds += last.saturating_sub(span.from_s.max(end));
        end = end.max(last);
    }
    seconds as f64 / HOUR_S
}

fn longest_gap(spans: &[ProofSpan<'_>], from_s: u64, until_s: u64) -> Option<ProofGap> {
    let (mut longest, mut end, mut after) = (None::<ProofGap>, from_s, None::<&str>);
    let last = ProofSpan { from_s: until_s, until_s, receipt: "" };
    for span in spans.iter().chain([&last]) {
        let seconds = span.from_s.saturating_sub(end);
        if seconds > longest.as_ref().map_or(0, |gap| gap.until_s - gap.from_s) {
            longest = Some(ProofGap { from_s: end, until_s: span.from_s, after: after.map(str::to_owned) });
        }
        if span.until_s > end {
            (end, after) = (span.until_s, Some(span.receipt));
        }
    }
    longest
}

fn days<'a>(
    proven: &[&'a Claims],
    full: &[&'a Claims],
    spans: &[ProofSpan<'_>],
    from_s: u64,
    until_s: u64,
) -> Vec<DayProof> {
    let starts = (from_s..until_s).step_by(usize::try_from(DAY_S).unwrap_or(usize::MAX));
    let day = |start_s: u64| {
        let end_s = start_s + DAY_S;
        let of_day = |receipts: &[&'a Claims]| -> Vec<&'a Claims> {
            receipts.iter().copied().filter(|receipt| (start_s..end_s).contains(&receipt.iat)).collect()
        };
        DayProof {
            start_s,
            hours: hours(spans, start_s, end_s),
            receipt: of_day(proven).first().map(|receipt| receipt.jti.clone()),
            least_bytes: range(&of_day(full), proven_bytes, u64::cmp).map(|bytes| bytes.least),
        }
    };
    starts.map(day).collect()
}

fn keys(receipts: &[Claims]) -> Vec<KeyUse> {
    let mut keys: Vec<KeyUse> = Vec::new();
    for receipt in receipts {
        if keys.iter().all(|known| known.key != receipt.sub) {
            keys.push(KeyUse { key: receipt.sub, since_s: receipt.iat, receipt: receipt.jti.clone() });
        }
    }
    keys
}

/// The least and the lower median of a figure.
fn range<T: Copy>(
    receipts: &[&Claims],
    figure: impl Fn(&Claims) -> Option<T>,
    order: impl Fn(&T, &T) -> std::cmp::Ordering,
) -> Option<StatedRange<T>> {
    let mut found: Vec<_> = receipts.iter().filter_map(|one| Some((figure(one)?, one))).collect();
    found.sort_by(|(one, _), (other, _)| order(one, other));
    let stated = |at: usize| found.get(at).map(|(value, one)| Stated { value: *value, receipt: one.jti.clone() });
    Some(StatedRange { least: stated(0)?, median: stated((found.len() - 1) / 2)? })
}

fn rates(proven: &[&Claims]) -> Vec<KindRange> {
    let kinds = Precision::ALL.iter().copied();
    let kind = |precision| {
        let of_kind: Vec<_> = proven.iter().copied().filter(|receipt| host(receipt).precision == precision).collect();
        let tops = range(&fullest(&of_kind), |receipt| Some(host(receipt).proven?.tops), f64::total_cmp)?;
        Some(KindRange { precision, tops })
    };
    kinds.filter_map(kind).collect()
}

fn devices(proven: &[&Claims], full: &[&Claims]) -> Vec<DevicePeriod> {
    let mut found: BTreeMap<&str, Vec<&Claims>> = BTreeMap::new();
    for receipt in proven {
        for label in receipt.submods.devices.keys() {
            found.entry(label).or_default().push(receipt);
        }
    }
    let device = |(label, receipts): (&str, Vec<&Claims>)| {
        let (first, last) = (receipts.first()?, receipts.last()?);
        let stated = |receipt: &Claims| Stated { value: receipt.iat, receipt: receipt.jti.clone() };
        let bytes = |receipt: &Claims| Some(receipt.submods.devices.get(label)?.ear_verifier_claims.proven?.bytes);
        Some(DevicePeriod {
            device: label.to_owned(),
            claimed_model: claimed_model(last, label).to_owned(),
            receipts: u32::try_from(receipts.len()).unwrap_or(u32::MAX),
            first: stated(first),
            last: stated(last),
            bytes: range(full, bytes, u64::cmp),
        })
    };
    found.into_iter().filter_map(device).collect()
}

fn claimed_model<'a>(receipt: &'a Claims, label: &str) -> &'a str {
    let claims = receipt.submods.devices.get(label).and_then(|device| device.ear_attester_claims.as_ref());
    claims.map_or("", |claims| &claims.claimed_model)
}

/// The changes from `from_s` on. Receipts before that name the devices known then.
fn changes(receipts: &[Claims], from_s: u64) -> Vec<PeriodChange> {
    let mut changes = Vec::new();
    // Devices of receipts with proof that none has missed since, with their claimed models.
    let mut known = BTreeMap::<&str, &str>::new();
    let (mut key, mut has_devices) = (None, false);
    for receipt in receipts {
        let mut changed = |what: &str, detail: String| {
            let receipt_id = receipt.jti.clone();
            changes.push(PeriodChange { at_s: receipt.iat, what: what.to_owned(), detail, receipt: receipt_id });
        };
        if let Some(before) = key.replace(receipt.sub).filter(|before| *before != receipt.sub) {
            changed("key", format!("{} instead of {before}", receipt.sub));
        }
        if receipt.ear_status != Tier::Affirming {
            continue;
        }
        let unasked: Vec<_> = host(receipt).not_challenged.iter().map(|id| device_label(*id)).collect();
        known.retain(|label, model| {
            let is_there = receipt.submods.devices.contains_key(*label) || unasked.iter().any(|other| other == label);
            if !is_there {
                changed("device_gone", format!("{label}, {model}"));
            }
            is_there
        });
        for label in receipt.submods.devices.keys() {
            let model = claimed_model(receipt, label);
            match known.insert(label, model) {
                Some(before) if before != model => changed("model", format!("{label}: {model} instead of {before}")),
                None if has_devices => changed("device_new", format!("{label}, {model}")),
                _ => {}
            }
        }
        has_devices = true;
    }
    changes.retain(|change| change.at_s >= from_s);
    changes
}

fn unproven(receipts: &[Claims]) -> Vec<Unproven> {
    let unproven = receipts.iter().filter(|receipt| receipt.ear_status != Tier::Affirming);
    let listed = |receipt: &Claims| Unproven {
        at_s: receipt.iat,
        receipt: receipt.jti.clone(),
        status: receipt.ear_status,
        reasons: {
            let reasons = host(receipt).reasons.iter().map(|reason| format!("{} {}", reason.class, reason.code));
            let enforced = host(receipt).findings.iter().filter(|finding| finding.enforced);
            reasons.chain(enforced.map(|finding| format!("finding {}", finding.code))).collect()
        },
    };
    unproven.map(listed).collect()
}

#[cfg(test)]
mod tests;
