//! What a device's speed and memory say against the profile of the model that it claims, and against the fleet's own
//! distribution for that model.
//!
//! A finding against the fleet holds in the distribution over all other operators and without each of them, so that no
//! single operator's hosts make it. It rests on the policy's least numbers of hosts and operators.

use std::collections::BTreeMap;

use assay_protocol::verdict::{DeviceWork, Work};
use assay_work::{DeviceId, Precision};
use serde::{Deserialize, Serialize};

use crate::distribution::{Distribution, Speed, Spread};
use crate::finding::FindingCode;
use crate::policy::BandPolicy;
use crate::profile::Profile;

/// Of the time of the device that takes longest, a device that takes so much is timed by its own work.
const SAME: f64 = 0.9;

/// What a device showed, and what it claims to be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// The device.
    pub device_id: DeviceId,
    /// The model that it claims.
    pub model: String,
    /// The kind of work.
    pub precision: Precision,
    /// The matrix size.
    pub n: u32,
    /// Seconds of the work.
    pub seconds: f64,
    /// TOPS of the work.
    pub tops: f64,
    /// GB/s of the probe.
    pub gb_per_s: f64,
    /// Bytes shown to be in memory.
    pub bytes_held: u64,
    /// The share of the device's memory that the challenge was meant to fill, 0 … 1; `None` where a number of matrices
    /// was asked for, so that nothing follows for the memory of the device.
    pub fill_share: Option<f64>,
    /// Another device of the host is expected to have taken longer for its work, which all are timed by: it may be
    /// faster than it shows.
    pub waits_in_work: bool,
    /// The same in the probe.
    pub waits_in_probe: bool,
}

/// What is known of the models that the devices of a host claim.
#[derive(Debug, Clone, Copy)]
pub struct Known<'a> {
    /// The models, where the name of a device alone does not tell.
    pub models: &'a BTreeMap<DeviceId, String>,
    /// Their profiles.
    pub profiles: &'a BTreeMap<String, Profile>,
    /// The fleet's distributions of the kind of work, each without the hosts of the judged host's operator.
    pub fleets: &'a BTreeMap<String, Distribution>,
    /// The kind of work.
    pub precision: Precision,
}

/// What a device did in one time that all devices of the host are measured by, and how fast its model is.
struct Amount<'a> {
    model: &'a str,
    amount: f64,
    by_profile: Option<f64>,
    by_fleet: Option<f64>,
}

impl Amount<'_> {
    /// Whether this device is expected to be done clearly before `other`. A device of which nothing is known excuses
    /// none: it could be added for that.
    fn waits_for(&self, other: &Self) -> bool {
        let rates = match (self.by_profile.zip(other.by_profile), self.by_fleet.zip(other.by_fleet)) {
            _ if self.model == other.model => Some((1.0, 1.0)),
            (by_profile, by_fleet) => by_profile.or(by_fleet),
        };
        rates.is_some_and(|(own, others)| self.amount / own < SAME * other.amount / others)
    }
}

impl<'a> Known<'a> {
    fn model(&self, device: &'a DeviceWork) -> &'a str {
        self.models.get(&device.device_id).map_or(&device.name, String::as_str)
    }

    fn work(&self, device: &'a DeviceWork) -> Amount<'a> {
        let model = self.model(device);
        Amount {
            model,
            amount: device.work.multiply_accumulates as f64,
            by_profile: self.profiles.get(model).and_then(|profile| profile.dense_tops(self.precision)),
            by_fleet: self.fleets.get(model).map(|fleet| fleet.all.tops.median),
        }
    }

    fn probe(&self, device: &'a DeviceWork) -> Amount<'a> {
        let model = self.model(device);
        Amount {
            model,
            amount: device.work.probe_bytes as f64,
            by_profile: self.profiles.get(model).and_then(|p| Some(p.memory_gb_per_s.as_ref()?.value)),
            by_fleet: self.fleets.get(model).map(|fleet| fleet.all.gb_per_s.median),
        }
    }

    /// What each device of a host showed in work that held; not those that did not come so far.
    #[must_use]
    pub fn measured(&self, devices: &'a [DeviceWork], n: u32, fill_share: Option<f64>) -> Vec<Measured> {
        let measured = |device: &'a DeviceWork| {
            let Work { seconds, tops, probe_gb_per_s, bytes_held, .. } = device.work;
            let is_shown = [seconds, tops, probe_gb_per_s].iter().all(|value| value.is_finite() && *value > 0.0);
            let (work, probe) = (self.work(device), self.probe(device));
            is_shown.then(|| Measured {
                device_id: device.device_id,
                model: self.model(device).to_owned(),
                precision: self.precision,
                n,
                seconds,
                tops,
                gb_per_s: probe_gb_per_s,
                bytes_held,
                fill_share,
                waits_in_work: devices.iter().any(|other| work.waits_for(&self.work(other))),
                waits_in_probe: devices.iter().any(|other| probe.waits_for(&self.probe(other))),
            })
        };
        devices.iter().filter_map(measured).collect()
    }

    /// What the speed and memory of a host's devices say against the models that they claim.
    #[must_use]
    pub fn judge(
        &self,
        devices: &'a [DeviceWork],
        n: u32,
        fill_share: Option<f64>,
        policy: &BandPolicy,
    ) -> Vec<BandFinding> {
        let judged = |measured: Measured| {
            let (profile, fleet) = (self.profiles.get(&measured.model), self.fleets.get(&measured.model));
            let mut findings = judge_speed(profile, fleet, &measured, policy);
            findings.extend(judge_model(self.fleets, &measured, policy));
            findings
        };
        self.measured(devices, n, fill_share).into_iter().flat_map(judged).collect()
    }
}

/// What a finding rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// The profile of the model: figures of its vendor.
    Profile,
    /// The other hosts of the fleet.
    Fleet,
}

/// Something that a device's speed or memory says against its claim.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BandFinding {
    /// What.
    pub code: FindingCode,
    /// Of this device.
    pub device_id: DeviceId,
    /// What it rests on.
    pub basis: Basis,
    /// The figures.
    pub detail: String,
    /// Whether the policy enforces it; otherwise it is recorded.
    pub enforced: bool,
}

