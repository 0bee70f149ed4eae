//! Operators' expectations of miners, by key: sections of the policy file, compared with each verdict that would
//! otherwise pass.

use std::collections::BTreeMap;

use assay_protocol::message::Inventory;
use assay_protocol::verdict::{DeviceWork, Reason, ReasonCode, Work};
use assay_work::size::Size;
use assay_work::text::quoted;
use assay_work::{DeviceId, Precision, PublicKey};
use serde::{Deserialize, Serialize};

use crate::read::Section;
use crate::text::counted;

/// The most miners with expectations: as many as a validator serves at once.
const MAX_MINERS: usize = 65_536;
/// The most devices of a miner.
const MAX_DEVICES: u32 = 64;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Expectations(BTreeMap<PublicKey, Expectation>);

/// Expectations of one miner's host. Unset fields are not checked.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Expectation {
    /// The least number of devices that take part.
    pub devices: Option<u32>,
    /// Devices that must take part.
    pub device_ids: Vec<DeviceId>,
    /// Every device that takes part claims a model that contains this text, in any case of letters.
    pub model: Option<String>,
    /// The least TOPS of the whole host in challenges of INT8.
    pub min_tops: Option<f64>,
    /// The least TOPS in challenges of F16.
    #[serde(default)]
    pub min_tops_f16: Option<f64>,
    /// The least TOPS in challenges of FP8.
    #[serde(default)]
    pub min_tops_fp8: Option<f64>,
    /// The least TOPS in challenges of FP4.
    #[serde(default)]
    pub min_tops_fp4: Option<f64>,
    /// The least memory proved by the whole host.
    pub min_memory: Option<Size>,
    /// The least GB/s of the probe over the whole host.
    pub min_gb_per_s: Option<f64>,
}

impl Expectations {
    /// Reads the sections `[[miner]]` of a policy file.
    pub(crate) fn read(file: &mut Section<'_>) -> Self {
        let miners = file.sections("miner");
        if miners.len() > MAX_MINERS {
            file.wrong("miner", format!("{} miners: expectations name at most {MAX_MINERS}", miners.len()));
        }
        let mut expectations = BTreeMap::new();
        for mut miner in miners.into_iter().take(MAX_MINERS) {
            let key = miner.parsed::<PublicKey>("key");
            if !miner.has("key") {
                miner.wrong("key", "missing: expected the public key of a miner");
            }
            let expectation = Expectation::read(&mut miner);
            if key.is_some_and(|key| expectations.insert(key, expectation).is_some()) {
                miner.wrong("key", "another [[miner]] has this key: write one for each");
            }
            miner.finish();
        }
        Self(expectations)
    }

    /// Returns the expectation of a miner.
    pub fn of(&self, key: PublicKey) -> Option<&Expectation> {
        self.0.get(&key)
    }

    /// Number of miners with an expectation.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether no miner has an expectation.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Expectation {
    fn read(miner: &mut Section<'_>) -> Self {
        let mut expectation = Self { device_ids: miner.list("device_ids"), ..Self::default() };
        miner.whole("devices", 1..=MAX_DEVICES, "a pass has at least one device", &mut expectation.devices);
        expectation.model = miner.text("model");
        for (name, least) in [
            ("min_tops", &mut expectation.min_tops),
            ("min_tops_f16", &mut expectation.min_tops_f16),
            ("min_tops_fp8", &mut expectation.min_tops_fp8),
            ("min_tops_fp4", &mut expectation.min_tops_fp4),
            ("min_gb_per_s", &mut expectation.min_gb_per_s),
        ] {
            miner.number(name, 0.001..=1e9, "leave the line out to expect nothing", least);
        }
        expectation.min_memory = miner.parsed("min_memory");
        expectation
    }

    const fn min_tops_of(&self, precision: Precision) -> Option<f64> {
        match precision {
            Precision::Int8 => self.min_tops,
            Precision::F16 => self.min_tops_f16,
            Precision::Fp8 => self.min_tops_fp8,
            Precision::Fp4 => self.min_tops_fp4,
            Precision::Field | Precision::Network => None,
        }
    }

    /// One reason for each expectation that the devices of a challenge of this kind of work missed.
    pub fn missed(
        &self,
        devices: &[DeviceWork],
        whole: &Work,
        inventory: &Inventory,
        precision: Precision,
    ) -> Vec<Reason> {
        let Self { devices: count, device_ids, model, min_memory, min_gb_per_s, .. } = self;
        let missed = |detail: String| Reason::new(ReasonCode::ExpectationMissed, detail);
        let mut reasons = Vec::new();
        if let Some(count) = count.filter(|count| devices.len() < *count as usize) {
            reasons.push(missed(format!("{} of {} took part", devices.len(), counted(count, "device"))));
        }
        let absent = device_ids.iter().filter(|id| devices.iter().all(|device| device.device_id != **id));
        reasons.extend(absent.map(|id| {
            Reason::on_device(ReasonCode::ExpectationMissed, *id, "the device is expected, and took no part")
        }));
        if let Some(model) = model {
            reasons.extend(devices.iter().filter_map(|device| other_model(model, device, inventory)));
        }
        if let Some(least) = self.min_tops_of(precision).filter(|least| whole.tops < *least) {
            let tops = whole.tops;
            reasons.push(missed(format!("{tops:.3} TOPS of {precision} were shown, at least {least} are expected")));
        }
        // A kind that no device lists is never asked.
        for kind in Precision::ALL.into_iter().filter(|kind| *kind != precision) {
            let is_listed = inventory.devices.iter().any(|device| device.precisions.contains(&kind));
            if let Some(least) = self.min_tops_of(kind).filter(|_| !is_listed) {
                reasons.push(missed(format!("no device computes {kind}, of which at least {least} TOPS are expected")));
            }
        }
        if let Some(least) = min_memory.filter(|least| whole.bytes_held < least.bytes) {
            let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
            let (held, least) = (gib(whole.bytes_held), gib(least.bytes));
            reasons.push(missed(format!("{held:.3} GiB of memory were shown, at least {least:.3} GiB are expected")));
        }
        if let Some(least) = min_gb_per_s.filter(|least| whole.probe_gb_per_s < *least) {
            let shown = whole.probe_gb_per_s;
            reasons.push(missed(format!("the probe read {shown:.3} GB/s, at least {least} are expected")));
        }
        reasons
    }
}

fn other_model(model: &str, device: &DeviceWork, inventory: &Inventory) -> Option<Reason> {
    let hardware = inventory.device(device.device_id).and_then(|claim| claim.claimed_hardware.as_ref());
    let claimed = hardware.and_then(|hardware| hardware.model.as_deref()).unwrap_or(&device.name);
    if claimed.to_lowercase().contains(&model.to_lowercase()) {
        return None;
    }
    let detail = format!("it claims to be {}, a claim of {} is expected", quoted(claimed), quoted(model));
    Some(Reason::on_device(ReasonCode::ExpectationMissed, device.device_id, detail))
}

#[cfg(test)]
mod tests;
