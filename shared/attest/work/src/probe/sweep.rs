//! The sweep (WORK.md, Sweep): every row of every slot enters a sum under weights that are known late.

use serde::{Deserialize, Serialize};

use super::super::bytes::{DeviceId, Digest, ProbeKey, ProbeSeed, Root, RoundKey, WorkKey};
use super::super::keys::derived;
use super::super::leaf::keystream;
use super::{MAX_ROUNDS, key_of_round};

/// Bytes of a sum.
pub const SUM_BYTES: u64 = 4;
/// The shortest string of sums that is hashed.
const MIN_SUMS_BYTES: u64 = 4096;

/// A sweep as it arrives, unchecked. Its serde form is the interchange form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UncheckedSweep {
    /// From the operating system's random source, never used twice.
    pub seed: ProbeSeed,
    /// Number of rounds R, each of which follows the one before.
    pub rounds: u32,
}

/// The refusal of a sweep: no round, or more than [`MAX_ROUNDS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("rounds = {0} is not from 1 to {MAX_ROUNDS}")]
pub struct SweepError(pub u32);

impl SweepError {
    /// The name of the field.
    pub const fn code(&self) -> &'static str {
        "rounds"
    }
}

/// A sweep whose fields are in their ranges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Sweep(UncheckedSweep);

impl Sweep {
    /// The fields, all valid.
    pub const fn fields(&self) -> &UncheckedSweep {
        &self.0
    }

    /// From the operating system's random source, never used twice.
    pub const fn seed(&self) -> &ProbeSeed {
        &self.0.seed
    }

    /// How many rounds R follow one another: 1 … 65536.
    pub const fn rounds(&self) -> u32 {
        self.0.rounds
    }

    /// Bytes that a device with `count` slots of n-by-n reads in all rounds: `R · count · n²`.
    pub fn read_bytes(&self, n: u32, count: u32) -> u64 {
        u64::from(self.0.rounds) * u64::from(count) * u64::from(n) * u64::from(n)
    }
}

impl TryFrom<UncheckedSweep> for Sweep {
    type Error = SweepError;

    fn try_from(sweep: UncheckedSweep) -> Result<Self, SweepError> {
        if (1..=MAX_ROUNDS).contains(&sweep.rounds) { Ok(Self(sweep)) } else { Err(SweepError(sweep.rounds)) }
    }
}

/// The key of one device's sweep; `last_root` is `root[iterations-1]`.
pub fn sweep_key(sweep: &Sweep, work_key: &WorkKey, device_id: DeviceId, last_root: &Root) -> ProbeKey {
    let (seed, rounds) = (sweep.seed(), sweep.rounds().to_le_bytes());
    let parts = [seed.as_ref(), work_key.as_ref(), device_id.as_ref(), last_root.as_ref(), &rounds];
    ProbeKey(derived("assay v1 sweep key", &parts))
}

/// The key of round `round` of a sweep, after a round that ended in `previous` ([`Digest::BEFORE_FIRST`] for the first).
pub fn sweep_round_key(sweep_key: &ProbeKey, round: u32, previous: &Digest) -> RoundKey {
    key_of_round("assay v1 sweep round", sweep_key, round, previous)
}

/// The key of round `round` of a sweep whose digests are known up to the one before.
///
/// # Panics
/// When `digests` has no digest of the round before.
pub fn sweep_round_key_after(sweep_key: &ProbeKey, round: u32, digests: &[Digest]) -> RoundKey {
    let previous = if round == 0 { Digest::BEFORE_FIRST } else { digests[round as usize - 1] };
    sweep_round_key(sweep_key, round, &previous)
}

/// The weights z of a round: two's complement.
pub fn weights(key: &RoundKey, n: u32) -> Vec<u8> {
    let mut weights = vec![0; n as usize];
    keystream(key.as_bytes(), 0, 0, &mut weights);
    weights
}

/// The sum of a row under weights of the same length.
pub fn row_sum(row: &[u8], weights: &[u8]) -> i32 {
    let product = |(s, z): (&u8, &u8)| i32::from(s.cast_signed()) * i32::from(z.cast_signed());
    row.iter().zip(weights).map(product).sum()
}

/// Length of `sums[r]` of `count` slots of n-by-n: a power of two, at least 4096.
pub const fn sums_bytes(n: u32, count: u32) -> u64 {
    let bytes = (SUM_BYTES * n as u64 * count as u64).next_power_of_two();
    if bytes > MIN_SUMS_BYTES { bytes } else { MIN_SUMS_BYTES }
}

/// A sum that is asked for: of row `row` of slot `slot`, in round `round`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SweepSample {
    /// `r`.
    pub round: u32,
    /// `u`.
    pub slot: u32,
    /// `i`.
    pub row: u32,
}

impl SweepSample {
    /// Whether a sweep over `count` slots of n-by-n has this sample.
    #[must_use]
    pub const fn fits(&self, sweep: &Sweep, n: u32, count: u32) -> bool {
        self.round < sweep.rounds() && self.slot < count && self.row < n
    }

    /// Offset of the sum in `sums[r]`, in bytes.
    pub const fn sum_byte(&self, n: u32) -> u64 {
        SUM_BYTES * (self.slot as u64 * n as u64 + self.row as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_end_where_they_say() {
        let sweep = |rounds| Sweep::try_from(UncheckedSweep { seed: ProbeSeed([1; 32]), rounds });
        for rounds in [1, MAX_ROUNDS] {
            assert_eq!(sweep(rounds).map(|sweep| sweep.rounds()), Ok(rounds));
        }
        for rounds in [0, MAX_ROUNDS + 1, u32::MAX] {
            assert_eq!(sweep(rounds).map_err(|error| error.code()), Err("rounds"));
        }
    }

    #[test]
    fn sums_fill_a_power_of_two() {
        assert_eq!(sums_bytes(256, 3), 4096);
        assert_eq!(sums_bytes(256, 4), 4096);
        assert_eq!(sums_bytes(256, 5), 8192);
        assert_eq!(sums_bytes(32_768, 1 << 20), 1 << 37);
    }

    #[test]
    fn bytes_are_signed_on_both_sides() {
        assert_eq!(row_sum(&[0x80, 0x7F, 0xFF], &[0x80, 0x80, 1]), 16_384 - 16_256 - 1);
        assert_eq!(row_sum(&[0x80; 32_768], &[0x80; 32_768]), 1 << 29);
    }
}
