//! The figures of a verdict: what a device or a host showed, and how sure that is.

use super::error::WireError;
use super::limits::MAX_NAME_BYTES;
use super::{field, v1};
use crate::verdict::{Bound, DeviceWork, Work};

impl TryFrom<v1::DeviceWork> for DeviceWork {
    type Error = WireError;

    fn try_from(device: v1::DeviceWork) -> Result<Self, WireError> {
        let v1::DeviceWork { device_id, name, work, claimed_telemetry } = device;
        Ok(Self {
            device_id: field::fixed("DeviceWork.device_id", &device_id)?,
            name: field::text("DeviceWork.name", MAX_NAME_BYTES, name)?,
            work: field::required("DeviceWork.work", work)?.try_into()?,
            claimed_telemetry: claimed_telemetry.map(TryInto::try_into).transpose()?,
        })
    }
}

impl From<DeviceWork> for v1::DeviceWork {
    fn from(device: DeviceWork) -> Self {
        let DeviceWork { device_id, name, work, claimed_telemetry } = device;
        Self {
            device_id: device_id.0.to_vec(),
            name: field::printable(&name, MAX_NAME_BYTES),
            work: Some(work.into()),
            claimed_telemetry: claimed_telemetry.map(Into::into),
        }
    }
}

impl TryFrom<v1::Work> for Work {
    type Error = WireError;

    fn try_from(work: v1::Work) -> Result<Self, WireError> {
        let v1::Work {
            matrices,
            bytes_held,
            multiply_accumulates_high,
            multiply_accumulates_low,
            seconds,
            tops,
            probe_bytes,
            probe_seconds,
            probe_gb_per_s,
            samples,
            segments,
            claimed_seconds,
        } = work;
        Ok(Self {
            matrices,
            bytes_held,
            multiply_accumulates: u128::from(multiply_accumulates_high) << 64 | u128::from(multiply_accumulates_low),
            seconds: field::finite("Work.seconds", seconds)?,
            tops: field::finite("Work.tops", tops)?,
            probe_bytes,
            probe_seconds: field::finite("Work.probe_seconds", probe_seconds)?,
            probe_gb_per_s: field::finite("Work.probe_gb_per_s", probe_gb_per_s)?,
            samples,
            segments,
            claimed_seconds: claimed_seconds.map(|s| field::finite("Work.claimed_seconds", s)).transpose()?,
        })
    }
}

impl From<Work> for v1::Work {
    fn from(work: Work) -> Self {
        let Work {
            matrices,
            bytes_held,
            multiply_accumulates,
            seconds,
            tops,
            probe_bytes,
            probe_seconds,
            probe_gb_per_s,
            samples,
            segments,
            claimed_seconds,
        } = work;
        Self {
            matrices,
            bytes_held,
            multiply_accumulates_high: (multiply_accumulates >> 64) as u64,
            multiply_accumulates_low: multiply_accumulates as u64,
            seconds: field::nearest_finite(seconds),
            tops: field::nearest_finite(tops),
            probe_bytes,
            probe_seconds: field::nearest_finite(probe_seconds),
            probe_gb_per_s: field::nearest_finite(probe_gb_per_s),
            samples,
            segments,
            claimed_seconds: claimed_seconds.map(field::nearest_finite),
        }
    }
}

impl TryFrom<v1::Bound> for Bound {
    type Error = WireError;

    fn try_from(bound: v1::Bound) -> Result<Self, WireError> {
        let v1::Bound { fraction, log2_probability } = bound;
        Ok(Self {
            fraction: field::finite("Bound.fraction", fraction)?,
            log2_probability: field::finite("Bound.log2_probability", log2_probability)?,
        })
    }
}

impl From<Bound> for v1::Bound {
    fn from(bound: Bound) -> Self {
        let Bound { fraction, log2_probability } = bound;
        Self { fraction: field::nearest_finite(fraction), log2_probability: field::nearest_finite(log2_probability) }
    }
}
