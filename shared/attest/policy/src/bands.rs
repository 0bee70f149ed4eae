//! Checks of a device's speed and memory against the profile of the model that it claims, and against the fleet's own
//! distribution for that model.
//!
//! A finding against the fleet holds in the distribution over all other operators and without each of them, so that no
//! single operator's hosts cause it. It needs the policy's least numbers of hosts and operators.

use std::collections::BTreeMap;
use std::fmt;

use assay_protocol::verdict::{DeviceWork, Work};
use assay_work::{DeviceId, Precision};
use serde::{Deserialize, Serialize};

use crate::distribution::{Deviation, Distribution, Speed, Spread};
use crate::finding::FindingCode;
use crate::policy::BandPolicy;
use crate::profile::Profile;

/// A device of less than this part of the speed of another is clearly slower.
const SAME: f64 = 0.9;

/// Measured speed and memory of a device, with its claimed model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeviceSpeed {
    pub device_id: DeviceId,
    /// Model by the device's claim.
    pub model: String,
    pub precision: Precision,
    pub n: u32,
    /// Duration of the work in seconds.
    pub seconds: f64,
    /// TOPS of the work.
    pub tops: f64,
    /// GB/s of the probe.
    pub gb_per_s: f64,
    /// Bytes proved to be in memory.
    pub bytes_held: u64,
    /// The share of the device's memory that the challenge was meant to fill, 0 … 1; `None` where a number of matrices
    /// was asked for, so that the device's memory is not judged.
    pub fill_share: Option<f64>,
    /// The device read for less than half of the time of the longest, beside one of a model that is known to be slower:
    /// start and messages weigh too much for a bandwidth that is too low.
    pub has_short_probe: bool,
}

/// Known models, profiles and distributions for the devices of a host.
#[derive(Debug, Clone, Copy)]
pub struct Reference<'a> {
    /// Model names of devices whose own name is ambiguous.
    pub models: &'a BTreeMap<DeviceId, String>,
    pub profiles: &'a BTreeMap<String, Profile>,
    /// The fleet's distributions of the kind of work, each without the hosts of the judged host's operator.
    pub fleets: &'a BTreeMap<String, Distribution>,
    pub precision: Precision,
}

/// The speed at which the devices of a model read, all of them the same bytes in a probe.
struct Bandwidth<'a> {
    model: &'a str,
    by_profile: Option<f64>,
    by_fleet: Option<f64>,
}

impl Bandwidth<'_> {
    /// Whether a device of this model is expected to finish clearly before one of `other`. A device of unknown speed
    /// excuses no other: it could be added for that purpose.
    fn waits_for(&self, other: &Self) -> bool {
        let rates = self.by_profile.zip(other.by_profile).or(self.by_fleet.zip(other.by_fleet));
        self.model != other.model && rates.is_some_and(|(own, others)| others < SAME * own)
    }
}

impl<'a> Reference<'a> {
    fn model(&self, device: &'a DeviceWork) -> &'a str {
        self.models.get(&device.device_id).map_or(&device.name, String::as_str)
    }

    fn bandwidth(&self, device: &'a DeviceWork) -> Bandwidth<'a> {
        let model = self.model(device);
        Bandwidth {
            model,
            by_profile: self.profiles.get(model).and_then(|p| Some(p.memory_gb_per_s.as_ref()?.value)),
            by_fleet: self.fleets.get(model).map(|fleet| fleet.all.gb_per_s.median),
        }
    }

    /// Measurements of each device of a host in work that held; devices without a result are left out.
    pub fn measured(&self, devices: &'a [DeviceWork], n: u32, fill_share: Option<f64>) -> Vec<DeviceSpeed> {
        let is_behind = |device| devices.iter().any(|other| self.bandwidth(device).waits_for(&self.bandwidth(other)));
        let longest = devices.iter().map(|device| device.work.probe_seconds).fold(0.0, f64::max);
        let measured = |device: &'a DeviceWork| {
            let Work { seconds, tops, probe_seconds, probe_gb_per_s, bytes_held, .. } = device.work;
            let is_shown = [seconds, tops, probe_gb_per_s].iter().all(|value| value.is_finite() && *value > 0.0);
            is_shown.then(|| DeviceSpeed {
                device_id: device.device_id,
                model: self.model(device).to_owned(),
                precision: self.precision,
                n,
                seconds,
                tops,
                gb_per_s: probe_gb_per_s,
                bytes_held,
                fill_share,
                has_short_probe: probe_seconds < longest / 2.0 && is_behind(device),
            })
        };
        devices.iter().filter_map(measured).collect()
    }

    /// Findings about the speed and memory of a host's devices, against the models that they claim.
    pub fn judge(
        &self,
        devices: &'a [DeviceWork],
        n: u32,
        fill_share: Option<f64>,
        policy: &BandPolicy,
    ) -> Vec<BandFinding> {
        let judged = |measured: DeviceSpeed| {
            let (profile, fleet) = (self.profiles.get(&measured.model), self.fleets.get(&measured.model));
            let mut findings = judge_speed(profile, fleet, &measured, policy);
            findings.extend(judge_model(self.fleets, &measured, policy));
            findings
        };
        self.measured(devices, n, fill_share).into_iter().flat_map(judged).collect()
    }
}

/// The source that a finding is based on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// The profile of the model: figures of its vendor.
    Profile,
    /// The other hosts of the fleet.
    Fleet,
}

