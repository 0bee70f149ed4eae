//! What a session, and the challenge that runs in it, want done: the driver carries it out.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use assay_protocol::message::{Hello, Inventory, ValidatorMessage};
use assay_protocol::verdict::{Mode, Verdict};
use assay_work::{ChallengeId, Nonce, Precision};

use crate::case::entry::Entry;
use crate::verify::check::{CheckJob, TrustedValues};
use crate::verify::replay::Extent;

/// One thing to do.
#[derive(Debug)]
pub enum Action {
    /// Send this, and note when it went out.
    Send(ValidatorMessage, SentAt),
    /// The miner proved its key: it is connected.
    Established(Box<Hello>),
    /// The miner's devices changed.
    InventoryChanged(Inventory),
    /// A new round trip was measured.
    RoundTrip(Duration),
    /// Check this, then call [`Session::checked`](crate::session::Session::checked).
    Check(Box<CheckJob>),
    /// Replay this, then call [`Session::replayed`](crate::session::Session::replayed).
    Replay(ChallengeId, Box<TrustedValues>, Extent),
    /// A challenge begins.
    Started(ChallengeFacts),
    /// For watchers: the phase that begins.
    Phase(&'static str),
    /// For watchers: slots filled, of so many.
    Progress(u64, u64),
    /// For what is kept of the challenge that runs.
    Record(Vec<Entry>),
    /// A challenge is over; what still runs for it may stop. What follows waits until the verdict is on disk, but for what
    /// keeps the session alive.
    Verdict(Box<Verdict>),
    /// End the stream, once what was sent is out.
    Close(String),
}

/// What a challenge asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChallengeFacts {
    /// The challenge.
    pub id: ChallengeId,
    /// Its nonce.
    pub nonce: Nonce,
    /// How the work is checked.
    pub mode: Mode,
    /// The kind of work.
    pub precision: Precision,
    /// The matrix size.
    pub n: u32,
    /// Passes of each device.
    pub iterations: u32,
    /// Devices that take part.
    pub devices: usize,
    /// Slots of all of them.
    pub slots: u64,
}

impl Action {
    /// Whether it may come before a verdict that is not on disk yet: it tells nobody anything of a challenge.
    #[must_use]
    pub const fn keeps_alive(&self) -> bool {
        matches!(self, Self::Send(ValidatorMessage::Ping(_), _) | Self::RoundTrip(_) | Self::InventoryChanged(_))
    }

    /// Sends a message whose time is not needed.
    #[must_use]
    pub fn send(message: ValidatorMessage) -> Self {
        Self::Send(message, SentAt::default())
    }
}

/// When a message's last byte went out: set by the transport that writes it.
#[derive(Debug, Clone, Default)]
pub struct SentAt(Arc<OnceLock<Instant>>);

impl SentAt {
    /// Notes the moment; only the first one counts.
    pub fn set(&self, now: Instant) {
        // A message is written once; the first moment stays in any case.
        let _ = self.0.set(now);
    }

    /// The moment; `None` while the message waits.
    #[must_use]
    pub fn get(&self) -> Option<Instant> {
        self.0.get().copied()
    }
}
