//! How much to enqueue: launches cut by what was measured, so that a device is never more than a moment from idle.
//!
//! Work is counted in units that take about as long everywhere: multiply-accumulates for a product, lines for a probe.
//! What is enqueued cannot be taken back, so cancelling waits for it; cutting finer than that only costs launches.

use std::time::Duration;

/// What a launch is meant to take at most.
const LAUNCH: Duration = Duration::from_millis(20);
/// What is enqueued is meant to take at most.
const QUEUED: Duration = Duration::from_millis(80);
/// A launch is at most this many times what was measured last: a short one says little about long ones.
const GROWTH: u64 = 8;
/// Shorter measurements are the clock's, not the work's.
const SHORTEST: Duration = Duration::from_micros(1);

/// What is known of a device's rate.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Pace {
    measured: Option<Measured>,
}

#[derive(Debug, Clone, Copy)]
struct Measured {
    work: u64,
    took: Duration,
}

impl Pace {
    /// Takes in that `work` units took `took`.
    pub(super) fn measure(&mut self, work: u64, took: Duration) {
        self.measured = Some(Measured { work: work.max(1), took: took.max(SHORTEST) });
    }

    /// How long `work` units take; nothing while nothing was measured.
    pub(super) fn estimate(&self, work: u64) -> Option<Duration> {
        let measured = self.measured?;
        let nanos = u128::from(work) * measured.took.as_nanos() / u128::from(measured.work);
        Some(Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)))
    }

    /// How many pieces of `piece_work` units each, of `left`, the next launch takes: at least 1, `first` while nothing
    /// was measured.
    ///
    /// # Panics
    /// When nothing is left.
    pub(super) fn pieces(&self, left: u32, piece_work: u64, first: u32) -> u32 {
        assert!(left > 0, "a launch has something to do");
        let Some(measured) = self.measured else { return first.clamp(1, left) };
        let work = u128::from(measured.work) * LAUNCH.as_nanos() / measured.took.as_nanos();
        let work = work.min(u128::from(measured.work.saturating_mul(GROWTH)).max(u128::from(piece_work)));
        let pieces = u32::try_from(work / u128::from(piece_work.max(1))).unwrap_or(u32::MAX).max(1);
        // No short launch for what would be left.
        if left - left.min(pieces) < pieces / 2 { left } else { pieces }
    }

    /// Whether another `work` units may be enqueued behind what takes `queued`. While nothing was measured, only behind
    /// nothing.
    pub(super) fn admits(&self, queued: Duration, in_flight: usize, work: u64) -> bool {
        match self.estimate(work) {
            Some(took) => in_flight == 0 || queued + took <= QUEUED,
            None => in_flight == 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(work: u64, took_us: u64) -> Pace {
        let mut pace = Pace::default();
        pace.measure(work, Duration::from_micros(took_us));
        pace
    }

    #[test]
    fn the_first_launch_is_small_and_alone() {
        let pace = Pace::default();
        assert_eq!(pace.pieces(1000, 1 << 30, 108), 108);
        assert_eq!(pace.pieces(50, 1 << 30, 108), 50);
        assert!(pace.admits(Duration::ZERO, 0, 1));
        assert!(!pace.admits(Duration::ZERO, 1, 1));
    }

    #[test]
    fn launches_are_cut_to_their_time() {
        // 1000 units a microsecond: 20 ms are 20 million units.
        let pace = measured(10_000_000, 10_000);
        assert_eq!(pace.pieces(1 << 20, 1000, 1), 20_000);
        assert_eq!(pace.pieces(29_999, 1000, 1), 29_999, "no short launch for the rest");
        assert_eq!(pace.pieces(30_000, 1000, 1), 20_000);
        assert_eq!(pace.pieces(5, 1_000_000_000, 1), 1, "a piece is never cut");
    }

    #[test]
    fn a_short_measurement_grows_step_by_step() {
        let pace = measured(1000, 1);
        assert_eq!(pace.pieces(1 << 30, 1, 1), 8000);
        let wrong = measured(1 << 40, 0);
        assert!(wrong.estimate(1 << 40).unwrap() >= SHORTEST);
        assert_eq!(wrong.pieces(7, 1 << 20, 1), 7);
    }

    #[test]
    fn what_is_enqueued_stays_below_its_bound() {
        let pace = measured(1000, 1000);
        let mut queued = Duration::ZERO;
        let mut in_flight = 0;
        while pace.admits(queued, in_flight, 10_000) {
            queued += pace.estimate(10_000).unwrap();
            in_flight += 1;
        }
        assert_eq!((queued, in_flight), (Duration::from_millis(80), 8));
        assert!(pace.admits(Duration::ZERO, 0, u64::MAX / 2), "something must always go");
    }
}
