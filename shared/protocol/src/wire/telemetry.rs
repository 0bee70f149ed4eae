//! What a miner claims of its hardware and of its sensors.
//!
//! No verdict rests on it, so a miner that is newer must not be turned away for it: a reason or a mode that is not known
//! here is passed over. The form is as strict as everywhere.

use std::collections::BTreeSet;

use super::error::{Problem, WireError};
use super::limits::{MAX_HARDWARE_TEXT_BYTES, MAX_NAME_BYTES, MAX_THROTTLE_REASONS, MAX_XIDS};
use super::{field, v1};
use crate::claims::{ConfidentialComputing, Hardware, Spread, Telemetry, ThrottleReason};

impl TryFrom<v1::Hardware> for Hardware {
    type Error = WireError;

    fn try_from(hardware: v1::Hardware) -> Result<Self, WireError> {
        let v1::Hardware {
            model,
            uuid,
            serial,
            pci_address,
            driver_version,
            vbios_version,
            memory_bytes,
            power_limit_mw,
            mig_enabled,
            ecc_enabled,
            confidential_computing,
        } = hardware;
        let text = |field, text: Option<String>| {
            text.map(|text| field::text(field, MAX_HARDWARE_TEXT_BYTES, text)).transpose()
        };
        Ok(Self {
            model: model.map(|model| field::text("Hardware.model", MAX_NAME_BYTES, model)).transpose()?,
            uuid: text("Hardware.uuid", uuid)?,
            serial: text("Hardware.serial", serial)?,
            pci_address: text("Hardware.pci_address", pci_address)?,
            driver_version: text("Hardware.driver_version", driver_version)?,
            vbios_version: text("Hardware.vbios_version", vbios_version)?,
            memory_bytes,
            power_limit_mw,
            mig_enabled,
            ecc_enabled,
            confidential_computing: read_confidential_computing(confidential_computing),
        })
    }
}

impl From<Hardware> for v1::Hardware {
    fn from(hardware: Hardware) -> Self {
        let Hardware {
            model,
            uuid,
            serial,
            pci_address,
            driver_version,
            vbios_version,
            memory_bytes,
            power_limit_mw,
            mig_enabled,
            ecc_enabled,
            confidential_computing,
        } = hardware;
        let text = |text: Option<String>| text.map(|text| field::printable(&text, MAX_HARDWARE_TEXT_BYTES));
        Self {
            model: model.map(|model| field::printable(&model, MAX_NAME_BYTES)),
            uuid: text(uuid),
            serial: text(serial),
            pci_address: text(pci_address),
            driver_version: text(driver_version),
            vbios_version: text(vbios_version),
            memory_bytes,
            power_limit_mw,
            mig_enabled,
            ecc_enabled,
            confidential_computing: write_confidential_computing(confidential_computing).into(),
        }
    }
}

impl TryFrom<v1::Telemetry> for Telemetry {
    type Error = WireError;

    fn try_from(telemetry: v1::Telemetry) -> Result<Self, WireError> {
        let v1::Telemetry {
            samples,
            temperature_c,
            power_mw,
            sm_clock_mhz,
            memory_clock_mhz,
            gpu_utilisation_percent,
            memory_utilisation_percent,
            memory_used_max_bytes,
            throttle_reasons,
            ecc_corrected,
            ecc_uncorrected,
            xids,
        } = telemetry;
        field::at_most("Telemetry.xids", MAX_XIDS, xids.len())?;
        field::ascending("Telemetry.xids", &xids)?;
        Ok(Self {
            samples,
            temperature_c: read_spread("Telemetry.temperature_c", temperature_c)?,
            power_mw: read_spread("Telemetry.power_mw", power_mw)?,
            sm_clock_mhz: read_spread("Telemetry.sm_clock_mhz", sm_clock_mhz)?,
            memory_clock_mhz: read_spread("Telemetry.memory_clock_mhz", memory_clock_mhz)?,
            gpu_utilisation_percent: read_spread("Telemetry.gpu_utilisation_percent", gpu_utilisation_percent)?,
            memory_utilisation_percent: read_spread(
                "Telemetry.memory_utilisation_percent",
                memory_utilisation_percent,
            )?,
            memory_used_max_bytes,
            throttle_reasons: read_throttle_reasons(&throttle_reasons)?,
            ecc_corrected,
            ecc_uncorrected,
            xids: xids.into_iter().collect(),
        })
    }
}

