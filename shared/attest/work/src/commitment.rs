//! A miner's commitment: the roots of every device, bound by checksums (WORK.md, Commitment).

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::bytes::{ChallengeId, Checksum, DeviceId, Root, Signature, WorkKey};
use super::challenge::{Challenge, Share};
use super::json;

/// The results of one device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceEvidence {
    /// The device of the share.
    pub device_id: DeviceId,
    /// As in its share.
    pub offset: u32,
    /// As in its share.
    pub count: u32,
    /// `root[0 … iterations-1]`.
    pub roots: Vec<Root>,
    /// The [`device_checksum`] of the fields above.
    pub checksum: Checksum,
}

/// A miner's commitment to a challenge. Its serde form is the interchange form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Evidence {
    /// The challenge answered.
    pub challenge_id: ChallengeId,
    /// One for each share, in the same order.
    pub devices: Vec<DeviceEvidence>,
    /// The checksum over the checksums of the devices.
    pub checksum: Checksum,
    /// The miner's, over the [`commitment_message`]; not there before it signs.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "json::present")]
    pub signature: Option<Signature>,
}

/// Why evidence is not a commitment to a challenge. [`CommitmentError::code`] is its stable name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommitmentError {
    /// The commitment answers another challenge.
    #[error("the evidence is for challenge {0}, another one than was asked")]
    OtherChallenge(ChallengeId),
    /// The devices, their offsets or counts are not the challenge's shares.
    #[error("device {index} of the evidence does not match the challenge's share")]
    OtherSplit {
        /// The first that differs; the number of shares when one is missing or left over.
        index: usize,
    },
    /// The number of roots is not that of iterations.
    #[error("device {device_id} has {found} roots; the challenge asks for {expected}")]
    RootCount {
        /// The device with the wrong number.
        device_id: DeviceId,
        /// The challenge's iterations.
        expected: u32,
        /// Roots in the commitment.
        found: usize,
    },
    /// A device's checksum is not that of its roots.
    #[error("the checksum of device {0} is not that of its roots")]
    DeviceChecksum(DeviceId),
    /// The checksum is not that of the devices.
    #[error("the checksum is not that of the devices")]
    Checksum,
}

impl CommitmentError {
    /// The stable name of the fault.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::OtherChallenge(_) => "challenge_id",
            Self::OtherSplit { .. } => "shares",
            Self::RootCount { .. } => "roots",
            Self::DeviceChecksum(_) => "device_checksum",
            Self::Checksum => "checksum",
        }
    }
}

/// The checksum of one device.
pub fn device_checksum(share: &Share, roots: &[Root]) -> Checksum {
    let mut hasher = Sha256::new();
    hasher.update(b"assay v1 device checksum");
    hasher.update(share.device_id);
    hasher.update(share.offset.to_le_bytes());
    hasher.update(share.count.to_le_bytes());
    for root in roots {
        hasher.update(root);
    }
    Checksum(hasher.finalize().into())
}

/// The checksum of a commitment, from those of its devices in order of `device_id`.
pub fn commitment_checksum(challenge: &Challenge, devices: &[Checksum]) -> Checksum {
    let mut hasher = Sha256::new();
    hasher.update(b"assay v1 checksum");
    hasher.update(challenge.id());
    hasher.update(challenge.nonce());
    for checksum in devices {
        hasher.update(checksum);
    }
    Checksum(hasher.finalize().into())
}

/// The message that a miner signs when it commits.
pub fn commitment_message(work_key: &WorkKey, checksum: &Checksum) -> Vec<u8> {
    [b"assay v1 commitment".as_slice(), work_key.as_ref(), checksum.as_ref()].concat()
}

impl Evidence {
    /// Puts the roots of every device, in the order of the challenge's shares, together; not signed yet.
    ///
    /// # Panics
    /// When there are not as many lists as shares, each of as many roots as iterations.
    pub fn assemble(challenge: &Challenge, roots: Vec<Vec<Root>>) -> Self {
        assert_eq!(roots.len(), challenge.shares().len(), "roots of every device");
        let devices: Vec<_> = challenge.shares().iter().zip(roots).map(|(s, r)| evidence_of(challenge, s, r)).collect();
        let checksums: Vec<_> = devices.iter().map(|d| d.checksum).collect();
        let checksum = commitment_checksum(challenge, &checksums);
        Self { challenge_id: challenge.id(), devices, checksum, signature: None }
    }

    /// Checks that this commits to the challenge, every checksum computed again. The signature is checked elsewhere.
    ///
    /// # Errors
    /// The first [`CommitmentError`] in the order of its variants, each over all devices before the next.
    pub fn check(&self, challenge: &Challenge) -> Result<(), CommitmentError> {
        if self.challenge_id != challenge.id() {
            return Err(CommitmentError::OtherChallenge(self.challenge_id));
        }
        let shares = challenge.shares();
        if let Some(index) = self.devices.iter().zip(shares).position(|(d, s)| d.share() != *s) {
            return Err(CommitmentError::OtherSplit { index });
        }
        if self.devices.len() != shares.len() {
            return Err(CommitmentError::OtherSplit { index: shares.len() });
        }
        let expected = challenge.iterations();
        if let Some(d) = self.devices.iter().find(|d| d.roots.len() != expected as usize) {
            return Err(CommitmentError::RootCount { device_id: d.device_id, expected, found: d.roots.len() });
        }
        let checksums: Vec<_> = self.devices.iter().map(|d| device_checksum(&d.share(), &d.roots)).collect();
        if let Some((d, _)) = self.devices.iter().zip(&checksums).find(|(d, checksum)| d.checksum != **checksum) {
            return Err(CommitmentError::DeviceChecksum(d.device_id));
        }
        if self.checksum != commitment_checksum(challenge, &checksums) {
            return Err(CommitmentError::Checksum);
        }
        Ok(())
    }

    /// The results of a device.
    pub fn device(&self, device_id: DeviceId) -> Option<&DeviceEvidence> {
        self.devices.iter().find(|d| d.device_id == device_id)
    }
}

impl DeviceEvidence {
    /// The share that the device claims to have computed.
    pub const fn share(&self) -> Share {
        Share { device_id: self.device_id, offset: self.offset, count: self.count }
    }
}

fn evidence_of(challenge: &Challenge, share: &Share, roots: Vec<Root>) -> DeviceEvidence {
    assert_eq!(roots.len(), challenge.iterations() as usize, "a root of every iteration");
    let checksum = device_checksum(share, &roots);
    DeviceEvidence { device_id: share.device_id, offset: share.offset, count: share.count, roots, checksum }
}
