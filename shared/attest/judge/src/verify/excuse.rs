//! Attribution of a missed deadline: to the miner, or to a validator that was held up itself.

use std::time::Duration;

use assay_protocol::verdict::{Class, Outcome, Reason, ReasonCode, Verdict};
use serde::{Deserialize, Serialize};

/// Delays of the validator itself during a challenge.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ValidatorDelays {
    /// Delay at the end of the challenge.
    pub at_the_end: Option<Duration>,
    /// Delay of at least a tenth of the challenge.
    pub for_long: Option<Duration>,
}

impl ValidatorDelays {
    /// Excuses a miner for time that may be our own. A missed deadline is ours where we were held up when the time
    /// ended: a miner that was late before it has no excuse. A missed expectation, which may be one of a rate, is ours
    /// where we were held up for a tenth of the challenge.
    pub fn excuse(&self, verdict: &mut Verdict) {
        let held_up = |reason: &Reason| match reason.code {
            ReasonCode::ExpectationMissed => self.for_long,
            code if code.class() == Class::Late => self.at_the_end,
            _ => None,
        };
        let failing = verdict.reasons.iter().filter(|reason| reason.code.class().fails());
        let excuses: Option<Vec<_>> = failing.map(held_up).collect();
        if let Some(longest) = excuses.and_then(|excuses| excuses.into_iter().max()) {
            let why: Vec<_> =
                verdict.reasons.iter().map(|reason| format!("{}: {}", reason.code, reason.detail)).collect();
            let detail = format!("this validator was held up for {longest:.1?}; otherwise {}", why.join(", "));
            verdict.outcome = Outcome::Inconclusive;
            verdict.reasons = vec![Reason::new(ReasonCode::ValidatorOverloaded, detail)];
        }
    }
}
