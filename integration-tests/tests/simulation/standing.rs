//! The state of each side in the words of docs/PROTOCOL.md, followed over its messages from outside.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use assay_judge::bounds::MAX_ENDED;
use assay_miner::session::{SessionAction, SessionEvent};
use assay_protocol::message::{Inventory, MinerMessage, OpeningsPart, ValidatorMessage};
use assay_work::probe::Link;
use assay_work::{ChallengeId, Checksum, DeviceId, Precision};

use super::table::Named;

/// A challenge that never was.
pub const UNKNOWN: ChallengeId = ChallengeId([0xab; 16]);

/// The state of a validator's session.
#[derive(Debug, Clone)]
pub struct ValidatorStanding {
    pub state: &'static str,
    pub this: Option<ChallengeId>,
    is_committed: bool,
    /// Challenges that ended, and whether the miner had committed to them.
    pub ended: Vec<(ChallengeId, bool)>,
    pub inventory: Inventory,
    /// Shares whose roots are due.
    roots_due: usize,
    /// Items whose end is due.
    items_due: usize,
}

/// The state of a miner's session.
#[derive(Debug, Clone)]
pub struct MinerStanding {
    pub state: &'static str,
    pub this: Option<ChallengeId>,
    pub ended: Option<ChallengeId>,
    offered: Option<ChallengeId>,
}

impl ValidatorStanding {
    pub fn new(inventory: Inventory) -> Self {
        let (is_committed, ended, roots_due, items_due) = (false, Vec::new(), 0, 0);
        Self { state: "hello", this: None, is_committed, ended, inventory, roots_due, items_due }
    }

    /// Follows a message of the miner that the session takes.
    pub fn given(&mut self, message: &MinerMessage) {
        match message {
            MinerMessage::Inventory(inventory) => self.inventory = inventory.clone(),
            MinerMessage::Commitment(_) => self.is_committed = true,
            MinerMessage::DeviceRoots(_) => {
                self.roots_due = self.roots_due.saturating_sub(1);
                if self.roots_due == 0 {
                    self.state = "probing";
                }
            }
            MinerMessage::ProbeAnswer(_) => self.state = "digests",
            MinerMessage::OpeningsChunk(chunk) if chunk.part == OpeningsPart::End => {
                self.items_due = self.items_due.saturating_sub(1);
                if self.items_due == 0 {
                    self.state = "judging";
                }
            }
            _ => {}
        }
    }

    /// Follows a message of the validator.
    pub fn sent(&mut self, message: &ValidatorMessage) {
        match message {
            ValidatorMessage::Welcome(_) => self.state = "proof",
            ValidatorMessage::Accepted(_) => self.state = "idle",
            ValidatorMessage::Challenge(offer) => {
                self.state = "working";
                self.this = Some(offer.challenge_id);
                self.is_committed = false;
                self.roots_due = self.inventory.weights(Precision::Int8, offer.n, offer.min_slots).len();
            }
            ValidatorMessage::Probe { .. } if self.state == "working" => self.state = "roots",
            // A further one.
            ValidatorMessage::Probe { .. } | ValidatorMessage::Sweep { .. } => self.state = "probing",
            ValidatorMessage::Open { items, .. } => {
                self.state = "opening";
                self.items_due = items.len();
            }
            ValidatorMessage::Verdict(_) => {
                self.state = "idle";
                self.ended.extend(self.this.take().map(|id| (id, self.is_committed)));
            }
            ValidatorMessage::Refused { .. } | ValidatorMessage::Goodbye(..) => self.state = "closed",
            ValidatorMessage::Ping(_) => {}
        }
    }

    /// Which challenge a miner's message names.
    pub fn named(&self, message: &MinerMessage) -> Named {
        let Some(id) = challenge_of(message) else { return Named::None };
        let ended = self.ended.iter().rev().take(MAX_ENDED).find(|ended| ended.0 == id);
        match ended {
            _ if self.this == Some(id) => Named::This,
            Some((_, true)) => Named::Committed,
            Some(_) => Named::Ended,
            None => Named::Other,
        }
    }
}

/// The words of devices that they are done, in the order of their ids: threads give them in any.
#[derive(Default)]
pub struct Words(Arc<Mutex<BTreeMap<DeviceId, Checksum>>>);

impl Words {
    pub fn heard(&self) -> impl Fn(DeviceId, Checksum) + Clone + Send + 'static {
        let words = self.0.clone();
        move |device_id, checksum| {
            words.lock().unwrap().insert(device_id, checksum);
        }
    }

    pub fn events(self, id: ChallengeId) -> Vec<SessionEvent> {
        self.0
            .lock()
            .unwrap()
            .iter()
            .map(|(device_id, checksum)| SessionEvent::Progress(id, 0, Some((*device_id, *checksum))))
            .collect()
    }
}

impl MinerStanding {
    pub const fn new() -> Self {
        Self { state: "welcome", this: None, ended: None, offered: None }
    }

