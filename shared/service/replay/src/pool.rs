//! Placement of replays: on this validator's own devices, and on the replay workers that share its records.

use std::sync::Arc;
use std::time::Instant;

use assay_device::Handle;
use assay_work::{Challenge, PublicKey};

use super::job::ReplayJob;
use super::shared::SharedReplays;
use super::{Extent, ReplayOutcome, Replayer};
use crate::turns::{ReplayLoad, ReplayTurn, ReplayTurns, ReplayWaiter, TurnRefusal};
use assay_judge::history::History;
use assay_judge::replay::{ReplayCapacity, Replays};
use assay_judge::verify::check::TrustedValues;

/// Places where this validator can replay.
#[derive(Default)]
pub struct ReplayPool {
    local: Option<LocalReplays>,
    shared: Option<SharedReplays>,
}

struct LocalReplays {
    replayer: Arc<Replayer>,
    turns: ReplayTurns,
}

/// A replay for a session.
pub struct ReplayRequest {
    /// The miner, by its seat.
    pub miner: PublicKey,
    /// Whether it showed work that held before.
    pub is_known: bool,
    /// The committed work.
    pub work: TrustedValues,
    /// The passes to compute.
    pub extent: Extent,
    /// Handle that cancels it.
    pub handle: Handle,
}

/// A place for a replay, with the turn there.
enum ReplayPlace<'a> {
    Local(&'a LocalReplays, ReplayTurn),
    Shared(&'a SharedReplays, ReplayTurn),
}

impl Replays for ReplayPool {
    fn capacity(&self) -> ReplayCapacity {
        let local = self.local.iter().map(|local| local.replayer.capacity().clone());
        let workers = self.shared.iter().flat_map(SharedReplays::capacities);
        ReplayCapacity(local.chain(workers).collect())
    }

    fn is_full(&self, challenge: &Challenge, is_known: bool) -> bool {
        let local = self.local.iter().filter(|it| it.replayer.capacity().fits(challenge)).map(|it| &it.turns);
        let fits = |shared: &&SharedReplays| shared.capacities().iter().any(|machine| machine.fits(challenge));
        let shared = self.shared.iter().filter(fits).map(|it| &it.turns);
        local.chain(shared).all(|turns| turns.is_full(is_known))
    }
}

impl ReplayPool {
    /// Creates a pool of the validator's own devices, if it has any, and of workers, if the records can be shared.
    pub fn new(local: Option<Replayer>, shared: Option<SharedReplays>) -> Self {
        let local = local.map(|replayer| LocalReplays { replayer: replayer.into(), turns: ReplayTurns::default() });
        Self { local, shared }
    }

    /// Number of the validator's own devices.
    pub fn local_devices(&self) -> u32 {
        self.local.as_ref().map_or(0, |local| local.replayer.capacity().devices)
    }

    /// Workers that share its records; `None` for records that cannot be shared.
    pub const fn shared(&self) -> Option<&SharedReplays> {
        self.shared.as_ref()
    }

    /// Number of replays that run and wait, here and on workers.
    pub fn load(&self) -> ReplayLoad {
        let local = self.local.iter().map(|local| local.turns.load());
        let shared = self.shared.iter().map(|shared| shared.turns.load());
        local.chain(shared).fold(ReplayLoad::default(), |all, load| ReplayLoad {
            running: all.running + load.running,
            waiting: all.waiting + load.waiting,
        })
    }

    /// Whether replays are possible at all: own devices, or workers that may come.
    pub const fn can_replay(&self) -> bool {
        self.local.is_some() || self.shared.is_some()
    }

    /// Replays when it is this miner's turn.
    ///
    /// # Errors
    /// [`TurnRefusal`]: too many wait.
    pub async fn replay(&self, request: ReplayRequest, history: &History) -> Result<ReplayOutcome, TurnRefusal> {
        let ReplayRequest { miner, is_known, work, extent, handle } = request;
        let waiter = ReplayWaiter { miner, rank: (!is_known, history.replayed_at(miner)), handle: handle.clone() };
        let Some(place) = self.place(waiter, &work.challenge).await? else {
            return Ok(ReplayOutcome::unknown("this validator has no devices of its own"));
        };
        history.replays(miner, Instant::now());
        let second = history.second_computation(miner, Instant::now());
        let job = ReplayJob { challenge: work.challenge, evidence: work.evidence, extent, second };
        let replayed = match place {
            ReplayPlace::Local(local, turn) => local.replay(turn, job, handle).await,
            ReplayPlace::Shared(shared, turn) => shared.replay(turn, &job, &handle).await,
        };
        if let Some(found) = replayed.computed_again {
            history.computed_again(miner, found, Instant::now());
        }
        Ok(replayed)
    }

    /// Selects the place with the earliest expected end, unless it is busy and the other is free.
    async fn place(&self, waiter: ReplayWaiter, challenge: &Challenge) -> Result<Option<ReplayPlace<'_>>, TurnRefusal> {
        let (local, shared) = match (&self.local, &self.shared) {
            (None, None) => return Ok(None),
            (Some(local), None) => return Ok(Some(ReplayPlace::Local(local, local.turns.wait(waiter).await?))),
            (None, Some(shared)) => return Ok(Some(ReplayPlace::Shared(shared, shared.turns.wait(waiter).await?))),
            (Some(local), Some(shared)) => (local, shared),
        };
        let here = local.replayer.capacity().estimate(challenge);
        let there = ReplayCapacity(shared.capacities()).estimate(challenge);
        // A place without room reports `None`.
        let is_here = match (here, there) {
            (Some(here), Some(there)) => here <= there,
            (_, there) => there.is_none(),
        };
        let now_here = || here.and_then(|_| local.turns.now()).map(|turn| ReplayPlace::Local(local, turn));
        let now_there = || there.and_then(|_| shared.turns.now()).map(|turn| ReplayPlace::Shared(shared, turn));
        let now = if is_here { now_here().or_else(now_there) } else { now_there().or_else(now_here) };
        Ok(Some(match now {
            Some(place) => place,
            None if is_here => ReplayPlace::Local(local, local.turns.wait(waiter).await?),
            None => ReplayPlace::Shared(shared, shared.turns.wait(waiter).await?),
        }))
    }
}

impl LocalReplays {
    async fn replay(&self, turn: ReplayTurn, job: ReplayJob, handle: Handle) -> ReplayOutcome {
        let replayer = self.replayer.clone();
        let run = move || {
            let _turn = turn;
            replayer.replay(&job, &handle)
        };
        let ended = tokio::task::spawn_blocking(run).await;
        ended.unwrap_or_else(|error| ReplayOutcome::unknown(format!("the replay ended early: {error}")))
    }
}