/// A finding about a device's speed or memory against its claim.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BandFinding {
    pub code: FindingCode,
    pub device_id: DeviceId,
    pub basis: Basis,
    /// Measured and expected figures.
    pub detail: String,
    /// Whether the policy enforces it; otherwise it is only recorded.
    pub enforced: bool,
}

/// Allowed range of one quantity, bounds included.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Band {
    pub low: f64,
    pub high: f64,
}

impl Band {
    /// Symmetric in ratios: however much hosts vary, the lower edge is above 0.
    fn of(spread: &Spread, policy: &BandPolicy) -> Self {
        let (median, least) = (spread.median, policy.least_width_percent / 100.0);
        match spread.deviation {
            Deviation::Sigma(sigma) => {
                let half = (policy.width * sigma).max(median * least);
                Self { low: (median - half).max(0.0), high: median + half }
            }
            Deviation::LogSigma(sigma) => {
                let factor = (policy.width * sigma).exp().max(1.0 + least);
                Self { low: median / factor, high: median * factor }
            }
        }
    }

    /// The smallest band that covers the bands of all variants of a distribution.
    fn widest(of: &Distribution, quantity: fn(&Speed) -> &Spread, policy: &BandPolicy) -> Self {
        let bands = of.variants().map(|speed| Self::of(quantity(speed), policy));
        let both = |a: Self, b: Self| Self { low: a.low.min(b.low), high: a.high.max(b.high) };
        bands.reduce(both).unwrap_or(Self { low: 0.0, high: f64::INFINITY })
    }

    fn holds(self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }
}

/// Bands of TOPS and GB/s of a model in the fleet, for display.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Bands {
    /// TOPS of the work.
    pub tops: Band,
    /// GB/s of the probe.
    pub gb_per_s: Band,
    /// Number of other hosts in the distribution.
    pub hosts: u32,
    /// Number of other operators in the distribution.
    pub operators: u32,
}

impl Bands {
    /// The bands of a distribution; `None` below the policy's least numbers of hosts or operators.
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

    fn hold(&self, measured: &DeviceSpeed) -> bool {
        self.tops.holds(measured.tops) && self.gb_per_s.holds(measured.gb_per_s)
    }
}

/// Findings about a device's speed and memory against the model that it claims.
pub fn judge_speed(
    profile: Option<&Profile>,
    fleet: Option<&Distribution>,
    measured: &DeviceSpeed,
    policy: &BandPolicy,
) -> Vec<BandFinding> {
    let mut findings = profile.map(|profile| against_profile(profile, measured, policy)).unwrap_or_default();
    if let Some(bands) = fleet.and_then(|fleet| Bands::of(fleet, policy)) {
        findings.extend(against_fleet(&bands, measured, policy));
    }
    findings
}

