//! A challenge: as it arrives ([`UncheckedChallenge`]), and as it is once every rule holds ([`Challenge`]).

use serde::{Deserialize, Serialize};

use super::bytes::{ChallengeId, DeviceId, Nonce, PublicKey, WorkKey};
use super::precision::Precision;

/// The only version of the work.
pub const WORK_VERSION: u32 = 1;
/// The smallest matrix size.
pub const MIN_N: u32 = 256;
/// The largest matrix size: above it a sum of products could leave 32 bits.
pub const MAX_N: u32 = 32_768;
/// The most iterations of a challenge.
pub const MAX_ITERATIONS: u32 = 65_536;
/// The fewest slots of a share: two leaves and one product.
pub const MIN_COUNT: u32 = 3;
/// The most slots of all shares together.
pub const MAX_TOTAL: u64 = 1 << 20;

/// The part of one device: slots `0 … count-1`, whose leaves are streams `offset` and `offset + 1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Share {
    /// The device that computes the share.
    pub device_id: DeviceId,
    /// The global index of the device's slot 0.
    pub offset: u32,
    /// Slots of the device; at least [`MIN_COUNT`] in a valid challenge.
    pub count: u32,
}

/// A challenge as it arrives, of which nothing is known yet. Its serde form is the interchange form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UncheckedChallenge {
    /// The version of the work; [`WORK_VERSION`] in a valid challenge.
    pub version: u32,
    /// Random, never used twice.
    pub challenge_id: ChallengeId,
    /// From the operating system's random source, never used twice.
    pub nonce: Nonce,
    /// The key of the validator that issues the challenge.
    pub validator_key: PublicKey,
    /// The key of the miner that answers it.
    pub miner_key: PublicKey,
    /// The code of a [`Precision`].
    pub precision: u32,
    /// The matrix size n.
    pub n: u32,
    /// Number of passes, each of which follows the one before.
    pub iterations: u32,
    /// One for each device, in order of `device_id`.
    pub shares: Vec<Share>,
}

impl UncheckedChallenge {
    /// INT8 work that no validator asks for, as benchmarks and tests do it: each device has so many slots.
    pub fn unasked(n: u32, iterations: u32, counts: impl IntoIterator<Item = (DeviceId, u32)>) -> Self {
        let mut offset = 0;
        let share = |(device_id, count)| {
            let share = Share { device_id, offset, count };
            offset += count;
            share
        };
        Self {
            version: WORK_VERSION,
            challenge_id: ChallengeId([1; 16]),
            nonce: Nonce([2; 32]),
            validator_key: PublicKey([3; 32]),
            miner_key: PublicKey([4; 32]),
            precision: Precision::Int8.code(),
            n,
            iterations,
            shares: counts.into_iter().map(share).collect(),
        }
    }
}

/// Why a challenge is refused: the first rule that it breaks. [`ChallengeError::code`] is the name in WORK.md.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChallengeError {
    /// Another version than [`WORK_VERSION`].
    #[error("version {0} is not known here; this build knows version {WORK_VERSION}")]
    Version(u32),
    /// A precision that is reserved or unknown.
    #[error("precision {0} is not a kind of work; 1, 2, 5, 6, 7 and 8 are")]
    Precision(u32),
    /// Not a power of two in the range.
    #[error("n = {0} is not a power of two from {MIN_N} to {MAX_N}")]
    N(u32),
    /// No iteration, or more than [`MAX_ITERATIONS`].
    #[error("iterations = {0} is not from 1 to {MAX_ITERATIONS}")]
    Iterations(u32),
    /// The challenge has no share.
    #[error("there is no share")]
    NoShares,
    /// A share has a lower id than the one before.
    #[error("share {0} has a lower device_id than the share before it")]
    ShareOrder(usize),
    /// Two shares have the same id.
    #[error("share {0} has the same device_id as the share before it")]
    ShareDuplicate(usize),
    /// A share does not start where the one before ends.
    #[error("share {index} has offset {found}, expected {expected}")]
    ShareOffset {
        /// The index of the share.
        index: usize,
        /// The end of the shares before it.
        expected: u64,
        /// The share's offset.
        found: u32,
    },
    /// A share has fewer than [`MIN_COUNT`] slots.
    #[error("share {index} has {count} slots; at least {MIN_COUNT} are needed")]
    ShareCount {
        /// The index of the share.
        index: usize,
        /// The share's slots.
        count: u32,
    },
    /// More than [`MAX_TOTAL`] slots.
    #[error("the shares add up to {0} slots; at most {MAX_TOTAL} are allowed")]
    Total(u64),
}

impl ChallengeError {
    /// The rule's stable name, as in WORK.md.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Version(_) => "version",
            Self::Precision(_) => "precision",
            Self::N(_) => "n",
            Self::Iterations(_) => "iterations",
            Self::NoShares => "no_shares",
            Self::ShareOrder(_) => "share_order",
            Self::ShareDuplicate(_) => "share_duplicate",
            Self::ShareOffset { .. } => "share_offset",
            Self::ShareCount { .. } => "share_count",
            Self::Total(_) => "total",
        }
    }
}

