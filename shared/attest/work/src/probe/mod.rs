//! The residency probe (WORK.md, Residency probe): its fields and the keys of its rounds; [`walk`] has the walks
//! themselves, [`link`] the differences over the slots of all devices, [`sweep`] the sweep, [`stage`] all of them as one,
//! and [`answer`] a miner's answer.

pub mod answer;
pub mod link;
pub mod stage;
pub mod sweep;
pub mod walk;

use std::slice;

use serde::{Deserialize, Serialize};

pub use self::answer::{Answer, AnswerError, DeviceAnswer, probe_checksum, probe_message};
pub use self::link::{LinkedPlace, LinkedSlots, link_digest, linked_probe_key, linked_round_key};
pub use self::stage::{MemoryProbe, ProbeStage};
pub use self::sweep::{
    SUM_BYTES, Sweep, SweepError, SweepSample, UncheckedSweep, row_sum, sums_bytes, sweep_key, sweep_round_key,
    sweep_round_key_after, weights,
};
pub use self::walk::{LINE_BYTES, WalkState, position, start_state, state_bytes, state_from_bytes, step};
use super::bytes::{DeviceId, Digest, ProbeKey, ProbeSeed, Root, RoundKey, WorkKey};
use super::keys::derived;

/// The fewest walks.
pub const MIN_WALKS: u32 = 64;
/// The most walks: their states take 256 MiB.
pub const MAX_WALKS: u32 = 1 << 22;
/// The most steps of a round.
pub const MAX_STEPS: u32 = 1024;
/// The most rounds.
pub const MAX_ROUNDS: u32 = 65_536;

/// A probe as it arrives, of which nothing is known yet. Its serde form is the interchange form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UncheckedProbe {
    /// From the operating system's random source, never used twice.
    pub seed: ProbeSeed,
    /// Number of walks W of a device.
    pub walks: u32,
    /// How many steps T of every walk a round has.
    pub steps: u32,
    /// Number of rounds R, each of which follows the one before.
    pub rounds: u32,
    /// 0: each device walks over its own slots; 1: over the slots of all devices, of which there are at least two.
    #[serde(default)]
    pub link: u32,
}

/// The slots over which the devices walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Link {
    /// Each device over its own: the residency probe.
    #[default]
    Own,
    /// Each device over those of all devices: the linked probe.
    All,
}

impl Link {
    /// The number of the field `link`.
    pub const fn code(self) -> u32 {
        match self {
            Self::Own => 0,
            Self::All => 1,
        }
    }

    /// The link of a number of the field `link`.
    pub const fn from_code(code: u32) -> Option<Self> {
        match code {
            0 => Some(Self::Own),
            1 => Some(Self::All),
            _ => None,
        }
    }
}

/// Why a probe is refused: the first field that is out of its range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProbeError {
    /// Not a power of two in the range.
    #[error("walks = {0} is not a power of two from {MIN_WALKS} to {MAX_WALKS}")]
    Walks(u32),
    /// No step, or more than [`MAX_STEPS`].
    #[error("steps = {0} is not from 1 to {MAX_STEPS}")]
    Steps(u32),
    /// No round, or more than [`MAX_ROUNDS`].
    #[error("rounds = {0} is not from 1 to {MAX_ROUNDS}")]
    Rounds(u32),
    /// An unknown link.
    #[error("link = {0} is neither 0 nor 1")]
    Link(u32),
    /// A linked probe in a challenge of one device.
    #[error("link = 1 links two devices or more, and the challenge has {0}")]
    LinkOfOne(usize),
}

impl ProbeError {
    /// The name of the field.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Walks(_) => "walks",
            Self::Steps(_) => "steps",
            Self::Rounds(_) => "rounds",
            Self::Link(_) | Self::LinkOfOne(_) => "link",
        }
    }
}

/// A probe whose fields are in their ranges. Whether `link` suits the challenge, [`Probe::check_devices`] says; nothing
/// else is checked again downstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Probe(UncheckedProbe);

impl Probe {
    /// The fields, all valid.
    pub const fn fields(&self) -> &UncheckedProbe {
        &self.0
    }

    /// From the operating system's random source, never used twice.
    pub const fn seed(&self) -> &ProbeSeed {
        &self.0.seed
    }

    /// How many walks W: a power of two, 64 … 2²².
    pub const fn walks(&self) -> u32 {
        self.0.walks
    }

    /// How many steps T of every walk a round has: 1 … 1024.
    pub const fn steps(&self) -> u32 {
        self.0.steps
    }

    /// How many rounds R follow one another: 1 … 65536.
    pub const fn rounds(&self) -> u32 {
        self.0.rounds
    }

    /// The slots over which the devices walk.
    pub const fn link(&self) -> Link {
        if self.0.link == 0 { Link::Own } else { Link::All }
    }

    /// Refuses a linked probe in a challenge of fewer than two devices. A caller that takes a probe from elsewhere
    /// checks it against its challenge before any use.
    ///
    /// # Errors
    /// [`ProbeError::LinkOfOne`].
    pub const fn check_devices(&self, devices: usize) -> Result<(), ProbeError> {
        match self.link() {
            Link::All if devices < 2 => Err(ProbeError::LinkOfOne(devices)),
            Link::Own | Link::All => Ok(()),
        }
    }