/// What one quantity may be: between both, including them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Band {
    /// At least.
    pub low: f64,
    /// At most.
    pub high: f64,
}

impl Band {
    fn of(spread: &Spread, policy: &BandPolicy) -> Self {
        let half = (policy.width * spread.sigma).max(spread.median * policy.least_width_percent / 100.0);
        Self { low: (spread.median - half).max(0.0), high: spread.median + half }
    }

    /// The band that holds the bands of all variants of a distribution.
    fn widest(of: &Distribution, quantity: fn(&Speed) -> &Spread, policy: &BandPolicy) -> Self {
        let bands = of.variants().map(|speed| Self::of(quantity(speed), policy));
        let both = |a: Self, b: Self| Self { low: a.low.min(b.low), high: a.high.max(b.high) };
        bands.reduce(both).unwrap_or(Self { low: 0.0, high: f64::INFINITY })
    }

    fn holds(self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }
}

/// The bands of TOPS and GB/s of a model in the fleet, to be shown.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Bands {
    /// TOPS of the work.
    pub tops: Band,
    /// GB/s of the probe.
    pub gb_per_s: Band,
    /// Other hosts that they rest on.
    pub hosts: u32,
    /// Other operators that they rest on.
    pub operators: u32,
}

impl Bands {
    /// The bands of a distribution; `None` where it rests on fewer hosts or operators than the policy asks for.
    #[must_use]
    pub fn of(distribution: &Distribution, policy: &BandPolicy) -> Option<Self> {
        let Distribution { hosts, operators, .. } = *distribution;
        let rests = hosts >= policy.least_hosts && operators >= policy.least_operators;
        rests.then(|| Self {
            tops: Band::widest(distribution, |speed| &speed.tops, policy),
            gb_per_s: Band::widest(distribution, |speed| &speed.gb_per_s, policy),
            hosts,
            operators,
        })
    }

    fn hold(&self, measured: &Measured) -> bool {
        self.tops.holds(measured.tops) && self.gb_per_s.holds(measured.gb_per_s)
    }
}

/// What a device's speed and memory say against the model that it claims.
#[must_use]
pub fn judge_speed(
    profile: Option<&Profile>,
    fleet: Option<&Distribution>,
    measured: &Measured,
    policy: &BandPolicy,
) -> Vec<BandFinding> {
    let mut findings = profile.map(|profile| against_profile(profile, measured, policy)).unwrap_or_default();
    if let Some(bands) = fleet.and_then(|fleet| Bands::of(fleet, policy)) {
        findings.extend(against_fleet(&bands, measured, policy));
    }
    findings
}

