//! Challenges, commitments, probes and their answers.

use std::time::Duration;

use super::error::{FieldProblem, WireError};
use super::field::{
    BoxedInDomain, ByteString, ConcatenatedBytes, FieldKind, Milliseconds, NestedMessage, Optional, PartOf,
    RequiredMessage,
};
use super::limits::{
    MAX_CLAIMED_MS, MAX_DEADLINE_MS, MAX_PROBE_DIGESTS, MAX_PROGRESS_SLOTS, MAX_ROOTS, MIN_DEADLINE_MS,
};
use super::v1;
use crate::message::{DeviceDigests, DeviceRoots, Offer, SignedChecksum};
use assay_work::commitment::DeviceEvidence;
use assay_work::probe::{DeviceAnswer, Probe, Sweep, UncheckedProbe, UncheckedSweep};
use assay_work::{ChallengeId, Checksum, DeviceId, ProbeError, Share};

/// The validator's deadline.
pub(super) const DEADLINE: Milliseconds = Milliseconds(MIN_DEADLINE_MS, MAX_DEADLINE_MS);
/// A time by the miner's own clock.
const CLAIMED: Milliseconds = Milliseconds(0, MAX_CLAIMED_MS);
const DONE_OF_ALL: PartOf =
    PartOf { part: "Progress.done_slots", whole: "Progress.all_slots", max_whole: MAX_PROGRESS_SLOTS };

messages! {
    // The rules of WORK.md are checked when the offer is planned, so that the miner can decline with them.
    v1::Challenge = Offer {
        version,
        challenge_id: ByteString,
        nonce: ByteString,
        precision,
        n,
        iterations,
        total,
        inventory_sequence,
        deadline_ms as deadline: DEADLINE,
        min_slots,
    }
    v1::Progress = (ChallengeId, u64, u64, Option<(DeviceId, Checksum)>) {
        challenge_id: ByteString,
        done_slots & all_slots: DONE_OF_ALL,
        finished: Optional(NestedMessage),
    }
    v1::FinishedDevice = (DeviceId, Checksum) { device_id: ByteString, checksum: ByteString }
    v1::Commitment | v1::ProbeAnswer = SignedChecksum {
        challenge_id: ByteString,
        checksum: ByteString,
        signature: ByteString,
        claimed_ms as claimed: CLAIMED,
    }
    // The miner's claim of its split: the session compares it with its own.
    v1::Share = Share { device_id: ByteString, offset, count }
    v1::Probe = (ChallengeId, Probe, Duration) {
        challenge_id: ByteString,
        seed & walks & steps & rounds & link as probe: CheckedProbe,
        deadline_ms as deadline: DEADLINE,
    }
    v1::Sweep = (ChallengeId, Sweep, Duration) {
        challenge_id: ByteString,
        seed & rounds as sweep: CheckedSweep,
        deadline_ms as deadline: DEADLINE,
    }
    v1::DeviceRoots = DeviceRoots {
        challenge_id: ByteString,
        share & roots & checksum as evidence: Roots,
        claimed_ms as claimed: CLAIMED,
        claimed_telemetry: Optional(BoxedInDomain),
    }
    v1::DeviceDigests = DeviceDigests {
        challenge_id: ByteString,
        device_id & digests as answer: Digests,
        claimed_ms as claimed: CLAIMED,
    }
}

/// The evidence of one device.
struct Roots;

impl FieldKind<(Option<v1::Share>, Vec<u8>, Vec<u8>), DeviceEvidence> for Roots {
    fn read(
        &self,
        _fields: &'static str,
        (share, roots, checksum): (Option<v1::Share>, Vec<u8>, Vec<u8>),
    ) -> Result<DeviceEvidence, WireError> {
        let Share { device_id, offset, count } = RequiredMessage.read("DeviceRoots.share", share)?;
        let roots = ConcatenatedBytes(MAX_ROOTS).read("DeviceRoots.roots", roots)?;
        let checksum = ByteString.read("DeviceRoots.checksum", checksum)?;
        Ok(DeviceEvidence { device_id, offset, count, roots, checksum })
    }

    fn write(&self, evidence: DeviceEvidence) -> (Option<v1::Share>, Vec<u8>, Vec<u8>) {
        let DeviceEvidence { device_id, offset, count, roots, checksum } = evidence;
        let share = RequiredMessage.write(Share { device_id, offset, count });
        (share, ConcatenatedBytes(MAX_ROOTS).write(roots), ByteString.write(checksum))
    }
}

/// The answer of one device to a probe.
struct Digests;

impl FieldKind<(Vec<u8>, Vec<u8>), DeviceAnswer> for Digests {
    fn read(&self, _fields: &'static str, (device_id, digests): (Vec<u8>, Vec<u8>)) -> Result<DeviceAnswer, WireError> {
        let device_id = ByteString.read("DeviceDigests.device_id", device_id)?;
        Ok(DeviceAnswer {
            device_id,
            digests: ConcatenatedBytes(MAX_PROBE_DIGESTS).read("DeviceDigests.digests", digests)?,
        })
    }

    fn write(&self, DeviceAnswer { device_id, digests }: DeviceAnswer) -> (Vec<u8>, Vec<u8>) {
        (ByteString.write(device_id), ConcatenatedBytes(MAX_PROBE_DIGESTS).write(digests))
    }
}

/// A probe by the rules of WORK.md: [`FieldProblem::Rule`].
struct CheckedProbe;

impl FieldKind<(Vec<u8>, u32, u32, u32, u32), Probe> for CheckedProbe {
    fn read(
        &self,
        _fields: &'static str,
        (seed, walks, steps, rounds, link): (Vec<u8>, u32, u32, u32, u32),
    ) -> Result<Probe, WireError> {
        let seed = ByteString.read("Probe.seed", seed)?;
        Probe::try_from(UncheckedProbe { seed, walks, steps, rounds, link }).map_err(|error| {
            let field = match error {
                ProbeError::Walks(_) => "Probe.walks",
                ProbeError::Steps(_) => "Probe.steps",
                ProbeError::Rounds(_) => "Probe.rounds",
                ProbeError::Link(_) | ProbeError::LinkOfOne(_) => "Probe.link",
            };
            WireError::new(field, FieldProblem::Rule(error.to_string()))
        })
    }

    fn write(&self, probe: Probe) -> (Vec<u8>, u32, u32, u32, u32) {
        let UncheckedProbe { seed, walks, steps, rounds, link } = *probe.fields();
        (ByteString.write(seed), walks, steps, rounds, link)
    }
}

/// A sweep by the rules of WORK.md: [`FieldProblem::Rule`].
struct CheckedSweep;

impl FieldKind<(Vec<u8>, u32), Sweep> for CheckedSweep {
    fn read(&self, _fields: &'static str, (seed, rounds): (Vec<u8>, u32)) -> Result<Sweep, WireError> {
        let seed = ByteString.read("Sweep.seed", seed)?;
        Sweep::try_from(UncheckedSweep { seed, rounds })
            .map_err(|error| WireError::new("Sweep.rounds", FieldProblem::Rule(error.to_string())))
    }

    fn write(&self, sweep: Sweep) -> (Vec<u8>, u32) {
        let UncheckedSweep { seed, rounds } = *sweep.fields();
        (ByteString.write(seed), rounds)
    }
}
