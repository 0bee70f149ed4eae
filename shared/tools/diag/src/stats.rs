//! Figures of a series of rates: percentiles, and the drift from its beginning to its end.

use serde::Serialize;

/// The most points of a series. A longer one keeps every second, then every fourth, and so on.
const MAX_POINTS: usize = 32_768;
/// The fewest points with a drift: two in each quarter.
const MIN_DRIFT_POINTS: usize = 8;

/// Values over time, in bounded memory.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Seconds since the start, and the value.
    points: Vec<(f64, f64)>,
    /// One of `stride` values is kept.
    stride: u64,
    seen: u64,
}

impl Default for Series {
    fn default() -> Self {
        Self { points: Vec::new(), stride: 1, seen: 0 }
    }
}

impl Series {
    pub fn push(&mut self, at_s: f64, value: f64) {
        if self.seen.is_multiple_of(self.stride) {
            self.points.push((at_s, value));
        }
        self.seen += 1;
        if self.points.len() > MAX_POINTS {
            let mut index = 0;
            self.points.retain(|_| {
                index += 1;
                index % 2 == 1
            });
            self.stride *= 2;
        }
    }

    pub fn points(&self) -> &[(f64, f64)] {
        &self.points
    }

    /// Number of values, those not kept included.
    pub const fn seen(&self) -> u64 {
        self.seen
    }

    /// At most `most` of the points, evenly taken, the last one among them.
    pub fn thinned(&self, most: usize) -> Vec<(f64, f64)> {
        let step = self.points.len().div_ceil(most.max(1)).max(1);
        let mut thinned: Vec<_> = self.points.iter().rev().step_by(step).copied().collect();
        thinned.reverse();
        thinned
    }

    /// The figures; `None` without a value.
    pub fn figures(&self) -> Option<Figures> {
        let mut values: Vec<f64> = self.points.iter().map(|point| point.1).collect();
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        Some(Figures {
            samples: self.seen,
            p50: reached_by(&values, 50),
            p95: reached_by(&values, 95),
            p99: reached_by(&values, 99),
            min,
            max,
            drift_percent: self.drift_percent(),
        })
    }

    /// The percentage by which the last quarter is faster than the first, by their medians; `None` for few points. A
    /// negative drift is a device that slows down.
    pub fn drift_percent(&self) -> Option<f64> {
        if self.points.len() < MIN_DRIFT_POINTS {
            return None;
        }
        let quarter = self.points.len() / 4;
        let values = |points: &[(f64, f64)]| points.iter().map(|point| point.1).collect::<Vec<_>>();
        let first = median(values(&self.points[..quarter]))?;
        let last = median(values(&self.points[self.points.len() - quarter..]))?;
        (first > 0.0).then(|| 100.0 * (last / first - 1.0))
    }
}

/// Figures of a series of rates. P95 is the rate that 95 % of the samples reached: for rates the slow ones are of
/// interest.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Figures {
    /// Number of values.
    pub samples: u64,
    pub p50: f64,
    /// The value that 95 % of the values reached.
    pub p95: f64,
    /// The value that 99 % of the values reached.
    pub p99: f64,
    pub min: f64,
    pub max: f64,
    /// The last quarter over the first, in percent; negative where the device slowed down.
    pub drift_percent: Option<f64>,
}

/// The largest of `sorted` values, the least first, that at least `percent` of them reach.
fn reached_by(sorted: &[f64], percent: usize) -> f64 {
    let below = sorted.len() * (100 - percent) / 100;
    sorted.get(below.min(sorted.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
}

/// The middle value; of an even number the mean of both. `None` without a value.
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(values[middle]),
        _ => Some(f64::midpoint(values[middle - 1], values[middle])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(values: impl IntoIterator<Item = f64>) -> Series {
        let mut series = Series::default();
        values.into_iter().enumerate().for_each(|(at, value)| series.push(at as f64, value));
        series
    }

    #[test]
    fn percentiles_are_what_so_many_samples_reached() {
        let figures = series((1..=100).rev().map(f64::from)).figures().unwrap();
        assert_eq!((figures.samples, figures.min, figures.max), (100, 1.0, 100.0));
        assert_eq!((figures.p50, figures.p95, figures.p99), (51.0, 6.0, 2.0));
        // One slow pass among few: P95 and P99 are it.
        let figures = series([9.0, 9.0, 9.0, 1.0]).figures().unwrap();
        assert_eq!((figures.p50, figures.p95, figures.p99, figures.min), (9.0, 1.0, 1.0, 1.0));
        let one = series([4.0]).figures().unwrap();
        assert_eq!((one.p50, one.p99, one.drift_percent), (4.0, 4.0, None));
        assert_eq!(series([]).figures(), None);
    }

    #[test]
    fn drift_compares_the_quarters_and_heeds_no_single_pass() {
        let slowing = (0..40).map(|i| if i < 20 { 100.0 } else { 80.0 });
        assert!((series(slowing).drift_percent().unwrap() + 20.0).abs() < 1e-9);
        let hiccup = (0..40).map(|i| if i == 39 || i == 0 { 1.0 } else { 100.0 });
        assert_eq!(series(hiccup).drift_percent(), Some(0.0));
        let faster = (0..8).map(|i| if i < 2 { 50.0 } else { 100.0 });
        assert_eq!(series(faster).drift_percent(), Some(100.0));
        assert_eq!(series([1.0; 7]).drift_percent(), None);
    }

    #[test]
    fn a_long_series_keeps_its_shape_in_bounded_memory() {
        let count = 4 * MAX_POINTS + 3;
        let long = series((0..count).map(|i| if i < count / 2 { 10.0 } else { 5.0 }));
        assert!(long.points().len() <= MAX_POINTS);
        assert_eq!(long.seen(), count as u64);
        assert_eq!(long.drift_percent(), Some(-50.0));
        let thinned = long.thinned(100);
        assert!(thinned.len() <= 100 && thinned.last() == long.points().last());
        assert!(long.points().windows(2).all(|pair| pair[0].0 < pair[1].0));
    }

    #[test]
    fn the_middle_of_two_is_their_mean() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![3.0, 1.0]), Some(2.0));
        assert_eq!(median(vec![3.0, 1.0, 9.0]), Some(3.0));
    }
}
