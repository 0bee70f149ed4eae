//! Challenges, commitments, probes and their answers.

use std::time::Duration;

use super::error::{Problem, WireError};
use super::limits::{
    MAX_CLAIMED_MS, MAX_DEADLINE_MS, MAX_PROBE_DIGESTS, MAX_PROGRESS_SLOTS, MAX_ROOTS, MIN_DEADLINE_MS,
};
use super::{field, v1};
use crate::message::{DeviceDigests, DeviceRoots, Offer, SignedChecksum};
use assay_work::commitment::DeviceEvidence;
use assay_work::probe::{DeviceAnswer, Probe, UncheckedProbe};
use assay_work::{ChallengeId, ProbeError};

impl TryFrom<v1::Challenge> for Offer {
    type Error = WireError;

    /// The rules of WORK.md are checked when the offer is planned, so that the miner can decline with them.
    fn try_from(challenge: v1::Challenge) -> Result<Self, WireError> {
        let v1::Challenge {
            version,
            challenge_id,
            nonce,
            precision,
            n,
            iterations,
            total,
            inventory_sequence,
            deadline_ms,
        } = challenge;
        Ok(Self {
            version,
            challenge_id: field::fixed("Challenge.challenge_id", &challenge_id)?,
            nonce: field::fixed("Challenge.nonce", &nonce)?,
            precision,
            n,
            iterations,
            total,
            inventory_sequence,
            deadline: read_deadline("Challenge.deadline_ms", deadline_ms)?,
        })
    }
}

impl From<Offer> for v1::Challenge {
    fn from(offer: Offer) -> Self {
        let Offer { version, challenge_id, nonce, precision, n, iterations, total, inventory_sequence, deadline } =
            offer;
        Self {
            version,
            challenge_id: challenge_id.0.to_vec(),
            nonce: nonce.0.to_vec(),
            precision,
            n,
            iterations,
            total,
            inventory_sequence,
            deadline_ms: write_deadline(deadline),
        }
    }
}

pub(super) fn read_progress(progress: v1::Progress) -> Result<(ChallengeId, u64, u64), WireError> {
    let v1::Progress { challenge_id, done_slots, all_slots } = progress;
    field::in_range("Progress.all_slots", 0, MAX_PROGRESS_SLOTS, all_slots)?;
    if done_slots > all_slots {
        return Err(WireError::new("Progress.done_slots", Problem::MoreThan("all_slots")));
    }
    Ok((field::fixed("Progress.challenge_id", &challenge_id)?, done_slots, all_slots))
}

pub(super) fn write_progress(challenge_id: ChallengeId, done_slots: u64, all_slots: u64) -> v1::Progress {
    let all_slots = all_slots.min(MAX_PROGRESS_SLOTS);
    v1::Progress { challenge_id: challenge_id.0.to_vec(), done_slots: done_slots.min(all_slots), all_slots }
}

impl TryFrom<v1::Commitment> for SignedChecksum {
    type Error = WireError;

    fn try_from(commitment: v1::Commitment) -> Result<Self, WireError> {
        let v1::Commitment { challenge_id, checksum, signature, claimed_ms } = commitment;
        Ok(Self {
            challenge_id: field::fixed("Commitment.challenge_id", &challenge_id)?,
            checksum: field::fixed("Commitment.checksum", &checksum)?,
            signature: field::fixed("Commitment.signature", &signature)?,
            claimed: read_claimed("Commitment.claimed_ms", claimed_ms)?,
        })
    }
}

impl From<SignedChecksum> for v1::Commitment {
    fn from(commitment: SignedChecksum) -> Self {
        let SignedChecksum { challenge_id, checksum, signature, claimed } = commitment;
        Self {
            challenge_id: challenge_id.0.to_vec(),
            checksum: checksum.0.to_vec(),
            signature: signature.0.to_vec(),
            claimed_ms: write_claimed(claimed),
        }
    }
}

impl TryFrom<v1::ProbeAnswer> for SignedChecksum {
    type Error = WireError;

    fn try_from(answer: v1::ProbeAnswer) -> Result<Self, WireError> {
        let v1::ProbeAnswer { challenge_id, checksum, signature, claimed_ms } = answer;
        Ok(Self {
            challenge_id: field::fixed("ProbeAnswer.challenge_id", &challenge_id)?,
            checksum: field::fixed("ProbeAnswer.checksum", &checksum)?,
            signature: field::fixed("ProbeAnswer.signature", &signature)?,
            claimed: read_claimed("ProbeAnswer.claimed_ms", claimed_ms)?,
        })
    }
}

impl From<SignedChecksum> for v1::ProbeAnswer {
    fn from(answer: SignedChecksum) -> Self {
        let SignedChecksum { challenge_id, checksum, signature, claimed } = answer;
        Self {
            challenge_id: challenge_id.0.to_vec(),
            checksum: checksum.0.to_vec(),
            signature: signature.0.to_vec(),
            claimed_ms: write_claimed(claimed),
        }
    }
}

