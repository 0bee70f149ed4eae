//! Codes: enums with the same variants on the wire and in the domain.

use super::error::{FieldProblem, WireError};
use super::field::FieldKind;
use super::v1;
use crate::claims::{ConfidentialComputing, ThrottleReason};
use crate::message::{RefusedCode, StopCode};
use crate::verdict::{Mode, Outcome};

/// An enum of the domain with its enum on the wire.
pub trait WireCode: Sized {
    /// The generated enum; its default is the unspecified code.
    type Wire: TryFrom<i32> + Into<i32> + From<Self> + Default;

    /// The value of a code, `None` for the unspecified one.
    fn from_wire(code: Self::Wire) -> Option<Self>;
}

/// Both directions of each enum. A variant that one side lacks does not compile.
macro_rules! codes {
    ($($name:ident { $($variant:ident)+ })+) => {$(
        impl WireCode for $name {
            type Wire = v1::$name;

            fn from_wire(code: v1::$name) -> Option<Self> {
                Some(match code {
                    v1::$name::Unspecified => return None,
                    $(v1::$name::$variant => Self::$variant,)+
                })
            }
        }

        impl From<$name> for v1::$name {
            fn from(value: $name) -> Self {
                match value {
                    $($name::$variant => Self::$variant,)+
                }
            }
        }
    )+};
}

codes! {
    StopCode {
        Busy Draining NotEnoughMemory DeviceLost Invalid StaleInventory Unsupported Deadline Internal Declined
    }
    RefusedCode { Version Signature NotAllowed Full Draining Malformed InChallenge Overloaded Pending Suspended JoinToken }
    Outcome { Pass Fail Inconclusive }
    Mode { Replay ReplaySample Audit }
    ThrottleReason {
        GpuIdle ApplicationsClocks SwPowerCap HwSlowdown SyncBoost SwThermal HwThermal HwPowerBrake DisplayClocks
    }
    ConfidentialComputing { Off On DevTools }
}

/// A code that must be set and known: [`FieldProblem::UnknownCode`].
pub struct Code;

impl<D: WireCode> FieldKind<i32, D> for Code {
    fn read(&self, field: &'static str, code: i32) -> Result<D, WireError> {
        KnownCode.read(field, code)?.ok_or(WireError::new(field, FieldProblem::UnknownCode(code)))
    }

    fn write(&self, value: D) -> i32 {
        D::Wire::from(value).into()
    }
}

/// A code that may be unspecified but must be known: [`FieldProblem::UnknownCode`].
pub struct OptionalCode;

impl<D: WireCode> FieldKind<i32, Option<D>> for OptionalCode {
    fn read(&self, field: &'static str, code: i32) -> Result<Option<D>, WireError> {
        let wire = D::Wire::try_from(code).map_err(|_| WireError::new(field, FieldProblem::UnknownCode(code)))?;
        Ok(D::from_wire(wire))
    }

    fn write(&self, value: Option<D>) -> i32 {
        value.map(D::Wire::from).unwrap_or_default().into()
    }
}

/// A code of which an unknown value reads as unspecified.
pub struct KnownCode;

impl<D: WireCode> FieldKind<i32, Option<D>> for KnownCode {
    fn read(&self, _field: &'static str, code: i32) -> Result<Option<D>, WireError> {
        Ok(D::Wire::try_from(code).ok().and_then(D::from_wire))
    }

    fn write(&self, value: Option<D>) -> i32 {
        OptionalCode.write(value)
    }
}
