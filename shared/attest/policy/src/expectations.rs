//! Operators' expectations of miners, by key: a file in TOML, compared with each verdict that would otherwise pass.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use assay_protocol::message::Inventory;
use assay_protocol::verdict::{DeviceWork, Reason, ReasonCode, Work};
use assay_work::size::Size;
use assay_work::text::quoted;
use assay_work::{DeviceId, Precision, PublicKey};
use serde::{Deserialize, Serialize};

use crate::text::counted;

/// Bytes of the file: 65,536 miners with eight devices each, and room for comments.
pub const MAX_FILE_BYTES: usize = 64 << 20;

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

/// Reasons why a file of expectations cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ExpectationsError {
    /// The file is not valid TOML, or has unknown fields.
    #[error("expectations {path}: {message}")]
    Syntax {
        path: PathBuf,
        /// The problem, with its place.
        message: String,
    },
    /// A value is out of range or contradictory.
    #[error("expectations {path}: the [[miner]] with key {key}: {what}")]
    Value {
        path: PathBuf,
        key: PublicKey,
        /// The problem found.
        what: String,
    },
}

/// The file as written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    #[serde(default)]
    miner: Vec<RawMiner>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawMiner {
    key: PublicKey,
    devices: Option<u32>,
    #[serde(default)]
    device_ids: Vec<DeviceId>,
    model: Option<String>,
    min_tops: Option<f64>,
    min_tops_f16: Option<f64>,
    min_tops_fp8: Option<f64>,
    min_tops_fp4: Option<f64>,
    min_memory: Option<String>,
    min_gb_per_s: Option<f64>,
}

impl Expectations {
    /// Reads a file's text; `path` is its name in messages.
    ///
    /// # Errors
    /// [`ExpectationsError`], with the place in the file.
    pub fn parse(path: &Path, text: &str) -> Result<Self, ExpectationsError> {
        let syntax = |error: toml::de::Error| {
            let message = error.to_string().trim_end().to_owned();
            ExpectationsError::Syntax { path: path.into(), message }
        };
        let file: RawFile = toml::from_str(text).map_err(syntax)?;
        let mut expectations = BTreeMap::new();
        for miner in file.miner {
            let key = miner.key;
            let wrong = |what| ExpectationsError::Value { path: path.into(), key, what };
            let expectation = Expectation::check(miner).map_err(wrong)?;
            if expectations.insert(key, expectation).is_some() {
                return Err(wrong("it stands in the file twice: write one [[miner]] for each key".to_owned()));
            }
        }
        Ok(Self(expectations))
    }

    /// Returns the expectation of a miner.
    pub fn of(&self, key: PublicKey) -> Option<&Expectation> {
        self.0.get(&key)
    }

    /// Number of miners with an expectation.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the file has no expectations.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Expectation {
    fn check(miner: RawMiner) -> Result<Self, String> {
        let RawMiner { key: _, devices, device_ids, model, min_memory, min_gb_per_s, .. } = miner;
        let positive = |name: &str, value: Option<f64>| match value {
            Some(value) if !value.is_finite() || value <= 0.0 => Err(format!(
                "{name} = {value}: expected a number above 0; leave the line out where nothing is expected"
            )),
            value => Ok(value),
        };
        if devices == Some(0) {
            return Err("devices = 0: a pass has at least one device; leave the line out".to_owned());
        }
        if model.as_ref().is_some_and(|model| model.trim().is_empty()) {
            return Err("model is empty: leave the line out where any will do".to_owned());
        }
        let min_memory =
            min_memory.map(|text| text.parse::<Size>().map_err(|error| format!("min_memory = {text}: {error}")));
        Ok(Self {
            devices,
            device_ids,
            model,
            min_tops: positive("min_tops", miner.min_tops)?,
            min_tops_f16: positive("min_tops_f16", miner.min_tops_f16)?,
            min_tops_fp8: positive("min_tops_fp8", miner.min_tops_fp8)?,
            min_tops_fp4: positive("min_tops_fp4", miner.min_tops_fp4)?,
            min_memory: min_memory.transpose()?,
            min_gb_per_s: positive("min_gb_per_s", min_gb_per_s)?,
        })
    }

    const fn min_tops_of(&self, precision: Precision) -> Option<f64> {
        match precision {
            Precision::Int8 => self.min_tops,
            Precision::F16 => self.min_tops_f16,
            Precision::Fp8 => self.min_tops_fp8,
            Precision::Fp4 => self.min_tops_fp4,
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
