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
/// For how long at least the latest beat counts in a [`LagReport`].
const WINDOW: Duration = Duration::from_secs(60);

/// The times at which this process was held up for longer than [`HELD_UP_LIMIT`].
#[derive(Debug)]
pub struct Lag(Mutex<State>);

#[derive(Debug)]
struct State {
    /// When the runtime was on time last.
    beat: Instant,
    /// Until when it was held up, and for how long.
    times: VecDeque<(Instant, Duration)>,
    /// All of them.
    held_up: Duration,
    /// How late the latest beat of this window was, and of the one before.
    worst: [Duration; 2],
    window_began: Instant,
}

/// How late this process was, for operators.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LagReport {
    /// For how long it was held up since the start.
    pub held_up: Duration,
    /// How late it was at most in the last minute or two, held up or not.
    pub worst: Duration,
}

impl Lag {
    /// Nothing was held up yet.
    #[must_use]
    pub fn new(now: Instant) -> Self {
        let (held_up, worst) = (Duration::ZERO, [Duration::ZERO; 2]);
        Self(Mutex::new(State { beat: now, times: VecDeque::new(), held_up, worst, window_began: now }))
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

    /// How late it was.
    #[must_use]
    pub fn report(&self) -> LagReport {
        let state = self.lock();
        LagReport { held_up: state.held_up, worst: state.worst.into_iter().max().unwrap_or_default() }
    }

    fn beat(&self, now: Instant) {
        let mut state = self.lock();
        if now.saturating_duration_since(state.window_began) >= WINDOW {
            state.worst = [Duration::ZERO, state.worst[0]];
            state.window_began = now;
        }
        state.worst[0] = state.worst[0].max(lateness(state.beat, now));
        if let Some(time) = late(state.beat, now) {
            state.held_up += time;
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
    Some(lateness(beat, now)).filter(|late| *late >= HELD_UP_LIMIT)
}

fn lateness(beat: Instant, now: Instant) -> Duration {
    now.saturating_duration_since(beat).saturating_sub(BEAT)
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
        let report = LagReport { held_up: Duration::from_millis(1400), worst: Duration::from_millis(1000) };
        assert_eq!(lag.report(), report);
        lag.beat(at(61_800));
        lag.beat(at(61_850));
        assert_eq!(lag.report().worst, Duration::from_secs(60), "of the window that ended");
        (62..182).for_each(|second| (0..20).for_each(|beat| lag.beat(at(1000 * second + 50 * beat))));
        assert!(lag.report().worst < Duration::from_millis(200), "{:?}", lag.report());
        (182..10_000).for_each(|second| lag.beat(at(1000 * second)));
        assert_eq!(lag.lock().times.len(), MAX_TIMES);
    }
}