fn against_profile(profile: &Profile, measured: &DeviceSpeed, policy: &BandPolicy) -> Vec<BandFinding> {
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
    // In short work, device start and message transfer weigh too much.
    let is_long = measured.seconds >= policy.least_seconds;
    if let Some(peak) = profile.dense_tops(measured.precision) {
        let (shown, kind) = (measured.tops, measured.precision);
        // A unit other than the one with the known peak may have computed it, and faster.
        let detour = kind.largest_detour();
        if shown > most(peak * detour) {
            let detail = format!("{} TOPS of {kind} were shown, the peak of {name} is {}", Figure(shown), Figure(peak));
            findings.push(finding(FindingCode::TooFast, detail));
        }
        let least = least(peak, policy.least_tops_percent);
        if is_long && shown / detour < least {
            let by = if detour > 1.0 { format!(", less a detour of {detour}") } else { String::new() };
            let detail = format!(
                "{} TOPS of {kind} were shown{by}, {name} shows {} at least, of a peak of {}",
                Figure(shown),
                Figure(least),
                Figure(peak)
            );
            findings.push(finding(FindingCode::TooSlow, detail));
        }
    }
    if let Some(bandwidth) = &profile.memory_gb_per_s {
        let (shown, bandwidth) = (measured.gb_per_s, bandwidth.value);
        if shown > most(bandwidth) {
            let detail =
                format!("the probe read {} GB/s, the bandwidth of {name} is {}", Figure(shown), Figure(bandwidth));
            findings.push(finding(FindingCode::TooFast, detail));
        }
        let least = least(bandwidth, policy.least_bandwidth_percent);
        if shown < least && !measured.has_short_probe {
            let [shown, least, bandwidth] = [shown, least, bandwidth].map(Figure);
            let detail = format!("the probe read {shown} GB/s, {name} shows {least} at least, of {bandwidth} in all");
            findings.push(finding(FindingCode::BandwidthBelowClaim, detail));
        }
    }
    if let (Some(memory), Some(share)) = (&profile.memory_gb, measured.fill_share) {
        let (shown, asked) = (measured.bytes_held as f64 / 1e9, memory.value * share.clamp(0.0, 1.0));
        let least = least(asked, policy.least_memory_percent);
        if shown < least {
            let [shown, least, memory] = [shown, least, memory.value].map(Figure);
            let detail = format!("{shown} GB of memory were shown, {name} shows {least} at least, of {memory}");
            findings.push(finding(FindingCode::MemoryBelowClaim, detail));
        }
    }
    findings
}

/// A figure of a finding, to three significant digits.
struct Figure(f64);

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = self.0.abs().log10().floor();
        // At most 9 digits: a figure below 1e-9 shows as 0.
        let digits = (2.0 - whole).clamp(0.0, 9.0) as usize;
        write!(f, "{:.digits$}", self.0)
    }
}

fn against_fleet(bands: &Bands, measured: &DeviceSpeed, policy: &BandPolicy) -> Vec<BandFinding> {
    let Bands { tops, gb_per_s, hosts, operators } = *bands;
    let finding = |code, what: &str, shown: f64, band: Band| BandFinding {
        code,
        device_id: measured.device_id,
        basis: Basis::Fleet,
        detail: format!(
            "{what}: {} were shown, {hosts} hosts of {operators} operators at {}, n = {} show {} to {}",
            Figure(shown),
            measured.precision,
            measured.n,
            Figure(band.low),
            Figure(band.high)
        ),
        enforced: policy.enforce_fleet,
    };
    let mut findings = Vec::new();
    if measured.tops < tops.low {
        findings.push(finding(FindingCode::TooSlow, "TOPS", measured.tops, tops));
    } else if measured.tops > tops.high {
        findings.push(finding(FindingCode::TooFast, "TOPS", measured.tops, tops));
    }
    if measured.gb_per_s < gb_per_s.low && !measured.has_short_probe {
        findings.push(finding(FindingCode::BandwidthBelowClaim, "GB/s", measured.gb_per_s, gb_per_s));
    } else if measured.gb_per_s > gb_per_s.high {
        findings.push(finding(FindingCode::TooFast, "GB/s", measured.gb_per_s, gb_per_s));
    }
    findings
}

/// Whether a device that claims one model shows the speed of another one: outside the bands of the claimed model, and
/// inside those of exactly one other. `fleets` are the distributions by model, each without the hosts of the judged
/// host's operator.
pub fn judge_model(
    fleets: &BTreeMap<String, Distribution>,
    measured: &DeviceSpeed,
    policy: &BandPolicy,
) -> Option<BandFinding> {
    let bands = |model: &str| fleets.get(model).filter(|fleet| fleet.n == measured.n);
    let bands = |model: &str| bands(model).and_then(|fleet| Bands::of(fleet, policy));
    if measured.has_short_probe || bands(&measured.model)?.hold(measured) {
        return None;
    }
    let others = fleets.keys().filter(|model| **model != measured.model);
    let alike: Vec<_> = others.filter(|model| bands(model).is_some_and(|bands| bands.hold(measured))).collect();
    let [model] = alike[..] else { return None };
    let [tops, gb_per_s] = [measured.tops, measured.gb_per_s].map(Figure);
    let (claimed, model) = (assay_work::text::quoted(&measured.model), assay_work::text::quoted(model));
    Some(BandFinding {
        code: FindingCode::ModelMismatch,
        device_id: measured.device_id,
        basis: Basis::Fleet,
        detail: format!("it claims to be {claimed}; {tops} TOPS and {gb_per_s} GB/s are those of {model}"),
        enforced: policy.enforce_fleet,
    })
}

#[cfg(test)]
mod tests;
