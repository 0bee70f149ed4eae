//! Turns on replaying machines: one replay at a time on each machine, known miners first, then the one without a turn
//! for longest.

use std::sync::Arc;
use std::time::Instant;

use assay_device::Handle;
use assay_work::PublicKey;
use parking_lot::Mutex;
use tokio::sync::oneshot;

/// The most replays that wait: each may take its whole budget.
pub const MAX_WAITING_REPLAYS: usize = 8;

/// The queue for the machines.
#[derive(Debug, Clone, Default)]
pub struct ReplayTurns(Arc<Mutex<TurnQueue>>);

#[derive(Debug)]
struct TurnQueue {
    /// Replays that may run at once: one on each machine.
    places: usize,
    running: usize,
    arrivals: u64,
    waiting: Vec<WaitingReplay>,
}

/// A miner that wants a turn.
#[derive(Debug, Clone)]
pub struct ReplayWaiter {
    pub miner: PublicKey,
    /// Whether it is new, and the time of its last turn: the least rank goes first, or keys that anybody makes would
    /// go before all others.
    pub rank: (bool, Option<Instant>),
    /// Handle that cancels the replay: a cancelled one has no place in the queue.
    pub handle: Handle,
}

#[derive(Debug)]
struct WaitingReplay {
    miner: PublicKey,
    /// Its rank, and its number of arrival.
    rank: ((bool, Option<Instant>), u64),
    start: oneshot::Sender<ReplayTurn>,
    handle: Handle,
}

impl Default for TurnQueue {
    fn default() -> Self {
        Self { places: 1, running: 0, arrivals: 0, waiting: Vec::new() }
    }
}

/// The right to use a machine, until it is dropped.
#[derive(Debug)]
pub struct ReplayTurn(ReplayTurns);

/// Numbers of replays that run and wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReplayLoad {
    /// Replays that have a machine.
    pub running: usize,
    /// Replays that wait for a machine.
    pub waiting: usize,
}

/// No turn: the queue is full of miners that have waited longer, or has this miner already; or the replay was cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{MAX_WAITING_REPLAYS} replays wait already, or one of this miner does")]
pub struct TurnRefusal;

impl ReplayTurns {
    /// Waits for a turn.
    pub async fn wait(&self, waiter: ReplayWaiter) -> Result<ReplayTurn, TurnRefusal> {
        let started = {
            let mut queue = self.0.lock();
            if queue.begin() {
                return Ok(ReplayTurn(self.clone()));
            }
            queue.enter(waiter)?
        };
        started.await.map_err(|_| TurnRefusal)
    }

    /// Takes a turn if a place is free now.
    pub fn now(&self) -> Option<ReplayTurn> {
        self.0.lock().begin().then(|| ReplayTurn(self.clone()))
    }

    /// Whether as many wait as may, of known miners for a known one: new ones make room for it.
    pub fn is_full(&self, is_known: bool) -> bool {
        self.0.lock().waiting().iter().filter(|it| !(is_known && it.rank.0.0)).count() >= MAX_WAITING_REPLAYS
    }

    /// Numbers of replays that run and wait.
    pub fn load(&self) -> ReplayLoad {
        let mut queue = self.0.lock();
        ReplayLoad { waiting: queue.waiting().len(), running: queue.running }
    }

    /// Sets the number of concurrent replays, at least one. Running ones go on.
    pub fn set_places(&self, places: usize) {
        self.0.lock().places = places.max(1);
        self.start_waiting();
    }

    /// Gives turns to waiting replays while places are free.
    fn start_waiting(&self) {
        loop {
            let Some(next) = self.0.lock().next() else { return };
            // A session that is gone drops its turn, which passes it on.
            let _ = next.start.send(ReplayTurn(self.clone()));
        }
    }
}

impl TurnQueue {
    /// Takes a place, if one is free.
    const fn begin(&mut self) -> bool {
        let is_free = self.running < self.places;
        self.running += is_free as usize;
        is_free
    }

    /// The replays that wait, without those whose challenge or session has ended.
    fn waiting(&mut self) -> &mut Vec<WaitingReplay> {
        self.waiting.retain(|waiting| !(waiting.handle.is_cancelled() || waiting.start.is_closed()));
        &mut self.waiting
    }

    fn enter(&mut self, waiter: ReplayWaiter) -> Result<oneshot::Receiver<ReplayTurn>, TurnRefusal> {
        if waiter.handle.is_cancelled() || self.waiting().iter().any(|waiting| waiting.miner == waiter.miner) {
            return Err(TurnRefusal);
        }
        self.arrivals += 1;
        let rank = (waiter.rank, self.arrivals);
        if self.waiting.len() >= MAX_WAITING_REPLAYS {
            let latest = self.waiting.iter().enumerate().max_by_key(|(_, waiting)| waiting.rank);
            match latest {
                // Dropped, it learns that it gets no turn.
                Some((index, waiting)) if waiting.rank > rank => drop(self.waiting.swap_remove(index)),
                _ => return Err(TurnRefusal),
            }
        }
        let (start, started) = oneshot::channel();
        self.waiting.push(WaitingReplay { miner: waiter.miner, rank, start, handle: waiter.handle });
        Ok(started)
    }

    /// Takes a place for the first in the queue, if there are both.
    fn next(&mut self) -> Option<WaitingReplay> {
        if self.running >= self.places {
            return None;
        }
        let (index, _) = self.waiting().iter().enumerate().min_by_key(|(_, waiting)| waiting.rank)?;
        self.running += 1;
        Some(self.waiting.swap_remove(index))
    }
}

