//! Verdicts.
//!
//! A miner may be older than its validator, and a verdict is only told to it, so a reason whose code is not
//! known here is kept: as the known code that is nearest among those of its class, with the unknown one in
//! front of the detail. Outcome, class and text stay what the validator said. Outcomes, classes and modes
//! are closed sets: an unknown one is refused.

use super::error::{Problem, WireError};
use super::limits::{MAX_BOUNDS, MAX_CLASS_BYTES, MAX_DETAIL_BYTES, MAX_DEVICES, MAX_REASON_CODE_BYTES, MAX_REASONS};
use super::{field, v1};
use crate::verdict::{Class, DeviceWork, Mode, Outcome, Reason, ReasonCode, Verdict};

impl TryFrom<v1::Verdict> for Verdict {
    type Error = WireError;

    fn try_from(verdict: v1::Verdict) -> Result<Self, WireError> {
        let v1::Verdict {
            challenge_id,
            miner_key,
            validator_key,
            outcome,
            reasons,
            mode,
            n,
            iterations,
            iterations_checked,
            devices,
            whole,
            work_bounds,
            iteration_bounds,
            probe_bounds,
            round_trip_ms,
            unix_seconds,
        } = verdict;
        let devices: Vec<DeviceWork> = field::list("Verdict.devices", MAX_DEVICES, devices)?;
        field::ascending("Verdict.devices", devices.iter().map(|d| d.device_id))?;
        Ok(Self {
            challenge_id: field::fixed("Verdict.challenge_id", &challenge_id)?,
            miner_key: field::fixed("Verdict.miner_key", &miner_key)?,
            validator_key: field::fixed("Verdict.validator_key", &validator_key)?,
            outcome: read_outcome(outcome)?,
            reasons: field::list("Verdict.reasons", MAX_REASONS, reasons)?,
            mode: read_mode("Verdict.mode", mode)?,
            n,
            iterations,
            iterations_checked,
            devices,
            whole: field::required("Verdict.whole", whole)?.try_into()?,
            work_bounds: field::list("Verdict.work_bounds", MAX_BOUNDS, work_bounds)?,
            iteration_bounds: field::list("Verdict.iteration_bounds", MAX_BOUNDS, iteration_bounds)?,
            probe_bounds: field::list("Verdict.probe_bounds", MAX_BOUNDS, probe_bounds)?,
            round_trip_ms: Some(field::finite("Verdict.round_trip_ms", round_trip_ms)?).filter(|ms| *ms != 0.0),
            unix_seconds,
        })
    }
}

impl From<Verdict> for v1::Verdict {
    fn from(verdict: Verdict) -> Self {
        let Verdict {
            challenge_id,
            miner_key,
            validator_key,
            outcome,
            reasons,
            mode,
            n,
            iterations,
            iterations_checked,
            devices,
            whole,
            work_bounds,
            iteration_bounds,
            probe_bounds,
            round_trip_ms,
            unix_seconds,
        } = verdict;
        Self {
            challenge_id: challenge_id.0.to_vec(),
            miner_key: miner_key.0.to_vec(),
            validator_key: validator_key.0.to_vec(),
            outcome: v1::Outcome::from(outcome).into(),
            reasons: reasons.into_iter().take(MAX_REASONS).map(Into::into).collect(),
            mode: mode_code(mode),
            n,
            iterations,
            iterations_checked,
            devices: devices.into_iter().map(Into::into).collect(),
            whole: Some(whole.into()),
            work_bounds: work_bounds.into_iter().map(Into::into).collect(),
            iteration_bounds: iteration_bounds.into_iter().map(Into::into).collect(),
            probe_bounds: probe_bounds.into_iter().map(Into::into).collect(),
            // 0 stands for a round trip that was not measured.
            round_trip_ms: round_trip_ms.map_or(0.0, field::nearest_finite),
            unix_seconds,
        }
    }
}

impl TryFrom<v1::Reason> for Reason {
    type Error = WireError;