fn against_profile(profile: &Profile, measured: &Measured, policy: &BandPolicy) -> Vec<BandFinding> {
    let finding = |code, detail| BandFinding {
        code,
        device_id: measured.device_id,
        basis: Basis::Profile,
        detail,
        enforced: policy.enforce_profile,
    };
    let mut findings = Vec::new();
    let name = &profile.name;
    let least = |figure: f64, percent: f64| figure * percent / 100.0;
    let most = |figure: f64| figure * (1.0 + policy.above_percent / 100.0);
    // In short work the start of the device and the way of the messages count for much.
    let is_long = measured.seconds >= policy.least_seconds && !measured.waits_in_work;
    if let Some(peak) = profile.dense_tops(measured.precision) {
        let (shown, kind) = (measured.tops, measured.precision);
        // Another unit than the one whose peak is known may have computed it, and faster.
        let detour = kind.largest_detour();
        if shown > most(peak * detour) {
            let detail = format!("{shown:.1} TOPS of {kind} were shown, the peak of {name} is {peak:.1}");
            findings.push(finding(FindingCode::TooFast, detail));
        }
        let least = least(peak, policy.least_tops_percent);
        if is_long && shown / detour < least {
            let by = if detour > 1.0 { format!(", less a detour of {detour}") } else { String::new() };
            let detail = format!(
                "{shown:.1} TOPS of {kind} were shown{by}, {name} shows {least:.1} at least, of a peak of {peak:.1}"
            );
            findings.push(finding(FindingCode::TooSlow, detail));
        }
    }
    if let Some(bandwidth) = &profile.memory_gb_per_s {
        let (shown, bandwidth) = (measured.gb_per_s, bandwidth.value);
        if shown > most(bandwidth) {
            let detail = format!("the probe read {shown:.1} GB/s, the bandwidth of {name} is {bandwidth:.1}");
            findings.push(finding(FindingCode::TooFast, detail));
        }
        let least = least(bandwidth, policy.least_bandwidth_percent);
        if shown < least && !measured.waits_in_probe {
            let detail =
                format!("the probe read {shown:.1} GB/s, {name} shows {least:.1} at least, of {bandwidth:.1} in all");
            findings.push(finding(FindingCode::BandwidthBelowClaim, detail));
        }
    }
    if let (Some(memory), Some(share)) = (&profile.memory_gb, measured.fill_share) {
        let (shown, asked) = (measured.bytes_held as f64 / 1e9, memory.value * share.clamp(0.0, 1.0));
        let least = least(asked, policy.least_memory_percent);
        if shown < least {
            let memory = memory.value;
            let detail =
                format!("{shown:.1} GB of memory were shown, {name} shows {least:.1} at least, of {memory:.1}");
            findings.push(finding(FindingCode::MemoryBelowClaim, detail));
        }
    }
    findings
}

fn against_fleet(bands: &Bands, measured: &Measured, policy: &BandPolicy) -> Vec<BandFinding> {
    let Bands { tops, gb_per_s, hosts, operators } = *bands;
    let finding = |code, what: &str, shown: f64, band: Band| BandFinding {
        code,
        device_id: measured.device_id,
        basis: Basis::Fleet,
        detail: format!(
            "{what}: {shown:.1} were shown, {hosts} hosts of {operators} operators at {}, n = {} show {:.1} to {:.1}",
            measured.precision, measured.n, band.low, band.high
        ),
        enforced: policy.enforce_fleet,
    };
    let mut findings = Vec::new();
    if measured.tops < tops.low && !measured.waits_in_work {
        findings.push(finding(FindingCode::TooSlow, "TOPS", measured.tops, tops));
    } else if measured.tops > tops.high {
        findings.push(finding(FindingCode::TooFast, "TOPS", measured.tops, tops));
    }
    if measured.gb_per_s < gb_per_s.low && !measured.waits_in_probe {
        findings.push(finding(FindingCode::BandwidthBelowClaim, "GB/s", measured.gb_per_s, gb_per_s));
    } else if measured.gb_per_s > gb_per_s.high {
        findings.push(finding(FindingCode::TooFast, "GB/s", measured.gb_per_s, gb_per_s));
    }
    findings
}

/// Whether a device that claims one model shows the speed of another one: outside the bands of the claimed model, and
/// inside those of exactly one other. `fleets` are the distributions by model, each without the hosts of the judged
/// host's operator.
#[must_use]
pub fn judge_model(
    fleets: &BTreeMap<String, Distribution>,
    measured: &Measured,
    policy: &BandPolicy,
) -> Option<BandFinding> {
    let bands = |model: &str| fleets.get(model).filter(|fleet| fleet.n == measured.n);
    let bands = |model: &str| bands(model).and_then(|fleet| Bands::of(fleet, policy));
    if measured.waits_in_work || measured.waits_in_probe || bands(&measured.model)?.hold(measured) {
        return None;
    }
    let others = fleets.keys().filter(|model| **model != measured.model);
    let alike: Vec<_> = others.filter(|model| bands(model).is_some_and(|bands| bands.hold(measured))).collect();
    let [model] = alike[..] else { return None };
    let Measured { tops, gb_per_s, .. } = measured;
    let (claimed, model) = (assay_work::text::quoted(&measured.model), assay_work::text::quoted(model));
    Some(BandFinding {
        code: FindingCode::ModelMismatch,
        device_id: measured.device_id,
        basis: Basis::Fleet,
        detail: format!("it claims to be {claimed}; {tops:.1} TOPS and {gb_per_s:.1} GB/s are those of {model}"),
        enforced: policy.enforce_fleet,
    })
}

#[cfg(test)]
mod tests;
