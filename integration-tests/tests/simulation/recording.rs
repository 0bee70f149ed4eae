//! The inputs of both sides of a simulation, so that a fresh session is brought into any state that it passed through.

use std::sync::Arc;

use assay_miner::session::SessionEvent;
use assay_policy::Policy;
use assay_protocol::message::{Inventory, MinerMessage, ValidatorMessage};
use assay_protocol::verdict::{Mode, Reason, ReasonCode};
use assay_work::ChallengeId;

use super::sessions::World;

/// The seed of the validator's draws: a session that is given the same steps with it draws the same.
pub const SEED: u64 = 5;

/// The inputs of the two sides, from the start of their session.
#[derive(Debug, Default)]
pub struct Recording {
    pub inventory: Inventory,
    pub validator: Vec<Step>,
    /// All messages of the miner, also those that the validator was not given.
    pub sent: Vec<MinerMessage>,
    pub miner: Vec<MinerStep>,
}

/// One thing given to a validator's session.
#[derive(Debug, Clone)]
pub enum Step {
    Start(Arc<Policy>),
    Stop(Reason),
    Message(MinerMessage),
}

/// One thing given to a miner's session.
#[derive(Debug, Clone)]
pub enum MinerStep {
    Message(ValidatorMessage),
    Worked(ChallengeId, Vec<MinerMessage>),
    Probed(ChallengeId, Vec<MinerMessage>),
    Opened(ChallengeId),
}

impl Recording {
    /// Three challenges of an honest miner: one that the validator ends before the commitment, one that it ends after
    /// it, and a whole one, to its verdict or, in the modes with a replay, to the replay.
    pub fn of(mode: Mode) -> Self {
        let stopped = Reason::new(ReasonCode::ValidatorOverloaded, "the test ends it");
        let mut world = World::in_mode(SEED, mode);
        world.start();
        world.stop(stopped.clone());
        world.start();
        while !matches!(world.recording.validator.last(), Some(Step::Message(MinerMessage::Commitment(_)))) {
            assert!(world.deliver(), "the miner commits");
        }
        world.stop(stopped);
        world.start();
        world.settle();
        world.recording
    }
}

impl MinerStep {
    /// The step that gives this event.
    pub fn of(event: &SessionEvent) -> Option<Self> {
        Some(match event {
            SessionEvent::Message(message) => Self::Message(message.clone()),
            SessionEvent::Worked(id, Ok(messages)) => Self::Worked(*id, messages.clone()),
            SessionEvent::Probed(id, Ok(messages)) => Self::Probed(*id, messages.clone()),
            SessionEvent::Opened(id, Ok(())) => Self::Opened(*id),
            _ => return None,
        })
    }

    pub fn event(&self) -> SessionEvent {
        match self.clone() {
            Self::Message(message) => SessionEvent::Message(message),
            Self::Worked(id, messages) => SessionEvent::Worked(id, Ok(messages)),
            Self::Probed(id, messages) => SessionEvent::Probed(id, Ok(messages)),
            Self::Opened(id) => SessionEvent::Opened(id, Ok(())),
        }
    }
}