impl Drop for ReplayTurn {
    fn drop(&mut self) {
        self.0.0.lock().running -= 1;
        self.0.start_waiting();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// A known miner with the time of its last turn.
    fn waiter(number: u8, last: Option<Instant>) -> ReplayWaiter {
        ReplayWaiter { miner: PublicKey([number; 32]), rank: (false, last), handle: Handle::default() }
    }

    fn enter(
        turns: &ReplayTurns,
        number: u8,
        last: Option<Instant>,
    ) -> Result<oneshot::Receiver<ReplayTurn>, TurnRefusal> {
        turns.0.lock().enter(waiter(number, last))
    }

    #[tokio::test]
    async fn the_miner_without_a_turn_for_longest_goes_first() {
        let (turns, now) = (ReplayTurns::default(), Instant::now());
        let running = turns.wait(waiter(0, None)).await.unwrap();
        let mut just_now = enter(&turns, 1, Some(now)).unwrap();
        let mut long_ago = enter(&turns, 2, Some(now - Duration::from_secs(60))).unwrap();
        let never = enter(&turns, 3, None).unwrap();
        drop(running);
        let turn = never.await.unwrap();
        assert!(long_ago.try_recv().is_err() && just_now.try_recv().is_err(), "one at a time");
        drop(turn);
        let turn = long_ago.await.unwrap();
        assert!(just_now.try_recv().is_err());
        drop(turn);
        drop(just_now.await.unwrap());
        assert!(turns.wait(waiter(4, None)).await.is_ok());
    }

    #[tokio::test]
    async fn new_keys_wait_for_known_miners_and_make_room_for_them() {
        let (turns, now) = (ReplayTurns::default(), Instant::now());
        let running = turns.wait(waiter(0, None)).await.unwrap();
        let new = |number| ReplayWaiter { rank: (true, None), ..waiter(number, None) };
        let mut strangers: Vec<_> = (1..=8).map(|number| turns.0.lock().enter(new(number)).unwrap()).collect();
        assert!(turns.is_full(false) && !turns.is_full(true) && turns.0.lock().enter(new(9)).is_err());
        let known = enter(&turns, 10, Some(now)).unwrap();
        assert!(strangers.pop().unwrap().await.is_err(), "the last stranger made room");
        drop(running);
        drop(known.await.unwrap());
        assert!(!turns.is_full(false));
        drop(strangers.remove(0).await.unwrap());
    }

    #[tokio::test]
    async fn a_full_queue_refuses_who_had_a_turn_last() {
        let (turns, now) = (ReplayTurns::default(), Instant::now());
        let running = turns.wait(waiter(0, None)).await.unwrap();
        let mut waiting: Vec<_> = (1..=8).map(|number| enter(&turns, number, Some(now)).unwrap()).collect();
        assert_eq!(enter(&turns, 9, Some(now)).unwrap_err(), TurnRefusal);
        assert_eq!(turns.load(), ReplayLoad { running: 1, waiting: 8 });
        assert_eq!(enter(&turns, 3, None).unwrap_err(), TurnRefusal, "one for each miner");
        let first = enter(&turns, 10, None).unwrap();
        assert!(waiting.remove(7).await.is_err(), "the one that came last made room");
        // A caller that is gone does not block the queue.
        drop(waiting);
        drop(running);
        drop(first.await.unwrap());
        assert!(turns.wait(waiter(11, None)).await.is_ok());
    }

    /// Regression test: the replay of a challenge that had ended kept its place, and its miner's next one was refused.
    #[tokio::test]
    async fn a_cancelled_replay_gives_up_its_place_at_once() {
        let turns = ReplayTurns::default();
        let running = turns.now().unwrap();
        let waiters: Vec<_> = (1..=8).map(|number| waiter(number, None)).collect();
        let mut waiting: Vec<_> = waiters.iter().map(|waiter| turns.0.lock().enter(waiter.clone()).unwrap()).collect();
        let next = |number| enter(&turns, number, Some(Instant::now()));
        assert!(turns.is_full(true) && next(1).is_err() && next(9).is_err());
        waiters.iter().take(2).for_each(|waiter| waiter.handle.cancel());
        assert_eq!((turns.is_full(true), turns.load()), (false, ReplayLoad { running: 1, waiting: 6 }));
        assert!(turns.0.lock().enter(waiters[0].clone()).is_err(), "its challenge ended before it came to the queue");
        let _kept = [next(1).unwrap(), next(9).unwrap()];
        waiters[2].handle.cancel();
        drop(running);
        assert!(waiting.remove(2).await.is_err(), "it gets no turn");
        drop(waiting.remove(2).await.unwrap());
    }

    #[tokio::test]
    async fn each_machine_has_a_replay_of_its_own() {
        let turns = ReplayTurns::default();
        let first = turns.now().unwrap();
        assert!(turns.now().is_none());
        let (mut second, mut third) = (enter(&turns, 2, None).unwrap(), enter(&turns, 3, None).unwrap());
        turns.set_places(2);
        let turn = second.try_recv().unwrap();
        assert!(third.try_recv().is_err(), "two machines");
        turns.set_places(0);
        drop(turn);
        assert!(third.try_recv().is_err(), "one is left, and busy");
        drop(first);
        drop(third.try_recv().unwrap());
        assert!(turns.now().is_some());
    }
}
