//! A miner's answer to a probe: the digests of every round of every device, bound by a checksum.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::super::bytes::{Checksum, DeviceId, Digest, Signature, WorkKey};
use super::super::challenge::Challenge;
use super::super::json;
use super::{MemoryProbe, link_digest};

/// The answer of one device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceAnswer {
    /// The device that walked or summed.
    pub device_id: DeviceId,
    /// `probe_digest[0 … R-1]`, or `sweep_digest[0 … R-1]`.
    pub digests: Vec<Digest>,
}

/// A miner's answer to a probe. Its serde form is the interchange form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// One for each share of the challenge, in the same order.
    pub devices: Vec<DeviceAnswer>,
    /// The [`probe_checksum`] of the devices.
    pub checksum: Checksum,
    /// The miner's, over the [`probe_message`]; not there before it signs.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "json::present")]
    pub signature: Option<Signature>,
}

/// Why an answer does not answer a probe. [`AnswerError::code`] is its stable name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// The devices are not those of the challenge.
    #[error("device {index} of the answer does not match the challenge's share")]
    OtherDevices {
        /// The first that differs; the number of shares when one is missing or left over.
        index: usize,
    },
    /// The number of digests is not that of rounds.
    #[error("device {device_id} has {found} digests; the probe asks for {expected}")]
    DigestCount {
        /// The device with the wrong number.
        device_id: DeviceId,
        /// The probe's rounds.
        expected: u32,
        /// Digests in the answer.
        found: usize,
    },
    /// The checksum is not that of the digests.
    #[error("the probe checksum is not that of the digests")]
    Checksum,
}

impl AnswerError {
    /// The stable name of the fault.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::OtherDevices { .. } => "devices",
            Self::DigestCount { .. } => "digests",
            Self::Checksum => "checksum",
        }
    }
}

/// The checksum of an answer.
pub fn probe_checksum(challenge: &Challenge, probe: impl Into<MemoryProbe>, devices: &[DeviceAnswer]) -> Checksum {
    let probe = probe.into();
    let mut hasher = Sha256::new();
    hasher.update(probe.stage().checksum_name());
    hasher.update(challenge.id());
    hasher.update(probe.seed());
    for device in devices {
        hasher.update(device.device_id);
        for digest in &device.digests {
            hasher.update(digest);
        }
    }
    Checksum(hasher.finalize().into())
}

/// The message that a miner signs when it answers: `commitment` is the checksum of its evidence, `answer` that of the
/// answer. Each stage has a message of its own.
pub fn probe_message(
    work_key: &WorkKey,
    commitment: &Checksum,
    probe: impl Into<MemoryProbe>,
    answer: &Checksum,
) -> Vec<u8> {
    let probe = probe.into();
    [
        probe.stage().message_name(),
        work_key.as_ref(),
        commitment.as_ref(),
        probe.seed().as_ref(),
        &probe.signed_numbers(),
        answer.as_ref(),
    ]
    .concat()
}

impl Answer {
    /// Puts the digests of every device, in the order of the challenge's shares, together; not signed yet.
    ///
    /// # Panics
    /// When there are not as many lists as shares, each of as many digests as rounds.
    pub fn assemble(challenge: &Challenge, probe: impl Into<MemoryProbe>, digests: Vec<Vec<Digest>>) -> Self {
        let probe = probe.into();
        assert_eq!(digests.len(), challenge.shares().len(), "digests of every device");
        assert!(digests.iter().all(|d| d.len() == probe.rounds() as usize), "a digest of every round");
        let ids = challenge.shares().iter().map(|s| s.device_id);
        let devices: Vec<_> =
            ids.zip(digests).map(|(device_id, digests)| DeviceAnswer { device_id, digests }).collect();
        let checksum = probe_checksum(challenge, probe, &devices);
        Self { devices, checksum, signature: None }
    }

    /// Checks that this answers the probe, the checksum computed again. The signature is checked elsewhere.
    ///
    /// # Errors
    /// The first [`AnswerError`] in the order of its variants, each over all devices before the next.
    pub fn check(&self, challenge: &Challenge, probe: impl Into<MemoryProbe>) -> Result<(), AnswerError> {
        let probe = probe.into();
        let shares = challenge.shares();
        if let Some(index) = self.devices.iter().zip(shares).position(|(d, s)| d.device_id != s.device_id) {
            return Err(AnswerError::OtherDevices { index });
        }
        if self.devices.len() != shares.len() {
            return Err(AnswerError::OtherDevices { index: shares.len() });
        }
        let expected = probe.rounds();
        if let Some(d) = self.devices.iter().find(|d| d.digests.len() != expected as usize) {
            return Err(AnswerError::DigestCount { device_id: d.device_id, expected, found: d.digests.len() });
        }
        if self.checksum != probe_checksum(challenge, probe, &self.devices) {
            return Err(AnswerError::Checksum);
        }
        Ok(())
    }

    /// The digest that round `round` of a linked probe follows: the [`link_digest`] of the round before.
    ///
    /// # Panics
    /// When a device has no digest of the round before.
    pub fn link_digest_before(&self, round: u32) -> Digest {
        match (round as usize).checked_sub(1) {
            None => Digest::BEFORE_FIRST,
            Some(before) => link_digest(self.devices.iter().map(|device| &device.digests[before])),
        }
    }

    /// The answer of a device.
    pub fn device(&self, device_id: DeviceId) -> Option<&DeviceAnswer> {
        self.devices.iter().find(|d| d.device_id == device_id)
    }
}