impl TryFrom<v1::DeviceRoots> for DeviceRoots {
    type Error = WireError;

    fn try_from(device: v1::DeviceRoots) -> Result<Self, WireError> {
        let v1::DeviceRoots { challenge_id, share, roots, checksum, claimed_ms, claimed_telemetry } = device;
        let challenge_id = field::fixed("DeviceRoots.challenge_id", &challenge_id)?;
        // Its numbers are the claim of a split: the session compares them with its own.
        let v1::Share { device_id, offset, count } = field::required("DeviceRoots.share", share)?;
        let evidence = DeviceEvidence {
            device_id: field::fixed("Share.device_id", &device_id)?,
            offset,
            count,
            roots: field::sequence("DeviceRoots.roots", &roots, MAX_ROOTS)?,
            checksum: field::fixed("DeviceRoots.checksum", &checksum)?,
        };
        Ok(Self {
            challenge_id,
            evidence,
            claimed: read_claimed("DeviceRoots.claimed_ms", claimed_ms)?,
            claimed_telemetry: claimed_telemetry.map(|t| t.try_into().map(Box::new)).transpose()?,
        })
    }
}

impl From<DeviceRoots> for v1::DeviceRoots {
    fn from(device: DeviceRoots) -> Self {
        let DeviceRoots { challenge_id, evidence, claimed, claimed_telemetry } = device;
        let DeviceEvidence { device_id, offset, count, roots, checksum } = evidence;
        Self {
            challenge_id: challenge_id.0.to_vec(),
            share: Some(v1::Share { device_id: device_id.0.to_vec(), offset, count }),
            roots: field::concat(&roots),
            checksum: checksum.0.to_vec(),
            claimed_ms: write_claimed(claimed),
            claimed_telemetry: claimed_telemetry.map(|t| (*t).into()),
        }
    }
}

pub(super) fn read_probe(probe: v1::Probe) -> Result<(ChallengeId, Probe, Duration), WireError> {
    let v1::Probe { challenge_id, seed, walks, steps, rounds, deadline_ms } = probe;
    let challenge_id = field::fixed("Probe.challenge_id", &challenge_id)?;
    let unchecked = UncheckedProbe { seed: field::fixed("Probe.seed", &seed)?, walks, steps, rounds };
    let probe = Probe::try_from(unchecked).map_err(|error| {
        let field = match error {
            ProbeError::Walks(_) => "Probe.walks",
            ProbeError::Steps(_) => "Probe.steps",
            ProbeError::Rounds(_) => "Probe.rounds",
        };
        WireError::new(field, Problem::Rule(error.to_string()))
    })?;
    Ok((challenge_id, probe, read_deadline("Probe.deadline_ms", deadline_ms)?))
}

pub(super) fn write_probe(challenge_id: ChallengeId, probe: &Probe, deadline: Duration) -> v1::Probe {
    let UncheckedProbe { seed, walks, steps, rounds } = *probe.fields();
    v1::Probe {
        challenge_id: challenge_id.0.to_vec(),
        seed: seed.0.to_vec(),
        walks,
        steps,
        rounds,
        deadline_ms: write_deadline(deadline),
    }
}

impl TryFrom<v1::DeviceDigests> for DeviceDigests {
    type Error = WireError;

    fn try_from(device: v1::DeviceDigests) -> Result<Self, WireError> {
        let v1::DeviceDigests { challenge_id, device_id, digests, claimed_ms } = device;
        let challenge_id = field::fixed("DeviceDigests.challenge_id", &challenge_id)?;
        let answer = DeviceAnswer {
            device_id: field::fixed("DeviceDigests.device_id", &device_id)?,
            digests: field::sequence("DeviceDigests.digests", &digests, MAX_PROBE_DIGESTS)?,
        };
        Ok(Self { challenge_id, answer, claimed: read_claimed("DeviceDigests.claimed_ms", claimed_ms)? })
    }
}

impl From<DeviceDigests> for v1::DeviceDigests {
    fn from(device: DeviceDigests) -> Self {
        let DeviceDigests { challenge_id, answer: DeviceAnswer { device_id, digests }, claimed } = device;
        Self {
            challenge_id: challenge_id.0.to_vec(),
            device_id: device_id.0.to_vec(),
            digests: field::concat(&digests),
            claimed_ms: write_claimed(claimed),
        }
    }
}

pub(super) fn read_deadline(field: &'static str, ms: u32) -> Result<Duration, WireError> {
    field::duration(field, MIN_DEADLINE_MS, MAX_DEADLINE_MS, ms.into())
}

pub(super) fn write_deadline(deadline: Duration) -> u32 {
    field::milliseconds_u32(deadline, MIN_DEADLINE_MS, MAX_DEADLINE_MS)
}

fn read_claimed(field: &'static str, ms: u64) -> Result<Duration, WireError> {
    field::duration(field, 0, MAX_CLAIMED_MS, ms)
}

fn write_claimed(claimed: Duration) -> u64 {
    field::milliseconds(claimed, 0, MAX_CLAIMED_MS)
}
