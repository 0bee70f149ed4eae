//! Walks over all resident slots, twice, and some of them by the processor.

use std::sync::Arc;
use std::time::{Duration, Instant};

use assay_device::open::{ProbedDevice, open_segments};
use assay_device::{Device, DeviceError, Pass, ProbeRounds};
use assay_work::digest::pass_root;
use assay_work::{
    Challenge, Digest, Probe, Segment, SegmentAudit, Share, UncheckedChallenge, UncheckedProbe, check_segments,
};

use super::{Drive, rate};
use crate::board::first_difference;
use crate::finding::{RecheckResult, Severity, Test, TestFinding};
use crate::record::Measure;

/// Rounds of the first probe, before it is known how long they take.
pub const FIRST_ROUNDS: u32 = 2;
const MAX_ROUNDS: u32 = 4096;
/// For about how long they go on: as long as the pass before them, within these bounds in seconds.
const PROBE_S: (f64, f64) = (0.02, 0.5);
/// Steps of each walk.
const STEPS: u32 = 64;
/// The least and the most walks, and the part of the slots that their states are at most.
const WALKS: (u64, u64) = (64, 1 << 18);
const SLOTS_PER_STATES: u64 = 8;
/// Bytes of a state, and of a line.
const LINE_BYTES: u64 = 64;
/// Segments that the processor walks: of a probe, and of a round that is in dispute.
const SEGMENTS: u32 = 4;
const DISPUTED_SEGMENTS: u32 = 16;

