//! Actions that a session, and the challenge that runs in it, ask of the driver.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use assay_policy::DeviceRate;
use assay_protocol::join_token::JoinToken;
use assay_protocol::message::{Hello, Inventory, ValidatorMessage};
use assay_protocol::verdict::{Mode, Verdict};
use assay_work::{ChallengeId, Nonce, Precision};

use crate::case::entry::CaseEntry;
use crate::replay::Extent;
use crate::verify::check::{CheckJob, TrustedValues};

#[derive(Debug)]
pub enum Action {
    /// Send this message, and note when it went out.
    Send(ValidatorMessage, SentAt),
    /// The miner proved its key, and showed a join token where it has one: it is connected.
    Established(Box<Hello>, Option<JoinToken>),
    /// The miner's devices changed.
    InventoryChanged(Inventory),
    /// A new round trip was measured.
    RoundTrip(Duration),
    /// Check this, then call [`ValidatorSession::checked`](crate::session::ValidatorSession::checked).
    Check(Box<CheckJob>),
    /// Replay this, then call [`ValidatorSession::replayed`](crate::session::ValidatorSession::replayed).
    Replay(ChallengeId, Box<TrustedValues>, Extent),
    /// A challenge begins.
    Started(ChallengeFacts),
    /// For watchers: the phase that begins.
    Phase(&'static str),
    /// For watchers: filled slots, and their total.
    Progress(u64, u64),
    /// Entries for the case file of the current challenge.
    Record(Vec<CaseEntry>),
    /// Rates and devices shown in the challenge whose verdict follows.
    Shown(Vec<DeviceRate>),
    /// A challenge is judged; what still runs for it may stop. Once the verdict is recorded, call
    /// [`ValidatorSession::concluded`](crate::session::ValidatorSession::concluded).
    Judged(Box<Verdict>),
    /// End the stream after all sent messages have gone out.
    Close(String),
}

/// Parameters of a challenge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChallengeFacts {
    pub id: ChallengeId,
    pub nonce: Nonce,
    /// Mode of checking the work.
    pub mode: Mode,
    pub precision: Precision,
    pub n: u32,
    /// Passes of each device.
    pub iterations: u32,
    pub devices: usize,
    /// Slots of all devices together.
    pub slots: u64,
}

impl Action {
    /// Whether it sends a probe or a sweep.
    pub(crate) const fn is_probe(&self) -> bool {
        matches!(self, Self::Send(ValidatorMessage::Probe { .. } | ValidatorMessage::Sweep { .. }, _))
    }

    /// Sends a message whose time is not needed.
    pub fn send(message: ValidatorMessage) -> Self {
        Self::Send(message, SentAt::default())
    }
}

/// Time at which a message's last byte went out: set by the transport that writes it.
#[derive(Debug, Clone, Default)]
pub struct SentAt(Arc<OnceLock<Instant>>);

impl SentAt {
    /// Notes the moment; only the first one counts.
    pub fn set(&self, now: Instant) {
        // A message is written once; the first moment stays in any case.
        let _ = self.0.set(now);
    }

    /// The time of the last byte; `None` while the message waits.
    pub fn get(&self) -> Option<Instant> {
        self.0.get().copied()
    }
}
