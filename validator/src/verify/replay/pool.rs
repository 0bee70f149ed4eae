//! Where replays run: on this validator's own devices.

use std::sync::Arc;
use std::time::Instant;

use assay_device::Handle;
use assay_work::PublicKey;

use super::capacity::ReplayCapacity;
use super::job::ReplayJob;
use super::{Extent, Replayed, Replayer};
use crate::history::History;
use crate::verify::check::TrustedValues;
use crate::verify::turns::{NoTurn, ReplayTurns, Turn};

/// What replays for this validator.
#[derive(Default)]
pub struct ReplayPool {
    local: Option<Local>,
}

/// The validator's own devices.
struct Local {
    replayer: Arc<Replayer>,
    turns: ReplayTurns,
}

/// A replay that a session asks for.
pub struct ReplayRequest {
    /// The miner.
    pub key: PublicKey,
    /// What it committed to.
    pub work: TrustedValues,
    /// Which passes.
    pub extent: Extent,
    /// Cancels it.
    pub handle: Handle,
}

impl ReplayPool {
    /// Devices of this validator, where it has any.
    #[must_use]
    pub fn new(local: Option<Replayer>) -> Self {
        Self { local: local.map(|replayer| Local { replayer: replayer.into(), turns: ReplayTurns::default() }) }
    }

    /// How many devices the validator itself has.
    #[must_use]
    pub fn local_devices(&self) -> u32 {
        self.local.as_ref().map_or(0, |local| local.replayer.capacity().devices)
    }

    /// Whether anything may ever replay here.
    #[must_use]
    pub const fn can_replay(&self) -> bool {
        self.local.is_some()
    }

    /// What can be replayed now.
    #[must_use]
    pub fn capacity(&self) -> ReplayCapacity {
        ReplayCapacity(self.local.iter().map(|local| local.replayer.capacity().clone()).collect())
    }

    /// Replays, once it is this miner's turn.
    ///
    /// # Errors
    /// [`NoTurn`]: too many wait.
    pub async fn replay(&self, request: ReplayRequest, history: &History) -> Result<Replayed, NoTurn> {
        let ReplayRequest { key, work, extent, handle } = request;
        let Some(local) = &self.local else {
            return Ok(Replayed::unknown("this validator has no devices of its own"));
        };
        let turn = local.turns.wait(key, history.replayed_at(key)).await?;
        history.replays(key, Instant::now());
        let second = history.second_computation(key, Instant::now());
        let job = ReplayJob { challenge: work.challenge, evidence: work.evidence, extent, second };
        let replayed = local.replay(turn, job, handle).await;
        if let Some(found) = replayed.computed_again {
            history.computed_again(key, found, Instant::now());
        }
        Ok(replayed)
    }
}

impl Local {
    async fn replay(&self, turn: Turn, job: ReplayJob, handle: Handle) -> Replayed {
        let replayer = self.replayer.clone();
        let run = move || {
            let _turn = turn;
            replayer.replay(&job, &handle)
        };
        let ended = tokio::task::spawn_blocking(run).await;
        ended.unwrap_or_else(|error| Replayed::unknown(format!("the replay ended early: {error}")))
    }
}
