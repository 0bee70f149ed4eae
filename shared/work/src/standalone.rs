//! Checks standalone openings in the interchange form, without a challenge or a commitment.

use super::audit::{Audit, check_pass_openings, roots_at};
use super::bytes::Root;
use super::challenge::{Challenge, ChallengeError};
use super::fault::{FaultKind, FaultPlace, OpeningFault};
use super::opening::{PassOpenings, Sample};

/// Why openings that stand alone are refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StandaloneError {
    /// The challenge in them breaks a rule.
    #[error("the challenge in the openings is not valid: {0}")]
    Challenge(#[from] ChallengeError),
    /// They are not what they should be.
    #[error(transparent)]
    Fault(#[from] OpeningFault),
}

impl StandaloneError {
    /// The stable name of what was wrong.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Challenge(error) => error.code(),
            Self::Fault(fault) => fault.code(),
        }
    }
}

/// Checks openings without a challenge or a commitment: against `committed_roots` if present, otherwise against the
/// roots named in them; against the samples `drawn` if given, otherwise those named.
///
/// # Errors
/// [`StandaloneError`]: the first fault in WORK.md's order.
pub fn check_standalone(given: &PassOpenings, drawn: Option<&[Sample]>) -> Result<(), StandaloneError> {
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
        Some(committed) => match committed.get(&device_id) {
            Some(roots) if roots.len() == challenge.iterations() as usize => roots_at(roots, iteration),
            _ => return Err(unbound.into()),
        },
    };
    let named: Vec<Sample> = given.samples.iter().map(|s| s.sample).collect();
    let samples = drawn.unwrap_or(&named);
    let audit = Audit { challenge: &challenge, share, iteration, previous_root, root, samples };
    Ok(check_pass_openings(&audit, given)?)
}
