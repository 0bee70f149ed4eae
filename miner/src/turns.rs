//! Turns of several validators at the devices: one challenge at a time, and no validator has two turns while another
//! waits.
//!
//! A challenge that comes while another validator's runs is declined as busy, and its validator is noted. When the
//! devices are free again, they are kept for the validator that waits for longest, for as long as it takes to ask
//! again. One that does not ask in that time is not waited for again until it has had a turn.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use assay_program::clock;
use parking_lot::Mutex;

/// How long the devices are kept for a validator that waits: it asks again after a minute at most.
pub const KEPT_FOR: Duration = Duration::from_secs(90);

/// The turns of one validator; clones for other validators share them.
#[derive(Debug, Clone, Default)]
pub struct Turns {
    shared: Arc<Mutex<TurnsState>>,
    validator: usize,
}

/// One validator's challenge has the devices. Dropped, they are free.
#[derive(Debug)]
pub struct Turn(Turns);

/// The reason for which a challenge has no turn. Validators receive these words, which name no other validator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Busy {
    #[error(
        "this miner works on a challenge of another validator; this one's turn comes next or soon after: ask again"
    )]
    Runs,
    #[error("this miner has not cleared {MAX_UNCLEARED} challenges of this validator away yet: ask again")]
    Uncleared,
    /// It is another one's turn.
    #[error("this miner's devices are kept for another validator, whose turn it is: ask again in {} s", .0.as_secs() + 1)]
    Kept(Duration),
}

/// The most challenges of a validator that are not yet cleared away: ended ones wait for the devices.
const MAX_UNCLEARED: u32 = 4;

#[derive(Debug, Default)]
struct TurnsState {
    /// Who has the devices, and how many challenges of it are not yet cleared away: the next may follow at once.
    holder: Option<(usize, u32)>,
    /// Who waits, the longest first.
    waiting: VecDeque<usize>,
    /// Until when the devices are kept for the first of them.
    kept_until: Option<Instant>,
    /// Who did not ask when the devices were kept for it, and had no turn since.
    lapsed: BTreeSet<usize>,
    /// Count of challenges that began.
    begun: u64,
}

impl TurnsState {
    fn take(&mut self, validator: usize, now: Instant) -> Result<(), Busy> {
        self.lapse(now);
        let first = self.waiting.front().copied();
        match (self.holder, self.kept_until, first) {
            (Some((holder, _)), ..) if holder != validator => {
                self.wait(validator);
                return Err(Busy::Runs);
            }
            // The validator that has the devices does not go on while others wait.
            (Some(_), _, Some(first)) if first != validator => {
                self.wait(validator);
                return Err(Busy::Kept(KEPT_FOR));
            }
            (None, Some(until), Some(first)) if first != validator => {
                self.wait(validator);
                return Err(Busy::Kept(until.saturating_duration_since(now)));
            }
            (Some((_, MAX_UNCLEARED..)), ..) => return Err(Busy::Uncleared),
            _ => {}
        }
        self.waiting.retain(|waiting| *waiting != validator);
        self.lapsed.remove(&validator);
        self.kept_until = None;
        let before = self.holder.map_or(0, |(_, challenges)| challenges);
        self.holder = Some((validator, before + 1));
        Ok(())
    }

    fn give_back(&mut self, now: Instant) {
        self.holder = self.holder.and_then(|(holder, left)| (left > 1).then(|| (holder, left - 1)));
        if self.holder.is_none() {
            self.keep(now);
        }
    }

    /// Keeps the devices for the first that waits, where one does.
    fn keep(&mut self, now: Instant) {
        self.kept_until = (!self.waiting.is_empty()).then(|| now + KEPT_FOR);
    }

    /// Removes validators whose time to ask is over, to make room for the next.
    fn lapse(&mut self, now: Instant) {
        while self.kept_until.is_some_and(|until| now >= until) {
            self.lapsed.extend(self.waiting.pop_front());
            self.keep(now);
        }
    }

    fn wait(&mut self, validator: usize) {
        if !self.waiting.contains(&validator) && !self.lapsed.contains(&validator) {
            self.waiting.push_back(validator);
        }
    }

    fn leave(&mut self, validator: usize, now: Instant) {
        let was_first = self.waiting.front() == Some(&validator);
        self.waiting.retain(|waiting| *waiting != validator);
        if was_first && self.holder.is_none() {
            self.keep(now);
        }
    }
}

impl Turns {
    /// The turns of the validator with this number, shared with those of others.
    pub fn of(&self, validator: usize) -> Self {
        Self { shared: self.shared.clone(), validator }
    }

    /// Takes the devices for a challenge that came now.
    ///
    /// # Errors
    /// [`Busy`]; the validator is noted as one that waits.
    pub fn take(&self) -> Result<Turn, Busy> {
        self.shared.lock().take(self.validator, clock::now())?;
        Ok(Turn(self.clone()))
    }

    /// The validator is not connected any more: the devices are not kept for it.
    pub fn leave(&self) {
        self.shared.lock().leave(self.validator, clock::now());
    }

    pub fn begun(&self) -> u64 {
        self.shared.lock().begun
    }

    /// Gives the devices something to do between challenges, ahead of the next one; `None` while one has them. `ask`
    /// only queues it, and waits for nothing.
    pub fn between<T>(&self, ask: impl FnOnce() -> T) -> Option<T> {
        let shared = self.shared.lock();
        shared.holder.is_none().then(ask)
    }