    fn try_from(reason: v1::Reason) -> Result<Self, WireError> {
        let v1::Reason { code, class, detail, device_id } = reason;
        let code = field::text("Reason.code", MAX_REASON_CODE_BYTES, code)?;
        let class = read_class(field::text("Reason.class", MAX_CLASS_BYTES, class)?)?;
        let detail = field::text("Reason.detail", MAX_DETAIL_BYTES, detail)?;
        let device_id = device_id.map(|id| field::fixed("Reason.device_id", &id)).transpose()?;
        match ReasonCode::ALL.iter().find(|known| known.name() == code) {
            Some(known) if known.class() == class => Ok(Self { code: *known, detail, device_id }),
            Some(_) => Err(WireError::new("Reason.class", Problem::Contradicts("code"))),
            None => {
                let detail = field::printable(&format!("{code}: {detail}"), MAX_DETAIL_BYTES);
                Ok(Self { code: nearest_code(class), detail, device_id })
            }
        }
    }
}

impl From<Reason> for v1::Reason {
    fn from(reason: Reason) -> Self {
        let Reason { code, detail, device_id } = reason;
        Self {
            code: code.name().to_owned(),
            class: code.class().name().to_owned(),
            detail: field::printable(&detail, MAX_DETAIL_BYTES),
            device_id: device_id.map(|id| id.0.to_vec()),
        }
    }
}

/// What a reason of a class is shown as when its code is not known here: the least specific of the class.
const fn nearest_code(class: Class) -> ReasonCode {
    match class {
        Class::Forged => ReasonCode::Protocol,
        Class::Late => ReasonCode::CommitmentLate,
        Class::Sick => ReasonCode::DeviceSick,
        Class::Busy => ReasonCode::MinerStopped,
        Class::Network => ReasonCode::Disconnected,
        Class::Ours => ReasonCode::ValidatorInternal,
    }
}

fn read_class(name: String) -> Result<Class, WireError> {
    const CLASSES: [Class; 6] = [Class::Forged, Class::Late, Class::Sick, Class::Busy, Class::Network, Class::Ours];
    match CLASSES.into_iter().find(|class| class.name() == name) {
        Some(class) => Ok(class),
        None => Err(WireError::new("Reason.class", Problem::UnknownName(name))),
    }
}

fn read_outcome(code: i32) -> Result<Outcome, WireError> {
    match v1::Outcome::try_from(code) {
        Ok(v1::Outcome::Pass) => Ok(Outcome::Pass),
        Ok(v1::Outcome::Fail) => Ok(Outcome::Fail),
        Ok(v1::Outcome::Inconclusive) => Ok(Outcome::Inconclusive),
        Ok(v1::Outcome::Unspecified) | Err(_) => Err(WireError::new("Verdict.outcome", Problem::UnknownCode(code))),
    }
}

impl From<Outcome> for v1::Outcome {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Pass => Self::Pass,
            Outcome::Fail => Self::Fail,
            Outcome::Inconclusive => Self::Inconclusive,
        }
    }
}

/// The mode that a field names; `None` when it is left unspecified.
///
/// # Errors
/// [`Problem::UnknownCode`].
pub fn read_mode(field: &'static str, code: i32) -> Result<Option<Mode>, WireError> {
    match v1::Mode::try_from(code) {
        Ok(v1::Mode::Unspecified) => Ok(None),
        Ok(v1::Mode::Replay) => Ok(Some(Mode::Replay)),
        Ok(v1::Mode::ReplaySample) => Ok(Some(Mode::ReplaySample)),
        Ok(v1::Mode::Audit) => Ok(Some(Mode::Audit)),
        Err(_) => Err(WireError::new(field, Problem::UnknownCode(code))),
    }
}

/// The code of a mode; `None` is left unspecified.
#[must_use]
pub fn mode_code(mode: Option<Mode>) -> i32 {
    mode.map_or(v1::Mode::Unspecified, v1::Mode::from).into()
}

impl From<Mode> for v1::Mode {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Replay => Self::Replay,
            Mode::ReplaySample => Self::ReplaySample,
            Mode::Audit => Self::Audit,
        }
    }
}
