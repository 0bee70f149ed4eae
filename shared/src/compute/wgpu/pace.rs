//! How much to submit: dispatches and submissions cut by what was measured, so that no watchdog sees a long one and a
//! cancellation waits for little.
//!
//! Each kind of work has a unit that takes about as long everywhere: multiply-accumulates, bytes, lines. A submission
//! holds several kinds; its time corrects the rates of all of them by one factor.

use std::time::Duration;

/// What a submission is meant to take at most. The strictest watchdog, Windows's, fires after 2 s.
pub(super) const SUBMISSION: Duration = Duration::from_millis(20);
/// What is submitted and not done is meant to take at most.
pub(super) const QUEUED: Duration = Duration::from_millis(80);
/// A measurement changes a rate by at most this factor.
const MOST_CHANGE: f64 = 8.0;
/// Shorter measurements are the clock's, not the work's.
const SHORTEST: Duration = Duration::from_micros(1);

/// What is measured on its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Keystream, in bytes.
    Leaf,
    /// Products, in multiply-accumulates.
    Product,
    /// BLAKE3, in bytes.
    Digest,
    /// Steps of walks, in lines.
    Probe,
}

/// Some work of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Work {
    /// What it is.
    pub(super) kind: Kind,
    /// How much.
    pub(super) units: u64,
}

/// What is known of a device's rates: seconds for a unit.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Rates([Option<f64>; 4]);

impl Rates {
    /// How long this takes; nothing while its kind was not measured.
    #[expect(clippy::cast_precision_loss, reason = "an estimate to a few digits")]
    pub(super) fn estimate(&self, work: Work) -> Option<Duration> {
        let seconds = self.0[work.kind as usize]? * work.units as f64;
        Some(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
    }

    /// Takes in how long a submission took. What is not measured yet is in a submission by itself.
    #[expect(clippy::cast_precision_loss, reason = "a rate to a few digits")]
    pub(super) fn learn(&mut self, done: &[Work], took: Duration) {
        let took = took.max(SHORTEST).as_secs_f64();
        let known: f64 = done.iter().filter_map(|work| self.estimate(*work)).map(|time| time.as_secs_f64()).sum();
        let factor = (took / known.max(SHORTEST.as_secs_f64())).clamp(1.0 / MOST_CHANGE, MOST_CHANGE);
        let mut changed = [false; 4];
        for work in done.iter().filter(|work| work.units > 0) {
            let kind = work.kind as usize;
            if std::mem::replace(&mut changed[kind], true) {
                continue;
            }
            self.0[kind] = Some(self.0[kind].map_or(took / work.units as f64, |rate| rate * factor));
        }
    }

    /// How many pieces of `piece_units` each, of `left`, one dispatch takes: at least 1, `first` while nothing was
    /// measured.
    ///
    /// # Panics
    /// When nothing is left.
    pub(super) fn pieces(&self, kind: Kind, left: u64, piece_units: u64, first: u64) -> u64 {
        assert!(left > 0, "a dispatch has something to do");
        let Some(time) = self.estimate(Work { kind, units: piece_units }) else { return first.clamp(1, left) };
        let pieces = SUBMISSION.as_nanos() / time.as_nanos().max(1);
        let pieces = u64::try_from(pieces).unwrap_or(u64::MAX).max(1);
        // No short dispatch for what would be left.
        if left - left.min(pieces) < pieces / 2 { left } else { pieces }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn product(units: u64) -> Work {
        Work { kind: Kind::Product, units }
    }

    fn measured(units: u64, took_us: u64) -> Rates {
        let mut rates = Rates::default();
        rates.learn(&[product(units)], Duration::from_micros(took_us));
        rates
    }

    #[test]
    fn the_first_dispatch_is_small() {
        let rates = Rates::default();
        assert_eq!(rates.pieces(Kind::Product, 1000, 1 << 30, 108), 108);
        assert_eq!(rates.pieces(Kind::Product, 50, 1 << 30, 108), 50);
        assert_eq!(rates.estimate(product(1)), None);
    }

    #[test]
    fn dispatches_are_cut_to_their_time() {
        // 1000 units a microsecond: 20 ms are 20 million units.
        let rates = measured(10_000_000, 10_000);
        let close = |pieces: u64, to: u64| assert!(pieces.abs_diff(to) <= to / 1000, "{pieces}");
        close(rates.pieces(Kind::Product, 1 << 20, 1000, 1), 20_000);
        assert_eq!(rates.pieces(Kind::Product, 29_000, 1000, 1), 29_000, "no short dispatch for the rest");
        close(rates.pieces(Kind::Product, 31_000, 1000, 1), 20_000);
        assert_eq!(rates.pieces(Kind::Product, 5, 1_000_000_000, 1), 1, "a piece is never cut");
        assert_eq!(rates.pieces(Kind::Leaf, 5, 1, 2), 2, "another kind is not known by it");
    }

    #[test]
    fn a_mixed_submission_corrects_all_its_kinds_by_its_factor() {
        let mut rates = measured(1000, 1000);
        rates.learn(&[Work { kind: Kind::Digest, units: 10 }], Duration::from_micros(100));
        let mixed = [product(1000), Work { kind: Kind::Digest, units: 100 }, product(0)];
        rates.learn(&mixed, Duration::from_micros(4000));
        assert_eq!(rates.estimate(product(1000)), Some(Duration::from_micros(2000)));
        assert_eq!(rates.estimate(Work { kind: Kind::Digest, units: 10 }), Some(Duration::from_micros(200)));
        rates.learn(&[product(1000)], Duration::from_secs(3600));
        assert_eq!(rates.estimate(product(1000)), Some(Duration::from_micros(16_000)), "eightfold at most");
    }
}
