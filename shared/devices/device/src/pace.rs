//! The amount that a GPU backend enqueues at once: launches are cut by measured rates, so that no watchdog sees a long
//! one, a cancellation waits for little, and the device is never idle.
//!
//! Each kind of work has a unit that takes about as long everywhere: multiply-accumulates, bytes, lines. A launch that
//! is enqueued cannot be taken back, so cancelling waits for it; cutting finer than that only costs launches.
//!
//! A *launch* runs without interruption: a kernel launch (CUDA), a submission of several dispatches (wgpu).

use std::time::Duration;

/// The longest estimated time of one launch. The strictest watchdog, Windows's, fires after 2 s.
pub const MAX_LAUNCH_TIME: Duration = Duration::from_millis(20);
/// The longest estimated time of all pending launches.
pub const MAX_PENDING_TIME: Duration = Duration::from_millis(80);
/// Shorter measurements are the clock's, not the work's.
const MIN_MEASURED_TIME: Duration = Duration::from_micros(1);
/// A quotient that rounding left this far below a whole number is that number.
const ROUNDING: f64 = 1.0 + 1e-12;

/// A kind of work with a rate of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkKind {
    /// Keystream, in bytes.
    Leaf,
    /// Products, in multiply-accumulates.
    Product,
    /// BLAKE3, in bytes.
    Digest,
    /// Steps of walks, in lines.
    Probe,
    /// Operands of slots written out, in bytes of the slot.
    Expand,
    /// Steps of walks over the slots of several devices, in lines.
    LinkedProbe,
    /// Rows summed, in bytes.
    Sweep,
}

const KINDS: usize = 7;

/// Some work of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Workload {
    pub kind: WorkKind,
    /// The amount, in the kind's unit.
    pub units: u64,
}

/// How far one measurement is trusted, which depends on how a backend takes the time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Timing {
    /// A launch has at most this many times the units of the largest one measured: a short one says little about long
    /// ones.
    max_growth: u64,
    /// The most by which one measurement slows a rate down, as a factor.
    max_slower: f64,
    /// The most by which one measurement speeds a rate up, as a factor.
    max_faster: f64,
}

impl Timing {
    /// Launches are of one kind each, and timed by the device's own events: a measurement replaces the rate.
    pub const DEVICE_EVENTS: Self = Self { max_growth: 8, max_slower: f64::INFINITY, max_faster: f64::INFINITY };
    /// Launches of several kinds are timed together by the host's clock, which sees the queue and the driver as well: a
    /// rate is quick to be taken for slower and slow to be taken for faster.
    pub const HOST_CLOCK: Self = Self { max_growth: 4, max_slower: 8.0, max_faster: 2.0 };
}

/// The measured rates of a device, one for each kind of work.
#[derive(Debug, Clone, Copy)]
pub struct DeviceRates {
    timing: Timing,
    known: [Option<WorkRate>; KINDS],
}

#[derive(Debug, Clone, Copy)]
struct WorkRate {
    seconds_per_unit: f64,
    /// The most units of one measurement.
    most_units: u64,
}

impl DeviceRates {
    pub const fn new(timing: Timing) -> Self {
        Self { timing, known: [None; KINDS] }
    }

