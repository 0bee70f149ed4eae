//! Checks standalone openings in the interchange form, without a challenge or a commitment.

use super::audit::{Audit, check_pass_openings, roots_at};
use std::collections::BTreeMap;

use super::bytes::{DeviceId, Root};
use super::challenge::{Challenge, ChallengeError};
use super::fault::{FaultKind, FaultPlace, OpeningFault};
use super::opening::{PassOpenings, PassSample};
use super::probe::{ProbeError, SweepError};

/// A refusal of openings that stand alone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StandaloneError {
    /// Their challenge breaks a rule.
    #[error("the challenge in the openings is not valid: {0}")]
    Challenge(#[from] ChallengeError),
    /// Their probe breaks a rule.
    #[error("the probe in the openings is not valid: {0}")]
    Probe(#[from] ProbeError),
    /// Their sweep breaks a rule.
    #[error("the sweep in the openings is not valid: {0}")]
    Sweep(#[from] SweepError),
    /// They fail a check.
    #[error(transparent)]
    Fault(#[from] OpeningFault),
}

impl StandaloneError {
    /// The stable name of the fault.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Challenge(error) => error.code(),
            Self::Probe(error) => error.code(),
            Self::Sweep(error) => error.code(),
            Self::Fault(fault) => fault.code(),
        }
    }
}

/// Checks openings without a challenge or a commitment: against `committed_roots` if present, otherwise against the
/// roots named in them; against the samples `drawn` if given, otherwise those named.
///
/// # Errors
/// [`StandaloneError`]: the first fault in WORK.md's order.
pub fn check_standalone(given: &PassOpenings, drawn: Option<&[PassSample]>) -> Result<(), StandaloneError> {
    let challenge = Challenge::try_from(given.challenge.clone())?;
    let device_id = given.device_id;
    let unbound = OpeningFault { kind: FaultKind::Binding, device_id, place: FaultPlace::Answer };
    let &share = challenge.share(device_id).ok_or(unbound)?;
    let iteration = given.iteration;
    if iteration >= challenge.iterations() {
        return Err(unbound.into());
    }
    let (previous_root, root) = match &given.committed_roots {
        None if iteration == 0 => (Root::BEFORE_FIRST, given.root),
        None => (given.previous_root, given.root),
        Some(committed) => {
            check_committed_roots(&challenge, committed)?;
            roots_at(&committed[&device_id], iteration)
        }
    };
    let named: Vec<PassSample> = given.samples.iter().map(|s| s.sample).collect();
    let samples = drawn.unwrap_or(&named);
    let audit = Audit { challenge: &challenge, share, iteration, previous_root, root, samples };
    Ok(check_pass_openings(&audit, given)?)
}

/// Checks that roots are committed for every device of the challenge and no other, one for each iteration.
///
/// # Errors
/// `binding`.
pub(super) fn check_committed_roots(
    challenge: &Challenge,
    committed: &BTreeMap<DeviceId, Vec<Root>>,
) -> Result<(), OpeningFault> {
    let unbound = |&device_id| OpeningFault { kind: FaultKind::Binding, device_id, place: FaultPlace::Answer };
    let of_all = |device_id: &&DeviceId| {
        committed.get(device_id).is_some_and(|roots| roots.len() == challenge.iterations() as usize)
    };
    let mut devices = challenge.shares().iter().map(|share| &share.device_id);
    if let Some(device_id) = devices.find(|id| !of_all(id)) {
        return Err(unbound(device_id));
    }
    committed.keys().find(|id| challenge.share(**id).is_none()).map_or(Ok(()), |id| Err(unbound(id)))
}