    /// Follows an event that the session is given.
    pub fn given(&mut self, event: &SessionEvent) {
        match event {
            // It is dropped, or shown.
            SessionEvent::Message(message) if self.named(message) == Named::Other => {}
            SessionEvent::Message(ValidatorMessage::Welcome(_)) => self.state = "accepted",
            SessionEvent::Message(ValidatorMessage::Accepted(_)) => self.state = "idle",
            SessionEvent::Message(ValidatorMessage::Challenge(offer)) => self.offered = Some(offer.challenge_id),
            SessionEvent::Worked(_, Ok(_)) => self.state = "committed",
            SessionEvent::Message(ValidatorMessage::Probe { .. } | ValidatorMessage::Sweep { .. }) => {
                self.state = "probing";
            }
            SessionEvent::Probed(_, Ok(_)) => self.state = "answered",
            SessionEvent::Message(ValidatorMessage::Open { .. }) => self.state = "opening",
            SessionEvent::Opened(_, Ok(())) => self.state = "opened",
            _ => {}
        }
    }

    /// Follows the session's actions on that event.
    pub fn acted(&mut self, actions: &[SessionAction]) {
        let offered = self.offered.take();
        if actions.iter().any(|action| matches!(action, SessionAction::StartWork(_))) {
            self.state = "working";
            self.this = offered;
        }
        if actions.iter().any(|action| matches!(action, SessionAction::Release)) {
            self.state = "idle";
            self.ended = self.this.take();
        }
        if matches!(actions.last(), Some(SessionAction::Close(_))) {
            self.state = "closed";
            self.this = None;
        }
    }

    /// Which challenge a validator's message names: none, the one that runs, or another one.
    pub fn named(&self, message: &ValidatorMessage) -> Named {
        let id = match message {
            ValidatorMessage::Probe { challenge_id, .. }
            | ValidatorMessage::Sweep { challenge_id, .. }
            | ValidatorMessage::Open { challenge_id, .. } => *challenge_id,
            ValidatorMessage::Verdict(verdict) => verdict.challenge_id,
            _ => return Named::None,
        };
        if self.this == Some(id) { Named::This } else { Named::Other }
    }
}

/// The challenge that a miner's message names.
pub const fn challenge_of(message: &MinerMessage) -> Option<ChallengeId> {
    Some(match message {
        MinerMessage::Declined(stop) | MinerMessage::Abort(stop) => stop.challenge_id,
        MinerMessage::Progress { challenge_id, .. } => *challenge_id,
        MinerMessage::Commitment(m) | MinerMessage::ProbeAnswer(m) => m.challenge_id,
        MinerMessage::DeviceRoots(m) => m.challenge_id,
        MinerMessage::DeviceDigests(m) => m.challenge_id,
        MinerMessage::OpeningsChunk(m) => m.challenge_id,
        _ => return None,
    })
}

/// Has a miner's message name another challenge, where it names one.
pub const fn name_challenge(message: &mut MinerMessage, id: ChallengeId) {
    match message {
        MinerMessage::Declined(stop) | MinerMessage::Abort(stop) => stop.challenge_id = id,
        MinerMessage::Progress { challenge_id, .. } => *challenge_id = id,
        MinerMessage::Commitment(m) | MinerMessage::ProbeAnswer(m) => m.challenge_id = id,
        MinerMessage::DeviceRoots(m) => m.challenge_id = id,
        MinerMessage::DeviceDigests(m) => m.challenge_id = id,
        MinerMessage::OpeningsChunk(m) => m.challenge_id = id,
        _ => {}
    }
}

/// The kind of a miner's message, as the tables name it.
pub const fn kind_of_miner(message: &MinerMessage) -> &'static str {
    match message {
        MinerMessage::Hello(_) => "Hello",
        MinerMessage::Proof(..) => "Proof",
        MinerMessage::Inventory(_) => "Inventory",
        MinerMessage::Pong(_) => "Pong",
        MinerMessage::Progress { .. } => "Progress",
        MinerMessage::Declined(_) => "Declined",
        MinerMessage::Abort(_) => "Abort",
        MinerMessage::Commitment(_) => "Commitment",
        MinerMessage::DeviceRoots(_) => "DeviceRoots",
        MinerMessage::ProbeAnswer(_) => "ProbeAnswer",
        MinerMessage::DeviceDigests(_) => "DeviceDigests",
        MinerMessage::OpeningsChunk(_) => "OpeningsChunk",
        MinerMessage::Goodbye(..) => "Goodbye",
    }
}

/// The kind of a validator's message, as the tables name it.
pub fn kind_of_validator(message: &ValidatorMessage) -> &'static str {
    match message {
        ValidatorMessage::Welcome(_) => "Welcome",
        ValidatorMessage::Accepted(_) => "Accepted",
        ValidatorMessage::Refused { .. } => "Refused",
        ValidatorMessage::Ping(_) => "Ping",
        ValidatorMessage::Challenge(_) => "Challenge",
        ValidatorMessage::Probe { probe, .. } if probe.fields().link == Link::All.code() => "Linked probe",
        ValidatorMessage::Probe { .. } => "Probe",
        ValidatorMessage::Sweep { .. } => "Sweep",
        ValidatorMessage::Open { .. } => "Open",
        ValidatorMessage::Verdict(_) => "Verdict",
        ValidatorMessage::Goodbye(..) => "Goodbye",
    }
}
