//! The parts of a case, in the order in which they became known.

use std::sync::Arc;
use std::time::Duration;

use assay_policy::Policy;
use assay_policy::expectations::Expectation;
use assay_protocol::message::{Inventory, MinerMessage, Offer, OpenItem, OpeningsChunk};
use assay_protocol::verdict::{Mode, Reason, ReasonCode, UnchallengedDevice, Verdict};
use assay_work::{ChallengeId, DeviceId, MemoryProbe, PublicKey};
use serde::{Deserialize, Serialize};

use crate::history::AbandonedCount;
use crate::history::devices::Difference;
use crate::history::past::MinerPast;
use crate::verify::excuse::ValidatorDelays;

/// One part of a case.
#[derive(Debug, Clone, PartialEq)]
pub enum CaseEntry {
    /// First entry: the miner, the validator and the policy.
    Header(Box<CaseHeader>),
    /// The miner's devices, by its claims.
    Inventory(Inventory),
    Offer(Offer),
    Unchallenged(Box<UnmadeChallenge>),
    /// A probe drawn, before the event that drew it.
    Probe(MemoryProbe),
    /// The items drawn for opening, and the iterations to replay of each share; before the event that drew them.
    Open(Vec<OpenItem>, Vec<Vec<u32>>),
    /// A message of the miner other than openings, and when it was received: nanoseconds since the run began, as all
    /// times here.
    Message(u64, MinerMessage),
    /// Openings, and when they were received. The check has the same ones.
    Openings(u64, Arc<OpeningsChunk>),
    /// Any other event.
    Event(RunEvent),
    /// The validator's record of the miner when the challenge ended.
    Known(Box<MinerKnowledge>),
    /// Delays of the validator itself.
    HeldUp(ValidatorDelays),
    /// The fleet's facts that the verdict was checked against, as TOML.
    Fleet(String),
    /// Last entry: the verdict that was given, as JSON.
    Verdict(Vec<u8>),
}

/// Miner, validator and settings of a challenge.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CaseHeader {
    /// Release of the program that judged.
    pub program: String,
    pub challenge_id: ChallengeId,
    pub miner_key: PublicKey,
    pub validator_key: PublicKey,
    /// Time of the challenge in seconds since 1970.
    pub unix_seconds: u64,
    /// Mode of checking the work; `None` where no challenge was made.
    pub mode: Option<Mode>,
    /// The least round trip measured before.
    pub round_trip: Option<Duration>,
    /// The longest hold of the probe, in a round.
    pub hold: Option<Duration>,
    pub not_challenged: Vec<UnchallengedDevice>,
    /// The policy at that time, without the expectations of other miners.
    pub policy: Policy,
}

/// The reason why no challenge was made, with the remaining contents of the verdict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UnmadeChallenge {
    /// The smallest matrix size allowed.
    pub n: u32,
    pub reason: StoredReason,
    /// The devices that the key showed before.
    pub difference: Difference,
    /// The miner's abandoned challenges.
    pub recent: AbandonedCount,
}

/// The validator's record of a miner when its challenge ended.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct MinerKnowledge {
    pub past: MinerPast,
    /// The expectation that the miner was judged by.
    pub expectation: Option<Expectation>,
}

/// Events of a run other than messages. New kinds come last: their places are their names in a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum RunEvent {
    /// The transport took this message of ours, counted from 0, at this moment.
    Taken(u32, u64),
    /// The least round trip so far, in nanoseconds.
    RoundTrip(u64),
    /// The latest part of the openings was checked.
    Checked,
    Replayed(Option<StoredReason>),
    /// The challenge was ended for this reason.
    Stop(StoredReason),
    /// The miner left, or its connection did.
    Leave(StoredReason),
    /// Nanoseconds that the validator's own checks took, excluded from deadlines.
    Excuse(u64),
    /// A deadline was checked at this time and had passed.
    Tick(u64),
    /// Time of the next event by the driver's clock.
    Clock(u64),
    /// The probe was released, at this moment.
    Release(u64),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredReason {
    pub code: String,
    pub detail: String,
    /// The device that the reason names.
    pub device_id: Option<DeviceId>,
}

impl UnmadeChallenge {
    pub fn verdict(&self, header: &CaseHeader, reason: Reason) -> Verdict {
        Verdict {
            n: self.n,
            iterations: header.policy.iterations,
            not_challenged: header.not_challenged.clone(),
            missing_devices: self.difference.missing.clone(),
            new_devices: self.difference.new.clone(),
            abandoned_recently: self.recent.abandoned,
            recent_challenges: self.recent.of,
            ..Verdict::without_work(
                header.challenge_id,
                header.miner_key,
                header.validator_key,
                vec![reason],
                header.unix_seconds,
            )
        }
    }
}

impl From<Reason> for StoredReason {
    fn from(reason: Reason) -> Self {
        let Reason { code, detail, device_id } = reason;
        Self { code: code.name().into(), detail, device_id }
    }
}

impl TryFrom<StoredReason> for Reason {
    type Error = String;

    /// The error is the name of a code that this release does not know.
    fn try_from(stored: StoredReason) -> Result<Self, String> {
        let StoredReason { code, detail, device_id } = stored;
        let code = ReasonCode::named(&code).ok_or(code)?;
        Ok(Self { code, detail, device_id })
    }
}

/// A time as entries have it. A challenge takes hours at most; 64 bits of nanoseconds are centuries.
pub fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
