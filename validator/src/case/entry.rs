//! The parts of a case, in the order in which they became known.

use std::time::Duration;

use assay_protocol::message::{Inventory, MinerMessage, Offer, OpenItem};
use assay_protocol::verdict::{Mode, NotChallenged, Reason, ReasonCode};
use assay_work::probe::Probe;
use assay_work::{ChallengeId, DeviceId, PublicKey};
use serde::{Deserialize, Serialize};

use crate::expectations::Expectation;
use crate::history::Recent;
use crate::history::devices::Difference;
use crate::history::past::Past;
use crate::policy::Policy;
use crate::verify::excuse::HeldUp;
use crate::verify::judge::Unchallenged;

/// One part of a case.
#[derive(Debug, Clone, PartialEq)]
pub enum Entry {
    /// First of all: who, under which policy.
    Header(Box<Header>),
    /// The miner's devices, by its claims.
    Inventory(Inventory),
    /// The challenge.
    Offer(Offer),
    /// No challenge was made.
    Unchallenged(Box<Unmade>),
    /// The probe drawn, before the event that drew it.
    Probe(Probe),
    /// What was drawn to be opened, and the iterations to replay of each share; before the event that drew it.
    Open(Vec<OpenItem>, Vec<Vec<u32>>),
    /// A message of the miner, and when it was received: nanoseconds since the run began, as all times here.
    Message(u64, MinerMessage),
    /// Anything else that happened.
    Event(Event),
    /// What was known of the miner when the challenge ended.
    Known(Box<Known>),
    /// For how long the validator was held up itself.
    HeldUp(HeldUp),
    /// What the verdict was held against beside the work: the fleet's facts, as TOML.
    Fleet(String),
    /// Last of all: the verdict that was given, as JSON.
    Verdict(Vec<u8>),
}

/// Who was asked, by whom, and how.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// The release that judged.
    pub program: String,
    /// The challenge.
    pub challenge_id: ChallengeId,
    /// Who answered.
    pub miner_key: PublicKey,
    /// Who asked.
    pub validator_key: PublicKey,
    /// When: seconds since 1970.
    pub unix_seconds: u64,
    /// How the work was to be checked; none where no challenge was made.
    pub mode: Option<Mode>,
    /// The least round trip measured before.
    pub round_trip: Option<Duration>,
    /// How long the probe was held back at most, in a round.
    pub hold: Option<Duration>,
    /// The devices that took no part.
    pub not_challenged: Vec<NotChallenged>,
    /// The policy at that time, without the expectations of other miners.
    pub policy: Policy,
}

/// Why no challenge was made, and what the verdict says beside.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Unmade {
    /// The smallest matrix size allowed.
    pub n: u32,
    /// The reason.
    pub reason: StoredReason,
    /// The devices that the key showed before.
    pub difference: Difference,
    /// The miner's abandoned challenges.
    pub recent: Recent,
}

/// What was known of a miner when its challenge ended.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Known {
    /// Its history.
    pub past: Past,
    /// What was expected of it.
    pub expectation: Option<Expectation>,
}

/// What happened in a run beside messages. New kinds come last: their places are their names in a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// The transport took this message of ours, counted from 0, at this moment.
    Taken(u32, u64),
    /// The least round trip is this now.
    RoundTrip(u64),
    /// The part of the openings that came last was checked.
    Checked,
    /// The replay ended.
    Replayed(Option<StoredReason>),
    /// The challenge was ended for this reason.
    Stop(StoredReason),
    /// The miner left, or its connection did.
    Leave(StoredReason),
    /// So much time was the validator's.
    Excuse(u64),
    /// A deadline was looked at, at this moment, and had passed.
    Tick(u64),
    /// So late was it when the next event came, by the driver's clock.
    Clock(u64),
    /// The probe was released, at this moment.
    Release(u64),
}

/// A reason by its name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredReason {
    /// The code's name.
    pub code: String,
    /// The circumstances.
    pub detail: String,
    /// The device, where one is meant.
    pub device_id: Option<DeviceId>,
}

impl Unmade {
    /// What the verdict follows from.
    #[must_use]
    pub fn unchallenged(&self, header: &Header, reason: Reason) -> Unchallenged {
        Unchallenged {
            challenge_id: header.challenge_id,
            miner_key: header.miner_key,
            validator_key: header.validator_key,
            n: self.n,
            iterations: header.policy.iterations,
            reason,
            not_challenged: header.not_challenged.clone(),
            difference: self.difference.clone(),
            recent: self.recent,
            unix_seconds: header.unix_seconds,
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
#[must_use]
pub fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