    /// The same, unless a challenge has begun since the count was `begun`.
    pub fn since<T>(&self, begun: u64, ask: impl FnOnce() -> T) -> Option<T> {
        let shared = self.shared.lock();
        (shared.holder.is_none() && shared.begun == begun).then(ask)
    }
}

impl Turn {
    pub fn begin(&self) {
        self.0.shared.lock().begun += 1;
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.shared.lock().give_back(clock::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: usize = 0;
    const B: usize = 1;
    const C: usize = 2;

    fn kept(result: Result<(), Busy>) -> bool {
        matches!(result, Err(Busy::Kept(_)))
    }

    #[test]
    fn whoever_was_declined_goes_next_in_the_order_of_asking() {
        let (mut turns, now) = (TurnsState::default(), Instant::now());
        assert_eq!(turns.take(A, now), Ok(()));
        assert_eq!(turns.take(B, now), Err(Busy::Runs));
        assert_eq!(turns.take(C, now), Err(Busy::Runs));
        assert_eq!(turns.take(B, now), Err(Busy::Runs), "asking twice is no second place");
        assert!(kept(turns.take(A, now)), "the next challenge of the one that has the devices");
        turns.give_back(now);
        assert!(kept(turns.take(A, now)) && kept(turns.take(C, now)));
        assert_eq!(turns.take(B, now), Ok(()));
        turns.give_back(now);
        assert!(kept(turns.take(A, now)) && kept(turns.take(B, now)));
        assert_eq!(turns.take(C, now), Ok(()));
        turns.give_back(now);
        assert_eq!(turns.take(A, now), Ok(()), "it asked before the others did again");
    }

    #[test]
    fn one_validator_alone_is_never_busy() {
        let (mut turns, now) = (TurnsState::default(), Instant::now());
        for _ in 0..MAX_UNCLEARED {
            // The one before is not cleared away yet.
            assert_eq!(turns.take(A, now), Ok(()));
        }
        // Regression test: a validator that ended each challenge at once queued work without bound.
        assert_eq!(turns.take(A, now), Err(Busy::Uncleared));
        turns.give_back(now);
        assert_eq!(turns.take(A, now), Ok(()));
        for _ in 0..MAX_UNCLEARED {
            turns.give_back(now);
        }
        assert_eq!(turns.holder, None);
    }

    /// One that has itself kept a place for, and never comes, does so once.
    #[test]
    fn a_place_that_lapsed_is_not_kept_again_before_a_turn() {
        let (mut turns, now) = (TurnsState::default(), Instant::now());
        assert_eq!(turns.take(A, now), Ok(()));
        assert_eq!(turns.take(B, now), Err(Busy::Runs));
        turns.give_back(now);
        assert!(kept(turns.take(A, now + KEPT_FOR - Duration::from_millis(1))));
        let later = now + KEPT_FOR;
        assert_eq!(turns.take(A, later), Ok(()));
        assert_eq!(turns.take(B, later), Err(Busy::Runs));
        turns.give_back(later);
        assert_eq!(turns.take(A, later), Ok(()), "nothing is kept for B any more");
        turns.give_back(later);
        assert_eq!(turns.take(B, later), Ok(()));
        assert_eq!(turns.take(A, later), Err(Busy::Runs));
        turns.give_back(later);
        assert_eq!(turns.take(A, later), Ok(()));
        assert_eq!(turns.take(B, later), Err(Busy::Runs));
        turns.give_back(later);
        assert!(kept(turns.take(A, later)), "it had a turn");
    }

    #[test]
    fn nothing_is_kept_for_one_that_left() {
        let (mut turns, now) = (TurnsState::default(), Instant::now());
        assert_eq!(turns.take(A, now), Ok(()));
        assert_eq!(turns.take(B, now), Err(Busy::Runs));
        turns.give_back(now);
        turns.leave(B, now);
        assert_eq!(turns.take(A, now), Ok(()));
    }

    #[test]
    fn what_is_asked_between_challenges_waits_for_none() {
        let turns = Turns::default();
        let other = turns.of(B);
        assert_eq!(other.between(|| 1), Some(1));
        let turn = turns.take().unwrap();
        turn.begin();
        assert_eq!((other.between(|| 1), other.since(1, || 1)), (None, None));
        drop(turn);
        assert_eq!((other.since(0, || 1), other.since(1, || 1)), (None, Some(1)));
    }

    /// Of all orders in which three validators ask eight times, with and without one that asks while a challenge runs.
    #[test]
    fn nobody_has_two_turns_while_another_waits() {
        for order in 0..3_usize.pow(8) {
            let (mut turns, now) = (TurnsState::default(), Instant::now());
            // Turns that others had since one was declined.
            let mut had: [Option<[u32; 3]>; 3] = [None; 3];
            for (step, asks) in (0..8).map(|step| (step, order / 3_usize.pow(step) % 3)) {
                if turns.take(asks, now).is_err() {
                    had[asks].get_or_insert([0; 3]);
                    continue;
                }
                had[asks] = None;
                had.iter_mut().flatten().for_each(|had| had[asks] += 1);
                if step % 2 == 1 {
                    let other = (asks + 1) % 3;
                    assert!(turns.take(other, now).is_err(), "{order}");
                    had[other].get_or_insert([0; 3]);
                }
                turns.give_back(now);
                assert!(had.iter().flatten().flatten().all(|turns| *turns <= 1), "{order}: {had:?}");
            }
        }
    }
}
