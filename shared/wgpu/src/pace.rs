//! How much to submit: dispatches and submissions cut by what was measured, so that no watchdog sees a long one and a
//! cancellation waits for little.
//!
//! Each kind of work has a unit that takes about as long everywhere: multiply-accumulates, bytes, lines. A submission
//! holds several kinds; its time corrects the rate of each by as much as it had a part in what was estimated. A rate is
//! quick to be taken for slower and slow to be taken for faster, and nothing grows far beyond what was done before.

use std::time::Duration;

/// What a submission is meant to take at most. The strictest watchdog, Windows's, fires after 2 s.
pub(super) const SUBMISSION: Duration = Duration::from_millis(20);
/// What is submitted and not done is meant to take at most.
pub(super) const QUEUED: Duration = Duration::from_millis(80);
/// By one measurement, a rate becomes at most so many times slower, or faster.
const MOST_SLOWER: f64 = 8.0;
const MOST_FASTER: f64 = 2.0;
/// A dispatch is at most this many times what one submission held before: a short one says little about long ones.
const GROWTH: u64 = 4;
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

/// What is known of a device's rates.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Rates([Option<Rate>; 4]);

/// What is known of one kind.
#[derive(Debug, Clone, Copy)]
struct Rate {
    /// Seconds for a unit.
    seconds: f64,
    /// The most units that one submission held.
    most: u64,
}

impl Rates {
    /// How long this takes; nothing while its kind was not measured.
    #[expect(clippy::cast_precision_loss, reason = "an estimate to a few digits")]
    pub(super) fn estimate(&self, work: Work) -> Option<Duration> {
        let seconds = self.0[work.kind as usize]?.seconds * work.units as f64;
        Some(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
    }

    /// Takes in how long a submission took. What is not measured yet is in a submission by itself.
    #[expect(clippy::cast_precision_loss, reason = "a rate to a few digits")]
    pub(super) fn learn(&mut self, done: &[Work], took: Duration) {
        let took = took.max(SHORTEST).as_secs_f64();
        let mut units = [0_u64; 4];
        done.iter().for_each(|work| units[work.kind as usize] += work.units);
        let estimates: [f64; 4] =
            std::array::from_fn(|kind| self.0[kind].map_or(0.0, |rate| rate.seconds * units[kind] as f64));
        let estimated = estimates.iter().sum::<f64>().max(SHORTEST.as_secs_f64());
        let factor = (took / estimated).clamp(1.0 / MOST_FASTER, MOST_SLOWER);
        for (kind, units) in units.into_iter().enumerate().filter(|(_, units)| *units > 0) {
            let known = self.0[kind].unwrap_or(Rate { seconds: took / units as f64, most: 0 });
            let part = estimates[kind] / estimated;
            let seconds = known.seconds * (1.0 + part * (factor - 1.0));
            self.0[kind] = Some(Rate { seconds, most: known.most.max(units) });
        }
    }

    /// Forgets what is known of a kind: it was of another layout of memory, say.
    pub(super) fn forget(&mut self, kind: Kind) {
        self.0[kind as usize] = None;
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
        let most = self.0[kind as usize].map_or(0, |rate| rate.most).saturating_mul(GROWTH) / piece_units.max(1);
        let pieces = u64::try_from(pieces).unwrap_or(u64::MAX).min(most).max(1);
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
    fn a_dispatch_is_not_far_larger_than_what_was_done_before() {
        let mut rates = measured(1000, 1);
        assert_eq!(rates.pieces(Kind::Product, 1 << 30, 1, 1), 4000);
        rates.learn(&[product(2000), product(2000)], Duration::from_micros(4));
        assert_eq!(rates.pieces(Kind::Product, 1 << 30, 1, 1), 16_000, "what one submission held, all together");
        rates.learn(&[product(10)], Duration::from_micros(1));
        assert_eq!(rates.pieces(Kind::Product, 1 << 30, 1, 1), 16_000);
    }

    fn digest(units: u64) -> Work {
        Work { kind: Kind::Digest, units }
    }

    #[track_caller]
    fn close(rates: &Rates, work: Work, to_us: f64) {
        let us = rates.estimate(work).unwrap().as_secs_f64() * 1e6;
        assert!((us / to_us - 1.0).abs() < 1e-3, "{us} µs, and {to_us} µs are right");
    }

    #[test]
    fn a_mixed_submission_corrects_each_kind_by_its_part() {
        let mut rates = measured(1000, 1000);
        rates.learn(&[digest(10)], Duration::from_micros(100));
        // Estimated: 3 parts for products, 1 for digests; it took three times as long.
        rates.learn(&[product(3000), digest(100), product(0)], Duration::from_micros(12_000));
        close(&rates, product(1000), 1000.0 * (1.0 + 0.75 * 2.0));
        close(&rates, digest(10), 100.0 * (1.0 + 0.25 * 2.0));
    }

    /// A regression: digests that were far faster than estimated made products, of which little was done, seem as much
    /// faster, until one dispatch of them took a second.
    #[test]
    fn what_had_little_part_in_it_is_little_changed() {
        let mut rates = measured(1000, 1000);
        rates.learn(&[digest(10)], Duration::from_micros(1000));
        for _ in 0..20 {
            rates.learn(&[product(1), digest(1000)], Duration::from_micros(100));
        }
        assert!(rates.estimate(product(1000)).unwrap() > Duration::from_micros(900), "{rates:?}");
        let digests = rates.estimate(digest(1000)).unwrap();
        assert!((90..110).contains(&digests.as_micros()), "they are known by then: {digests:?}");
    }

    #[test]
    fn a_rate_is_quick_to_be_slower_and_slow_to_be_faster() {
        let mut rates = measured(1000, 1000);
        rates.learn(&[product(1000)], Duration::from_secs(3600));
        close(&rates, product(1000), 8000.0);
        rates.learn(&[product(1000)], Duration::ZERO);
        close(&rates, product(1000), 4000.0);
    }
}