    /// The expected time; `None` while the kind was not measured.
    #[expect(clippy::cast_precision_loss, reason = "an estimate to a few digits")]
    pub fn estimate(&self, work: Workload) -> Option<Duration> {
        let seconds = self.known[work.kind as usize]?.seconds_per_unit * work.units as f64;
        Some(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
    }

    /// Whether a launch as large as this was measured.
    pub fn is_measured(&self, work: Workload) -> bool {
        self.known[work.kind as usize].is_some_and(|rate| rate.most_units >= work.units)
    }

    /// Learns from how long a launch took. Its time corrects the rate of each kind by the share that the kind had in the
    /// estimate. A kind that is not measured yet must be alone in its launch.
    #[expect(clippy::cast_precision_loss, reason = "a rate to a few digits")]
    pub fn learn(&mut self, done: &[Workload], took: Duration) {
        let took = took.max(MIN_MEASURED_TIME).as_secs_f64();
        let mut units = [0_u64; KINDS];
        done.iter().for_each(|work| units[work.kind as usize] += work.units);
        let estimates: [f64; KINDS] =
            std::array::from_fn(|kind| self.known[kind].map_or(0.0, |rate| rate.seconds_per_unit * units[kind] as f64));
        let estimated = estimates.iter().sum::<f64>().max(MIN_MEASURED_TIME.as_secs_f64());
        let Timing { max_slower, max_faster, .. } = self.timing;
        let factor = (took / estimated).clamp(1.0 / max_faster, max_slower);
        for (kind, units) in units.into_iter().enumerate().filter(|(_, units)| *units > 0) {
            let first = WorkRate { seconds_per_unit: took / units as f64, most_units: 0 };
            let known = self.known[kind].unwrap_or(first);
            let share = estimates[kind] / estimated;
            self.known[kind] = Some(WorkRate {
                seconds_per_unit: known.seconds_per_unit * (1.0 + share * (factor - 1.0)),
                most_units: known.most_units.max(units),
            });
        }
    }

    /// Forgets a kind's rate: that of another memory layout, say.
    pub const fn forget(&mut self, kind: WorkKind) {
        self.known[kind as usize] = None;
    }

    /// Number of pieces of `piece_units` each, of `left`, for the next launch: at least 1, `first` while nothing was
    /// measured.
    ///
    /// # Panics
    /// When `left` is 0.
    #[expect(clippy::cast_precision_loss, clippy::cast_sign_loss, reason = "a time to a few digits, never negative")]
    pub fn pieces(&self, kind: WorkKind, left: u64, piece_units: u64, first: u64) -> u64 {
        assert!(left > 0, "a launch has something to do");
        let Some(rate) = self.known[kind as usize] else { return first.clamp(1, left) };
        let piece_seconds = rate.seconds_per_unit * piece_units as f64;
        // Out of range, the cast gives the largest number.
        let in_time = (MAX_LAUNCH_TIME.as_secs_f64() / piece_seconds * ROUNDING) as u64;
        let in_growth = rate.most_units.saturating_mul(self.timing.max_growth) / piece_units.max(1);
        let pieces = in_time.min(in_growth).max(1);
        // Takes all of the rest, where only a short launch would remain.
        if left - left.min(pieces) < pieces / 2 { left } else { pieces }
    }
}

/// Whether a launch that takes `next` may be enqueued behind `count` pending launches that take `pending` together. One
/// whose time is not known is enqueued behind nothing.
pub fn may_enqueue(pending: Duration, count: usize, next: Option<Duration>) -> bool {
    count == 0 || next.is_some_and(|next| pending.saturating_add(next) <= MAX_PENDING_TIME)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn product(units: u64) -> Workload {
        Workload { kind: WorkKind::Product, units }
    }

    const fn digest(units: u64) -> Workload {
        Workload { kind: WorkKind::Digest, units }
    }

    fn measured(timing: Timing, units: u64, took_us: u64) -> DeviceRates {
        let mut rates = DeviceRates::new(timing);
        rates.learn(&[product(units)], Duration::from_micros(took_us));
        rates
    }

    fn products(rates: &DeviceRates, left: u64, piece_units: u64, first: u64) -> u64 {
        rates.pieces(WorkKind::Product, left, piece_units, first)
    }

    #[test]
    fn the_first_launch_is_small_and_alone() {
        for timing in [Timing::DEVICE_EVENTS, Timing::HOST_CLOCK] {
            let rates = DeviceRates::new(timing);
            assert_eq!(products(&rates, 1000, 1 << 30, 108), 108);
            assert_eq!(products(&rates, 50, 1 << 30, 108), 50);
            assert_eq!(rates.estimate(product(1)), None);
            assert!(may_enqueue(Duration::ZERO, 0, rates.estimate(product(1))));
            assert!(!may_enqueue(Duration::ZERO, 1, rates.estimate(product(1))));
        }
    }

    #[test]
    fn launches_are_cut_to_their_time() {
        for timing in [Timing::DEVICE_EVENTS, Timing::HOST_CLOCK] {
            // 1000 units a microsecond: 20 ms are 20 million units.
            let rates = measured(timing, 10_000_000, 10_000);
            assert_eq!(products(&rates, 1 << 20, 1000, 1), 20_000);
            assert_eq!(products(&rates, 29_999, 1000, 1), 29_999, "no short launch for the rest");
            assert_eq!(products(&rates, 30_000, 1000, 1), 20_000);
            assert_eq!(products(&rates, 5, 1_000_000_000, 1), 1, "a piece is never cut");
            assert_eq!(rates.pieces(WorkKind::Leaf, 5, 1, 2), 2, "another kind is not known by it");
        }
    }

    #[test]
    fn a_short_measurement_grows_step_by_step() {
        assert_eq!(products(&measured(Timing::DEVICE_EVENTS, 1000, 1), 1 << 30, 1, 1), 8000);
        assert_eq!(products(&measured(Timing::HOST_CLOCK, 1000, 1), 1 << 30, 1, 1), 4000);
        let wrong = measured(Timing::DEVICE_EVENTS, 1 << 40, 0);
        assert!(wrong.estimate(product(1 << 40)).unwrap() >= MIN_MEASURED_TIME);
        assert_eq!(products(&wrong, 7, 1 << 20, 1), 7);
    }

    #[test]
    fn a_launch_is_not_far_larger_than_what_was_done_before() {
        let mut rates = measured(Timing::HOST_CLOCK, 1000, 1);
        rates.learn(&[product(2000), product(2000)], Duration::from_micros(4));
        assert_eq!(products(&rates, 1 << 30, 1, 1), 16_000, "what one submission held, all together");
        rates.learn(&[product(10)], Duration::from_micros(1));
        assert_eq!(products(&rates, 1 << 30, 1, 1), 16_000);
    }

    #[test]
    fn what_is_enqueued_stays_below_its_bound() {
        let rates = measured(Timing::DEVICE_EVENTS, 1000, 1000);
        let mut pending = Duration::ZERO;
        let mut count = 0;
        while may_enqueue(pending, count, rates.estimate(product(10_000))) {
            pending += rates.estimate(product(10_000)).unwrap();
            count += 1;
        }
        assert_eq!((pending, count), (Duration::from_millis(80), 8));
        let endless = rates.estimate(product(u64::MAX / 2));
        assert!(may_enqueue(Duration::ZERO, 0, endless), "something must always go");
        assert!(!may_enqueue(pending, 1, Some(Duration::MAX)));
    }

    #[track_caller]
    fn assert_close(rates: &DeviceRates, work: Workload, expected_us: f64) {
        let us = rates.estimate(work).unwrap().as_secs_f64() * 1e6;
        assert!((us / expected_us - 1.0).abs() < 1e-3, "{us} µs, and {expected_us} µs are right");
    }

    #[test]
    fn a_mixed_submission_corrects_each_kind_by_its_part() {
        let mut rates = measured(Timing::HOST_CLOCK, 1000, 1000);
        rates.learn(&[digest(10)], Duration::from_micros(100));
        // Estimated: 3 parts for products, 1 for digests; it took three times as long.
        rates.learn(&[product(3000), digest(100), product(0)], Duration::from_micros(12_000));
        assert_close(&rates, product(1000), 1000.0 * (1.0 + 0.75 * 2.0));
        assert_close(&rates, digest(10), 100.0 * (1.0 + 0.25 * 2.0));
    }

    /// A regression: digests that were far faster than estimated made products, of which little was done, seem as much
    /// faster, until one dispatch of them took a second.
    #[test]
    fn what_had_little_part_in_it_is_little_changed() {
        let mut rates = measured(Timing::HOST_CLOCK, 1000, 1000);
        rates.learn(&[digest(10)], Duration::from_micros(1000));
        for _ in 0..20 {
            rates.learn(&[product(1), digest(1000)], Duration::from_micros(100));
        }
        assert!(rates.estimate(product(1000)).unwrap() > Duration::from_micros(900), "{rates:?}");
        let digests = rates.estimate(digest(1000)).unwrap();
        assert!((90..110).contains(&digests.as_micros()), "they are known by then: {digests:?}");
    }

    #[test]
    fn by_the_hosts_clock_a_rate_is_quick_to_be_slower_and_slow_to_be_faster() {
        let mut rates = measured(Timing::HOST_CLOCK, 1000, 1000);
        rates.learn(&[product(1000)], Duration::from_secs(3600));
        assert_close(&rates, product(1000), 8000.0);
        rates.learn(&[product(1000)], Duration::ZERO);
        assert_close(&rates, product(1000), 4000.0);
    }

    #[test]
    fn by_the_devices_events_the_last_measurement_is_the_rate() {
        let mut rates = measured(Timing::DEVICE_EVENTS, 1000, 1000);
        rates.learn(&[product(1000)], Duration::from_secs(3600));
        assert_close(&rates, product(1000), 3.6e9);
        rates.learn(&[product(2000)], Duration::from_micros(20));
        assert_close(&rates, product(1000), 10.0);
    }
}
