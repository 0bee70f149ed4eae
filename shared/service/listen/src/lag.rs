//! Delays of this process: by a busy machine, a stopped process, a suspended host. Times measured of a miner meanwhile
//! are partly our own.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::bounds::HELD_UP_LIMIT;

/// Interval of checking the runtime's punctuality.
const BEAT: Duration = Duration::from_millis(50);
/// The most delays remembered; the oldest is dropped.
const MAX_TIMES: usize = 4096;
/// The least time that the latest beat counts in a [`LagReport`].
const WINDOW: Duration = Duration::from_secs(60);

/// Delays of this process longer than [`HELD_UP_LIMIT`].
#[derive(Debug)]
pub struct Lag(Mutex<LagState>);

#[derive(Debug)]
struct LagState {
    /// The last punctual beat.
    beat: Instant,
    /// End and length of each delay.
    times: VecDeque<(Instant, Duration)>,
    /// Sum of all delays.
    held_up: Duration,
    /// The largest delay of a beat in this window, and in the previous one.
    worst: [Duration; 2],
    window_began: Instant,
}

/// Delays of this process, for operators.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LagReport {
    /// Sum of the delays since the start.
    pub held_up: Duration,
    /// The largest delay of a beat in the last minute or two, of any length.
    pub worst: Duration,
}

impl Lag {
    pub fn new(now: Instant) -> Self {
        let (held_up, worst) = (Duration::ZERO, [Duration::ZERO; 2]);
        Self(Mutex::new(LagState { beat: now, times: VecDeque::new(), held_up, worst, window_began: now }))
    }

    /// Measures the delays of the runtime, for ever.
    pub async fn watch(self: Arc<Self>) {
        loop {
            self.beat(Instant::now());
            tokio::time::sleep(BEAT).await;
        }
    }

    /// The longest delay that began between two times, or lasted into them.
    pub fn between(&self, began: Instant, end: Instant) -> Option<Duration> {
        let state = self.0.lock();
        let times = state.times.iter().filter(|(until, time)| *until >= began && *until <= end + *time);
        times.map(|(_, time)| *time).chain(late(state.beat, end)).max()
    }

    /// The report of the delays.
    pub fn report(&self) -> LagReport {
        let state = self.0.lock();
        LagReport { held_up: state.held_up, worst: state.worst.into_iter().max().unwrap_or_default() }
    }

    fn beat(&self, now: Instant) {
        let mut state = self.0.lock();
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
}

/// The delay of a beat, if it exceeds the limit.
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
    fn the_longest_time_between_two_moments_is_known() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let lag = Lag::new(start);
        [50, 100, 150, 1200, 1250, 1700, 1750].into_iter().for_each(|ms| lag.beat(at(ms)));
        assert_eq!(lag.between(start, at(1760)), Some(Duration::from_millis(1000)));
        assert_eq!(lag.between(at(1201), at(1760)), Some(Duration::from_millis(400)));
        assert_eq!(lag.between(at(1701), at(1760)), None);
        assert_eq!(lag.between(start, at(1250)), Some(Duration::from_millis(1000)));
        assert_eq!(lag.between(start, at(149)), None, "the delay began later");
        assert_eq!(lag.between(at(1701), at(5000)), Some(Duration::from_millis(3200)), "also while it is held up");
        let report = LagReport { held_up: Duration::from_millis(1400), worst: Duration::from_millis(1000) };
        assert_eq!(lag.report(), report);
        lag.beat(at(61_800));
        lag.beat(at(61_850));
        assert_eq!(lag.report().worst, Duration::from_secs(60), "of the window that ended");
        (62..182).for_each(|second| (0..20).for_each(|beat| lag.beat(at(1000 * second + 50 * beat))));
        assert!(lag.report().worst < Duration::from_millis(200), "{:?}", lag.report());
        (182..10_000).for_each(|second| lag.beat(at(1000 * second)));
        assert_eq!(lag.0.lock().times.len(), MAX_TIMES);
    }
}