/// A challenge that keeps every rule of WORK.md, with its work key: nothing downstream checks or derives again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Challenge {
    fields: UncheckedChallenge,
    #[serde(skip)]
    precision: Precision,
    #[serde(skip)]
    work_key: WorkKey,
}

impl Challenge {
    /// The fields, all valid.
    pub const fn fields(&self) -> &UncheckedChallenge {
        &self.fields
    }

    /// Random, never used twice.
    pub const fn id(&self) -> ChallengeId {
        self.fields.challenge_id
    }

    /// The key that binds the work to the challenge.
    pub const fn work_key(&self) -> &WorkKey {
        &self.work_key
    }

    /// From the operating system's random source, never used twice.
    pub const fn nonce(&self) -> &Nonce {
        &self.fields.nonce
    }

    /// The matrix size: rows and columns of every slot.
    pub const fn n(&self) -> u32 {
        self.fields.n
    }

    /// Number of passes, each of which follows the one before.
    pub const fn iterations(&self) -> u32 {
        self.fields.iterations
    }

    /// One for each device, in order of `device_id`, never empty.
    pub fn shares(&self) -> &[Share] {
        &self.fields.shares
    }

    /// Slots of all shares.
    pub fn slots(&self) -> u64 {
        self.shares().iter().map(|share| u64::from(share.count)).sum()
    }

    /// Slots of all shares, over all iterations.
    pub fn filled_slots(&self) -> u64 {
        self.slots() * u64::from(self.iterations())
    }

    /// The share of a device.
    pub fn share(&self, device_id: DeviceId) -> Option<&Share> {
        self.fields.shares.binary_search_by_key(&device_id, |s| s.device_id).ok().map(|i| &self.fields.shares[i])
    }

    /// The kind of work, which defines the operands of products.
    pub const fn precision(&self) -> Precision {
        self.precision
    }

    /// Bytes of one slot: `n²`.
    pub const fn slot_bytes(&self) -> u64 {
        self.fields.n as u64 * self.fields.n as u64
    }

    /// Multiply-accumulates of one share over all iterations: `(count - 2) · n² · κ · iterations`.
    pub fn multiply_accumulates(&self, share: &Share) -> u128 {
        let of_product = self.precision.multiply_accumulates_of_product(self.n());
        u128::from(share.count - 2) * u128::from(of_product) * u128::from(self.iterations())
    }
}

impl TryFrom<UncheckedChallenge> for Challenge {
    type Error = ChallengeError;

    /// Checks the rules in WORK.md's order, each over all shares before the next.
    fn try_from(c: UncheckedChallenge) -> Result<Self, ChallengeError> {
        if c.version != WORK_VERSION {
            return Err(ChallengeError::Version(c.version));
        }
        let precision = Precision::from_code(c.precision).ok_or(ChallengeError::Precision(c.precision))?;
        if !c.n.is_power_of_two() || !(MIN_N..=MAX_N).contains(&c.n) {
            return Err(ChallengeError::N(c.n));
        }
        if !(1..=MAX_ITERATIONS).contains(&c.iterations) {
            return Err(ChallengeError::Iterations(c.iterations));
        }
        check_shares(&c.shares)?;
        let work_key = work_key(&c);
        Ok(Self { fields: c, precision, work_key })
    }
}

fn check_shares(shares: &[Share]) -> Result<(), ChallengeError> {
    if shares.is_empty() {
        return Err(ChallengeError::NoShares);
    }
    if let Some(i) = shares.windows(2).position(|w| w[1].device_id < w[0].device_id) {
        return Err(ChallengeError::ShareOrder(i + 1));
    }
    if let Some(i) = shares.windows(2).position(|w| w[1].device_id == w[0].device_id) {
        return Err(ChallengeError::ShareDuplicate(i + 1));
    }
    let mut end = 0_u64;
    for (index, share) in shares.iter().enumerate() {
        if u64::from(share.offset) != end {
            return Err(ChallengeError::ShareOffset { index, expected: end, found: share.offset });
        }
        end += u64::from(share.count);
    }
    if let Some(index) = shares.iter().position(|s| s.count < MIN_COUNT) {
        return Err(ChallengeError::ShareCount { index, count: shares[index].count });
    }
    if end > MAX_TOTAL {
        return Err(ChallengeError::Total(end));
    }
    Ok(())
}

/// The key of the work of a challenge whose rules hold (WORK.md, Keys).
fn work_key(c: &UncheckedChallenge) -> WorkKey {
    let mut hasher = blake3::Hasher::new_derive_key("assay v1 work key");
    hasher.update(&c.version.to_le_bytes());
    hasher.update(c.challenge_id.as_ref());
    hasher.update(c.nonce.as_ref());
    hasher.update(c.validator_key.as_ref());
    hasher.update(c.miner_key.as_ref());
    hasher.update(&c.precision.to_le_bytes());
    hasher.update(&c.n.to_le_bytes());
    hasher.update(&c.iterations.to_le_bytes());
    // A checked challenge has fewer than 2^20 shares.
    hasher.update(&(c.shares.len() as u32).to_le_bytes());
    for share in &c.shares {
        hasher.update(share.device_id.as_ref());
        hasher.update(&share.offset.to_le_bytes());
        hasher.update(&share.count.to_le_bytes());
    }
    WorkKey(*hasher.finalize().as_bytes())
}