    /// Bytes of `out[r]`, the states after a round: `64 · W`.
    pub const fn out_bytes(&self) -> u64 {
        self.0.walks as u64 * LINE_BYTES as u64
    }

    /// Bytes that a device reads in all rounds: `W · T · R · 64`.
    pub const fn read_bytes(&self) -> u64 {
        self.out_bytes() * self.0.steps as u64 * self.0.rounds as u64
    }
}

impl TryFrom<UncheckedProbe> for Probe {
    type Error = ProbeError;

    /// Checks the fields in the order of WORK.md's table; `link` against the challenge is [`Probe::check_devices`]'s.
    fn try_from(probe: UncheckedProbe) -> Result<Self, ProbeError> {
        let UncheckedProbe { seed: _, walks, steps, rounds, link } = probe;
        if !walks.is_power_of_two() || !(MIN_WALKS..=MAX_WALKS).contains(&walks) {
            return Err(ProbeError::Walks(walks));
        }
        if !(1..=MAX_STEPS).contains(&steps) {
            return Err(ProbeError::Steps(steps));
        }
        if !(1..=MAX_ROUNDS).contains(&rounds) {
            return Err(ProbeError::Rounds(rounds));
        }
        if Link::from_code(link).is_none() {
            return Err(ProbeError::Link(link));
        }
        Ok(Self(probe))
    }
}

/// The key of one device's probe over its own slots; `last_root` is `root[iterations-1]`.
pub fn probe_key(probe: &Probe, work_key: &WorkKey, device_id: DeviceId, last_root: &Root) -> ProbeKey {
    key_of_probe("assay v1 probe key", probe, work_key, device_id, slice::from_ref(last_root))
}

fn key_of_probe(
    context: &str,
    probe: &Probe,
    work_key: &WorkKey,
    device_id: DeviceId,
    last_roots: &[Root],
) -> ProbeKey {
    let (seed, sizes) = (probe.seed(), [probe.walks(), probe.steps(), probe.rounds()].map(u32::to_le_bytes));
    let mut parts: Vec<&[u8]> = vec![seed.as_ref(), work_key.as_ref(), device_id.as_ref()];
    parts.extend(last_roots.iter().map(AsRef::<[u8]>::as_ref));
    parts.extend(sizes.iter().map(|size| &size[..]));
    ProbeKey(derived(context, &parts))
}

/// The key of round `round` of a probe over a device's own slots, after a round that ended in `previous` ([`Digest::BEFORE_FIRST`] for the first).
pub fn round_key(probe_key: &ProbeKey, round: u32, previous: &Digest) -> RoundKey {
    key_of_round("assay v1 probe round", probe_key, round, previous)
}

fn key_of_round(context: &str, probe_key: &ProbeKey, round: u32, before: &Digest) -> RoundKey {
    RoundKey(derived(context, &[probe_key.as_ref(), &round.to_le_bytes(), before.as_ref()]))
}

/// The key of round `round` of a probe whose digests are known up to the one before.
///
/// # Panics
/// When `digests` has no digest of the round before.
pub fn round_key_after(probe_key: &ProbeKey, round: u32, digests: &[Digest]) -> RoundKey {
    let previous = if round == 0 { Digest::BEFORE_FIRST } else { digests[round as usize - 1] };
    round_key(probe_key, round, &previous)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(walks: u32, steps: u32, rounds: u32, link: u32) -> Result<(), &'static str> {
        let probe = UncheckedProbe { seed: ProbeSeed([1; 32]), walks, steps, rounds, link };
        Probe::try_from(probe).map(|_| ()).map_err(|e| e.code())
    }

    #[test]
    fn ranges_end_where_they_say() {
        for (walks, steps, rounds) in [(64, 1, 1), (1 << 22, 1024, 65_536), (1 << 18, 64, 8)] {
            assert_eq!(code(walks, steps, rounds, 0), Ok(()));
            assert_eq!(code(walks, steps, rounds, 1), Ok(()));
        }
    }

    #[test]
    fn the_first_wrong_field_is_named() {
        for walks in [0, 1, 32, 63, 65, 96, 1 << 23, 1 << 31, u32::MAX] {
            assert_eq!(code(walks, 0, 0, 2), Err("walks"), "{walks}");
        }
        for steps in [0, 1025, u32::MAX] {
            assert_eq!(code(64, steps, 0, 2), Err("steps"), "{steps}");
        }
        for rounds in [0, 65_537, u32::MAX] {
            assert_eq!(code(64, 1, rounds, 2), Err("rounds"), "{rounds}");
        }
        for link in [2, 3, 256, u32::MAX] {
            assert_eq!(code(64, 1, 1, link), Err("link"), "{link}");
        }
    }

    #[test]
    fn a_linked_probe_needs_two_devices() {
        for (code, link) in [(0, Link::Own), (1, Link::All)] {
            let unchecked = UncheckedProbe { seed: ProbeSeed([1; 32]), walks: 64, steps: 1, rounds: 1, link: code };
            let probe = Probe::try_from(unchecked).unwrap();
            assert_eq!((probe.link(), probe.link().code()), (link, code));
            assert_eq!(probe.check_devices(1).map_err(|e| e.code()), if code == 0 { Ok(()) } else { Err("link") });
            assert_eq!(probe.check_devices(2), Ok(()));
        }
        assert_eq!(Link::from_code(2), None);
    }
}
