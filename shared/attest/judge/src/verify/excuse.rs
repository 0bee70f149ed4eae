//! Attribution of a missed deadline: to the miner, or to a validator that was held up itself.

use std::time::Duration;

use assay_protocol::verdict::{Class, Outcome, Reason, ReasonCode, Verdict};
use assay_work::DeviceId;
use serde::{Deserialize, Serialize};

/// Delays of the validator itself during a challenge. Cases of earlier releases have the first ones.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ValidatorDelays {
    /// Delay at the end of the challenge.
    pub at_the_end: Option<Duration>,
    /// Delay of at least a tenth of the challenge.
    pub for_long: Option<Duration>,
    /// The longest delay between the first probe and its answer.
    pub timed: Option<Duration>,
    /// The longest delay between the start of the challenge and the commitment.
    pub worked: Option<Duration>,
    /// The longest delay between the first probe and the last answer of a later one.
    pub linked: Option<Duration>,
    /// Delay at the end in which it may take a miner for gone, or a miner the validator.
    pub silent: Option<Duration>,
    /// The longest delays until a device was done with its work, and with its probe.
    pub devices: Vec<(DeviceId, [Option<Duration>; 2])>,
}

impl ValidatorDelays {
    /// Excuses a miner for time that may be our own. A missed deadline is ours where we were held up when the time
    /// ended: a miner that was late before it has no excuse. A rate that is too low is ours where we were held up for a
    /// tenth of the challenge, or for a tenth of the work or the probe of the device or host by which it is measured. An
    /// end of the connection is ours after seconds in which we sent nothing. Returns whether it was excused.
    pub fn excuse(&self, verdict: &mut Verdict) -> bool {
        let tenth_of = |delay: Option<Duration>, seconds| delay.filter(|delay| delay.as_secs_f64() * 10.0 >= seconds);
        // Memory is bounded by the time of the whole probe.
        let all_probed = tenth_of(self.timed, verdict.whole.probe_seconds);
        let linked = verdict.link.as_ref().map_or(0.0, |link| link.seconds);
        let held_up = |reason: &Reason| {
            let device = reason.device_id.and_then(|id| verdict.device(id));
            let timed = device.map_or(&verdict.whole, |device| &device.work);
            let until_done = self.devices.iter().find(|(id, _)| Some(*id) == reason.device_id);
            let [worked, probed] = until_done.map_or([self.worked, self.timed], |(_, delays)| *delays);
            let [worked, probed] = [tenth_of(worked, timed.seconds), tenth_of(probed, timed.probe_seconds)];
            match reason.code {
                ReasonCode::ExpectationMissed | ReasonCode::ModelMismatch => self.for_long.max(worked).max(probed),
                ReasonCode::TooSlow => self.for_long.max(worked),
                ReasonCode::BandwidthBelowClaim => self.for_long.max(probed),
                ReasonCode::MemoryBelowClaim => self.for_long.max(all_probed),
                ReasonCode::LinkSlow => self.for_long.max(tenth_of(self.linked.max(self.timed), linked)),
                // The miner chooses the end, which comes long after the probe.
                ReasonCode::ResidencyShare => all_probed,
                code if code.class() == Class::Late => self.at_the_end,
                code if is_end(code) => self.silent,
                _ => None,
            }
        };
        let counts = verdict.reasons.iter().filter(|reason| reason.code.class().fails() || is_end(reason.code));
        let excuses: Option<Vec<_>> = counts.map(held_up).collect();
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

/// Whether a challenge ended so for the end of its connection.
pub fn is_end(code: ReasonCode) -> bool {
    code.class() == Class::Network || code == ReasonCode::AbandonedRepeatedly
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::tests::pass;
    use assay_protocol::verdict::{DeviceWork, LinkWork, Work};

    /// A failed challenge whose work took ten seconds, its probe two.
    fn failed(codes: &[ReasonCode]) -> Verdict {
        let reasons = codes.iter().map(|code| Reason::new(*code, "")).collect();
        let mut verdict = Verdict { outcome: Outcome::Fail, reasons, ..pass() };
        (verdict.whole.seconds, verdict.whole.probe_seconds) = (10.0, 2.0);
        verdict
    }

    #[test]
    fn a_device_is_excused_by_its_own_time() {
        let device_id = DeviceId([7; 16]);
        let timed = Duration::from_millis(30);
        let host = ValidatorDelays { timed: Some(timed), worked: Some(timed * 10), ..ValidatorDelays::default() };
        let of_device = |delays| ValidatorDelays { devices: vec![(device_id, delays)], ..host.clone() };
        let (before, after) = (of_device([host.worked, host.timed]), of_device([None; 2]));
        for (code, is_excused) in [
            (ReasonCode::BandwidthBelowClaim, true),
            (ReasonCode::TooSlow, true),
            // Its bound has the time of the whole probe.
            (ReasonCode::ResidencyShare, false),
            (ReasonCode::MemoryBelowClaim, false),
        ] {
            let mut verdict = failed(&[code]);
            assert!(!before.excuse(&mut verdict.clone()), "{code}: of the host");
            let name = String::new();
            let work = Work { seconds: 3.0, probe_seconds: 0.3, ..Work::default() };
            let (claimed_telemetry, hiding, rates, sweep) = (None, None, Vec::new(), None);
            verdict.devices = vec![DeviceWork { device_id, name, work, claimed_telemetry, hiding, rates, sweep }];
            verdict.reasons[0].device_id = Some(device_id);
            assert!(!after.excuse(&mut verdict.clone()), "{code}: it was done before");
            assert_eq!(before.excuse(&mut verdict), is_excused, "{code}");
        }
    }

    #[test]
    fn rates_are_excused_by_a_delay_while_they_were_measured() {
        use ReasonCode::{
            Abandoned, AbandonedRepeatedly, BandwidthBelowClaim, CommitmentLate, Disconnected, ExpectationMissed,
            LinkSlow, MemoryBelowClaim, ModelMismatch, PeerSilent, ResidencyShare, RootMismatch, TooSlow,
        };
        let delays = ValidatorDelays::default();
        let timed = |ms| ValidatorDelays { timed: Some(Duration::from_millis(ms)), ..ValidatorDelays::default() };
        let outcome = |delays: ValidatorDelays, codes: &[ReasonCode]| {
            let mut verdict = failed(codes);
            delays.excuse(&mut verdict);
            verdict.outcome
        };
        let of_probe = [ResidencyShare, BandwidthBelowClaim, MemoryBelowClaim];
        for code in of_probe.into_iter().chain([ModelMismatch, ExpectationMissed]) {
            assert_eq!(outcome(timed(250), &[code]), Outcome::Inconclusive, "{code}");
            assert_eq!(outcome(timed(150), &[code]), Outcome::Fail, "{code}: less than a tenth of the probe");
            assert_eq!(outcome(timed(250), &[code, RootMismatch]), Outcome::Fail, "{code}, and no rate");
        }
        assert_eq!(outcome(timed(900), &[TooSlow]), Outcome::Fail, "the work was over");
        let mut linked = failed(&[LinkSlow]);
        linked.link = Some(LinkWork {
            seconds: 20.0,
            step_seconds: 0.0,
            crossed_bytes: 0,
            gb_per_s: 0.0,
            half_gb_per_s: 0.0,
            least_gb_per_s: 0.0,
            segments: 0,
            bounds: Vec::new(),
        });
        assert!(!timed(250).excuse(&mut linked.clone()) && timed(2000).excuse(&mut linked));
        let worked = |ms| ValidatorDelays { worked: Some(Duration::from_millis(ms)), ..ValidatorDelays::default() };
        for code in [TooSlow, ModelMismatch, ExpectationMissed] {
            assert_eq!(outcome(worked(1000), &[code]), Outcome::Inconclusive, "{code}");
            assert_eq!(outcome(worked(999), &[code]), Outcome::Fail, "{code}: less than a tenth of the work");
        }
        let for_long = ValidatorDelays { for_long: Some(Duration::from_millis(250)), ..ValidatorDelays::default() };
        for code in [TooSlow, LinkSlow, BandwidthBelowClaim, MemoryBelowClaim, ModelMismatch, ExpectationMissed] {
            assert_eq!(outcome(for_long.clone(), &[code]), Outcome::Inconclusive, "{code}");
        }
        for code in of_probe {
            assert_eq!(outcome(worked(9000), &[code]), Outcome::Fail, "{code}: the probe came later");
        }
        assert_eq!(outcome(for_long, &[ResidencyShare]), Outcome::Fail, "the end is the miner's choice");
        assert_eq!(outcome(timed(250), &[CommitmentLate]), Outcome::Fail, "it was not held up at the end");
        let at_the_end = ValidatorDelays { at_the_end: Some(Duration::from_secs(9)), ..ValidatorDelays::default() };
        assert_eq!(outcome(at_the_end.clone(), &[ResidencyShare]), Outcome::Fail, "its probe was answered long before");
        for code in [AbandonedRepeatedly, Abandoned, PeerSilent, Disconnected] {
            for (delays, is_excused) in [
                (at_the_end.clone(), false),
                (ValidatorDelays { silent: at_the_end.at_the_end, ..delays.clone() }, true),
            ] {
                let mut ended = Verdict { outcome: Outcome::Inconclusive, ..failed(&[code]) };
                assert_eq!(delays.excuse(&mut ended), is_excused, "{code}");
                assert_eq!(ended.reasons[0].code == ReasonCode::ValidatorOverloaded, is_excused);
            }
        }
    }
}
