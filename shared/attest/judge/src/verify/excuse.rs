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
    /// The longest delay between the start of the challenge and the last answer of a probe.
    #[serde(default)]
    pub timed: Option<Duration>,
}

impl ValidatorDelays {
    /// Excuses a miner for time that may be our own. A missed deadline is ours where we were held up when the time
    /// ended: a miner that was late before it has no excuse. A rate that is too low is ours where we were held up for a
    /// tenth of the challenge, or for a tenth of the probe before its answer. Returns whether it was excused.
    pub fn excuse(&self, verdict: &mut Verdict) -> bool {
        let timed = self.timed.filter(|held_up| held_up.as_secs_f64() * 10.0 >= verdict.whole.probe_seconds);
        let held_up = |reason: &Reason| match reason.code {
            ReasonCode::ExpectationMissed
            | ReasonCode::LinkSlow
            | ReasonCode::TooSlow
            | ReasonCode::BandwidthBelowClaim
            | ReasonCode::MemoryBelowClaim
            | ReasonCode::ModelMismatch => self.for_long.max(timed),
            // The miner chooses the end, which comes long after the probe.
            ReasonCode::ResidencyShare => timed,
            code if code.class() == Class::Late => self.at_the_end,
            _ => None,
        };
        let failing = verdict.reasons.iter().filter(|reason| reason.code.class().fails());
        let excuses: Option<Vec<_>> = failing.map(held_up).collect();
        let longest = excuses.and_then(|excuses| excuses.into_iter().max());
        if let Some(longest) = longest {
            let why: Vec<_> =
                verdict.reasons.iter().map(|reason| format!("{}: {}", reason.code, reason.detail)).collect();
            let detail = format!("this validator was held up for {longest:.1?}; otherwise {}", why.join(", "));
            verdict.outcome = Outcome::Inconclusive;
            verdict.reasons = vec![Reason::new(ReasonCode::ValidatorOverloaded, detail)];
        }
        longest.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::tests::pass;

    /// A failed challenge whose probe took two seconds.
    fn failed(codes: &[ReasonCode]) -> Verdict {
        let reasons = codes.iter().map(|code| Reason::new(*code, "")).collect();
        let mut verdict = Verdict { outcome: Outcome::Fail, reasons, ..pass() };
        verdict.whole.probe_seconds = 2.0;
        verdict
    }

    #[test]
    fn rates_are_excused_by_a_delay_while_they_were_measured() {
        use ReasonCode::{
            BandwidthBelowClaim, CommitmentLate, LinkSlow, ModelMismatch, ResidencyShare, RootMismatch, TooSlow,
        };
        let timed = |ms| ValidatorDelays { timed: Some(Duration::from_millis(ms)), ..ValidatorDelays::default() };
        let outcome = |delays: ValidatorDelays, codes: &[ReasonCode]| {
            let mut verdict = failed(codes);
            delays.excuse(&mut verdict);
            verdict.outcome
        };
        for code in [ResidencyShare, LinkSlow, TooSlow, BandwidthBelowClaim, ModelMismatch] {
            assert_eq!(outcome(timed(250), &[code]), Outcome::Inconclusive, "{code}");
            assert_eq!(outcome(timed(150), &[code]), Outcome::Fail, "{code}: less than a tenth of the probe");
            assert_eq!(outcome(timed(250), &[code, RootMismatch]), Outcome::Fail, "{code}, and no rate");
        }
        assert_eq!(outcome(timed(250), &[CommitmentLate]), Outcome::Fail, "it was not held up at the end");
        let at_the_end = ValidatorDelays { at_the_end: Some(Duration::from_secs(9)), ..ValidatorDelays::default() };
        assert_eq!(outcome(at_the_end, &[ResidencyShare]), Outcome::Fail, "its probe was answered long before");
    }
}
