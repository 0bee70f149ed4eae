//! A miner's claims about its hardware and its sensors.
//!
//! No verdict rests on it, so a newer miner is not refused for it: an unknown code is skipped. The form is checked as
//! strictly as everywhere.

use std::collections::BTreeSet;

use super::codes::{Code, KnownCode};
use super::error::{FieldProblem, WireError};
use super::field::{self, BoundedText, FieldKind, Optional};
use super::limits::{MAX_HARDWARE_TEXT_BYTES, MAX_NAME_BYTES, MAX_THROTTLE_REASONS, MAX_XIDS};
use super::v1;
use crate::claims::{Hardware, SensorSpread, Telemetry, ThrottleReason};

messages! {
    v1::Hardware = Hardware {
        model: Optional(BoundedText(MAX_NAME_BYTES)),
        uuid: Optional(BoundedText(MAX_HARDWARE_TEXT_BYTES)),
        serial: Optional(BoundedText(MAX_HARDWARE_TEXT_BYTES)),
        pci_address: Optional(BoundedText(MAX_HARDWARE_TEXT_BYTES)),
        driver_version: Optional(BoundedText(MAX_HARDWARE_TEXT_BYTES)),
        vbios_version: Optional(BoundedText(MAX_HARDWARE_TEXT_BYTES)),
        memory_bytes,
        power_limit_mw,
        mig_enabled,
        ecc_enabled,
        confidential_computing: KnownCode,
    }
}

macro_rules! telemetry {
    ($($(#[$about:meta])* $reading:ident: $value:ty $(, max $max:expr)? =>
        $claim:ident: $claimed:ty, $summary:ty, $shown:expr;)*) => {
        messages! { v1::Telemetry = Telemetry { samples, $($claim: SensorClaim),* } }
    };
}

crate::for_each_sensor!(telemetry);

/// A sensor's claim, by its type.
struct SensorClaim;

impl FieldKind<Option<v1::Spread>, Option<SensorSpread>> for SensorClaim {
    fn read(&self, field: &'static str, spread: Option<v1::Spread>) -> Result<Option<SensorSpread>, WireError> {
        let Some(v1::Spread { min, mean, max }) = spread else { return Ok(None) };
        if min > mean || mean > max {
            return Err(WireError::new(field, FieldProblem::Contradicts("itself")));
        }
        Ok(Some(SensorSpread { min, mean, max }))
    }

    fn write(&self, spread: Option<SensorSpread>) -> Option<v1::Spread> {
        spread.map(|SensorSpread { min, mean, max }| v1::Spread { min, mean, max })
    }
}

impl FieldKind<Option<u64>, Option<u64>> for SensorClaim {
    fn read(&self, _field: &'static str, number: Option<u64>) -> Result<Option<u64>, WireError> {
        Ok(number)
    }

    fn write(&self, number: Option<u64>) -> Option<u64> {
        number
    }
}

impl FieldKind<Vec<i32>, BTreeSet<ThrottleReason>> for SensorClaim {
    fn read(&self, field: &'static str, codes: Vec<i32>) -> Result<BTreeSet<ThrottleReason>, WireError> {
        field::at_most(field, MAX_THROTTLE_REASONS, codes.len())?;
        codes.into_iter().filter_map(|code| KnownCode.read(field, code).transpose()).collect()
    }

    fn write(&self, reasons: BTreeSet<ThrottleReason>) -> Vec<i32> {
        reasons.into_iter().map(|reason| Code.write(reason)).collect()
    }
}

impl FieldKind<Vec<u32>, BTreeSet<u32>> for SensorClaim {
    fn read(&self, field: &'static str, xids: Vec<u32>) -> Result<BTreeSet<u32>, WireError> {
        field::at_most(field, MAX_XIDS, xids.len())?;
        field::ascending(field, &xids)?;
        Ok(xids.into_iter().collect())
    }

    fn write(&self, xids: BTreeSet<u32>) -> Vec<u32> {
        xids.into_iter().take(MAX_XIDS).collect()
    }
}
