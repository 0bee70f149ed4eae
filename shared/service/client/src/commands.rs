//! Commands to a running validator.

pub mod administer;
pub mod cancel;
pub mod challenge;
pub mod miners;
pub mod receipt;
pub mod records;
pub mod status;
pub mod watch;

use assay_program::exit::Exit;
use assay_protocol::verdict::Outcome;

/// The exit code for a verdict: by its outcome, and whether it lacks memory.
pub const fn exit_of(outcome: Outcome, lacks_memory: bool) -> Exit {
    match outcome {
        Outcome::Pass if lacks_memory => Exit::NoMemory,
        Outcome::Pass => Exit::Done,
        Outcome::Fail => Exit::Fail,
        Outcome::Inconclusive => Exit::Inconclusive,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_has_the_code_of_its_outcome() {
        let outcomes = [Outcome::Pass, Outcome::Fail, Outcome::Inconclusive];
        let codes = |lacks_memory| outcomes.map(|outcome| exit_of(outcome, lacks_memory) as u8);
        assert_eq!((codes(false), codes(true)), ([0, 1, 2], [3, 1, 2]));
    }
}
