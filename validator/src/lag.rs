//! How long this process was held up: by a busy machine, a stopped process, a suspended host. What is measured of a miner
//! meanwhile is partly our own time.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::bounds::HELD_UP_LIMIT;

/// How often the runtime is asked to be on time.
const BEAT: Duration = Duration::from_millis(50);
/// Times that are remembered; the oldest is forgotten.
const MAX_TIMES: usize = 256;

/// The times at which this process was held up for longer than [`HELD_UP_LIMIT`].
#[derive(Debug)]
pub struct Lag(Mutex<State>);

#[derive(Debug)]
struct State {
    /// When the runtime was on time last.
    beat: Instant,
    /// Until when it was held up, and for how long.
    times: VecDeque<(Instant, Duration)>,
}

impl Lag {
    /// Nothing was held up yet.
    #[must_use]
    pub fn new(now: Instant) -> Self {
        Self(Mutex::new(State { beat: now, times: VecDeque::new() }))
    }

    /// Looks for ever whether the runtime is on time.
    pub async fn watch(self: Arc<Self>) {
        loop {
            self.beat(Instant::now());
            tokio::time::sleep(BEAT).await;
        }
    }

    /// For how long at most it was held up since then.
    #[must_use]
    pub fn since(&self, began: Instant, now: Instant) -> Option<Duration> {
        let state = self.lock();
        let times = state.times.iter().filter(|(until, _)| *until >= began).map(|(_, time)| *time);
        times.chain(late(state.beat, now)).max()
    }

    fn beat(&self, now: Instant) {
        let mut state = self.lock();
        if let Some(time) = late(state.beat, now) {
            state.times.truncate(MAX_TIMES - 1);
            state.times.push_front((now, time));
        }
        state.beat = now;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How much later than it was due the next beat is, where that is too late.
fn late(beat: Instant, now: Instant) -> Option<Duration> {
    let late = now.saturating_duration_since(beat).saturating_sub(BEAT);
    Some(late).filter(|late| *late >= HELD_UP_LIMIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_time_since_a_moment_is_known() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let lag = Lag::new(start);
        [50, 100, 150, 1200, 1250, 1700, 1750].into_iter().for_each(|ms| lag.beat(at(ms)));
        assert_eq!(lag.since(start, at(1760)), Some(Duration::from_millis(1000)));
        assert_eq!(lag.since(at(1201), at(1760)), Some(Duration::from_millis(400)));
        assert_eq!(lag.since(at(1701), at(1760)), None);
        assert_eq!(lag.since(at(1701), at(5000)), Some(Duration::from_millis(3200)), "also while it is held up");
        (2..10_000).for_each(|second| lag.beat(at(1000 * second)));
        assert_eq!(lag.lock().times.len(), MAX_TIMES);
    }
}