impl Drive<'_> {
    pub(super) fn probe(
        &mut self,
        device: &mut dyn Device,
        pass: &Pass,
        digests: &[Digest],
        pass_took: Duration,
    ) -> Result<(), DeviceError> {
        self.doing("walking the probe");
        let key = self.run.plan.seed.probe_key(self.round);
        let probe = ProbeRounds { key, walks: walks_over(pass), steps: STEPS, rounds: self.probe_rounds };
        let (first, took) = self.walk(device, &probe)?;
        let (second, again) = self.walk(device, &probe)?;
        let bytes = u128::from(probe.walks) * u128::from(probe.steps) * u128::from(probe.rounds) * 64;
        self.rate(Measure::Probe, "", rate(bytes, took));
        self.rate(Measure::Probe, "", rate(bytes, again));
        self.next_rounds(probe.rounds, took.min(again), pass_took);
        self.record(|record| record.count(Test::Probe, 2 * u64::from(probe.rounds)));
        let answer = match first_difference(&first, &second) {
            None => second,
            Some(_) => self.differing(device, &probe, first, second)?,
        };
        // Walks over a wrong pass are not compared with the others'.
        let id = (self.round, pass.n, probe.walks, pass_root(digests).0);
        self.run.probes.post(id, self.who(), Arc::new(answer.clone()));
        let disputed = self.run.probes.dispute(id, self.who());
        let mut draw = self.run.plan.seed.draw(self.round, self.pass | 1 << 31);
        let mut segments = draw.segments(probe.rounds, probe.walks, SEGMENTS);
        // Every digest depends on the one before: the last round is always among them.
        segments.push(Segment { round: probe.rounds - 1, walk: draw.below(probe.walks) });
        if let Some(dispute) = &disputed {
            let of_round = draw.segments(1, probe.walks, DISPUTED_SEGMENTS).into_iter();
            segments.extend(of_round.map(|segment| Segment { round: dispute.index, ..segment }));
        }
        let is_right = self.check(device, pass, digests, (&probe, &answer), &segments)?;
        if let (true, Some(dispute)) = (is_right, disputed) {
            let text = format!(
                "round {} of the probe has another digest than device {}'s, and {DISPUTED_SEGMENTS} walks of it that \
                 the processor made do not say which is wrong",
                dispute.index, dispute.others[0].device
            );
            self.find(Severity::Fail, Test::Probe, text);
        }
        Ok(())
    }

    fn walk(&self, device: &mut dyn Device, probe: &ProbeRounds) -> Result<(Vec<Digest>, Duration), DeviceError> {
        let handle = self.handle();
        let start = Instant::now();
        let digests = self.call(|| device.probe_rounds(probe, &handle))?;
        Ok((digests, start.elapsed()))
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
    fn next_rounds(&mut self, rounds: u32, took: Duration, pass_took: Duration) {
        let target = pass_took.as_secs_f64().clamp(PROBE_S.0, PROBE_S.1);
        let wanted = target / (took.as_secs_f64() / f64::from(rounds));
        self.probe_rounds = (wanted as u32).clamp(1, MAX_ROUNDS);
    }

    /// Two probes of one key over the same slots differ: a third one says which of them was wrong.
    fn differing(
        &self,
        device: &mut dyn Device,
        probe: &ProbeRounds,
        first: Vec<Digest>,
        second: Vec<Digest>,
    ) -> Result<Vec<Digest>, DeviceError> {
        let (third, _) = self.walk(device, probe)?;
        let round = first_difference(&first, &second).unwrap_or(0);
        let (again, wrong) = match third[round] {
            right if right == second[round] => (RecheckResult::Right, first[round]),
            right if right == first[round] => (RecheckResult::Right, second[round]),
            _ => (RecheckResult::OtherWrong, first[round]),
        };
        let text = format!(
            "round {round} of {} of the probe gave the digest {wrong}, expected {}; {}",
            probe.rounds,
            third[round],
            again.sentence()
        );
        self.find_more(TestFinding { again: Some(again), ..TestFinding::new(Severity::Fail, Test::Probe, text) });
        Ok(third)
    }

    /// Walks segments on the processor over lines that lead to the digests of the slots; whether all are right.
    fn check(
        &self,
        device: &mut dyn Device,
        pass: &Pass,
        digests: &[Digest],
        (rounds, answer): (&ProbeRounds, &[Digest]),
        segments: &[Segment],
    ) -> Result<bool, DeviceError> {
        let share = Share { device_id: self.id, offset: 0, count: pass.count };
        // Openings of a probe need its matrix size.
        let challenge = Challenge::try_from(UncheckedChallenge::unasked(pass.n, 1, [(self.id, pass.count)]));
        let (Ok(challenge), Some(probe)) = (challenge, self.probe_of(rounds)) else {
            return Err(DeviceError::Unsupported("a probe that WORK.md does not allow".into()));
        };
        let probed = ProbedDevice {
            challenge: &challenge,
            probe: &probe,
            device_id: self.id,
            probe_key: &rounds.key,
            digests: answer,
            slot_digests: digests,
        };
        let checked = match open_segments(device, &probed, segments, &self.handle()) {
            // That of the device itself leaves it with a fault.
            Err(DeviceError::Sick(why)) if device.fault().is_none() => Err(why),
            Err(error) => return Err(error),
            Ok(opened) => {
                let key = (&probe, rounds.key);
                let audit = SegmentAudit::of_pass(pass.n, share, key, pass_root(digests), answer, segments);
                check_segments(&audit, &opened).map_err(|fault| fault.to_string())
            }
        };
        self.record(|record| record.count(Test::Probe, segments.len() as u64));
        if let Err(why) = &checked {
            let text = format!("walks of the probe are not what the processor walks: {why}");
            self.find(Severity::Fail, Test::Probe, text);
        }
        Ok(checked.is_ok())
    }

    fn probe_of(&self, rounds: &ProbeRounds) -> Option<Probe> {
        let ProbeRounds { key: _, walks, steps, rounds } = *rounds;
        let seed = self.run.plan.seed.probe_seed(self.round);
        Probe::try_from(UncheckedProbe { seed, walks, steps, rounds, link: 0 }).ok()
    }
}

/// Number of walks that a policy would ask for, within the processor's capacity to check.
fn walks_over(pass: &Pass) -> u32 {
    let most = (pass.bytes() / SLOTS_PER_STATES / LINE_BYTES).clamp(WALKS.0, WALKS.1);
    1 << most.ilog2()
}