impl From<Telemetry> for v1::Telemetry {
    fn from(telemetry: Telemetry) -> Self {
        let Telemetry {
            samples,
            temperature_c,
            power_mw,
            sm_clock_mhz,
            memory_clock_mhz,
            gpu_utilisation_percent,
            memory_utilisation_percent,
            memory_used_max_bytes,
            throttle_reasons,
            ecc_corrected,
            ecc_uncorrected,
            xids,
        } = telemetry;
        let spread = |spread: Option<Spread>| spread.map(|Spread { min, mean, max }| v1::Spread { min, mean, max });
        Self {
            samples,
            temperature_c: spread(temperature_c),
            power_mw: spread(power_mw),
            sm_clock_mhz: spread(sm_clock_mhz),
            memory_clock_mhz: spread(memory_clock_mhz),
            gpu_utilisation_percent: spread(gpu_utilisation_percent),
            memory_utilisation_percent: spread(memory_utilisation_percent),
            memory_used_max_bytes,
            throttle_reasons: throttle_reasons.into_iter().map(|r| v1::ThrottleReason::from(r).into()).collect(),
            ecc_corrected,
            ecc_uncorrected,
            xids: xids.into_iter().take(MAX_XIDS).collect(),
        }
    }
}

fn read_spread(field: &'static str, spread: Option<v1::Spread>) -> Result<Option<Spread>, WireError> {
    let Some(v1::Spread { min, mean, max }) = spread else { return Ok(None) };
    if min <= mean && mean <= max {
        Ok(Some(Spread { min, mean, max }))
    } else {
        Err(WireError::new(field, Problem::Contradicts("itself")))
    }
}

fn read_throttle_reasons(codes: &[i32]) -> Result<BTreeSet<ThrottleReason>, WireError> {
    field::at_most("Telemetry.throttle_reasons", MAX_THROTTLE_REASONS, codes.len())?;
    let known = |code: &i32| v1::ThrottleReason::try_from(*code).ok().and_then(read_throttle_reason);
    Ok(codes.iter().filter_map(known).collect())
}

const fn read_throttle_reason(reason: v1::ThrottleReason) -> Option<ThrottleReason> {
    Some(match reason {
        v1::ThrottleReason::Unspecified => return None,
        v1::ThrottleReason::GpuIdle => ThrottleReason::GpuIdle,
        v1::ThrottleReason::ApplicationsClocks => ThrottleReason::ApplicationsClocks,
        v1::ThrottleReason::SwPowerCap => ThrottleReason::SwPowerCap,
        v1::ThrottleReason::HwSlowdown => ThrottleReason::HwSlowdown,
        v1::ThrottleReason::SyncBoost => ThrottleReason::SyncBoost,
        v1::ThrottleReason::SwThermal => ThrottleReason::SwThermal,
        v1::ThrottleReason::HwThermal => ThrottleReason::HwThermal,
        v1::ThrottleReason::HwPowerBrake => ThrottleReason::HwPowerBrake,
        v1::ThrottleReason::DisplayClocks => ThrottleReason::DisplayClocks,
    })
}

impl From<ThrottleReason> for v1::ThrottleReason {
    fn from(reason: ThrottleReason) -> Self {
        match reason {
            ThrottleReason::GpuIdle => Self::GpuIdle,
            ThrottleReason::ApplicationsClocks => Self::ApplicationsClocks,
            ThrottleReason::SwPowerCap => Self::SwPowerCap,
            ThrottleReason::HwSlowdown => Self::HwSlowdown,
            ThrottleReason::SyncBoost => Self::SyncBoost,
            ThrottleReason::SwThermal => Self::SwThermal,
            ThrottleReason::HwThermal => Self::HwThermal,
            ThrottleReason::HwPowerBrake => Self::HwPowerBrake,
            ThrottleReason::DisplayClocks => Self::DisplayClocks,
        }
    }
}

fn read_confidential_computing(code: i32) -> Option<ConfidentialComputing> {
    match v1::ConfidentialComputing::try_from(code) {
        Ok(v1::ConfidentialComputing::Off) => Some(ConfidentialComputing::Off),
        Ok(v1::ConfidentialComputing::On) => Some(ConfidentialComputing::On),
        Ok(v1::ConfidentialComputing::DevTools) => Some(ConfidentialComputing::DevTools),
        Ok(v1::ConfidentialComputing::Unspecified) | Err(_) => None,
    }
}

const fn write_confidential_computing(mode: Option<ConfidentialComputing>) -> v1::ConfidentialComputing {
    match mode {
        None => v1::ConfidentialComputing::Unspecified,
        Some(ConfidentialComputing::Off) => v1::ConfidentialComputing::Off,
        Some(ConfidentialComputing::On) => v1::ConfidentialComputing::On,
        Some(ConfidentialComputing::DevTools) => v1::ConfidentialComputing::DevTools,
    }
}
