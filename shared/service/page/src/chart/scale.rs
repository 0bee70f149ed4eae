//! From a figure to its place in a chart.

/// Steps of an axis, at most.
const STEPS: f64 = 4.0;

/// Bound of the round figures of an axis, despite rounding errors.
const MAX_TICKS: usize = 12;

#[derive(Debug, Clone, Copy)]
pub(super) struct Scale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Scale {
    /// Figures from `low` to `high` lie between the places `from` and `to`. One figure alone lies in the middle.
    pub(super) fn new(low: f64, high: f64, from: f64, to: f64) -> Self {
        if high > low { Self { low, high, from, to } } else { Self { low: low - 1.0, high: low + 1.0, from, to } }
    }

    /// Figures from zero up to a round one that is not less than `most`.
    pub(super) fn from_zero(most: f64, from: f64, to: f64) -> Self {
        // Beyond this a round figure above it would be infinite.
        let most = most.min(1e300);
        let step = step(most);
        let high = (most / step).ceil() * step;
        Self::new(0.0, if high > 0.0 { high } else { 1.0 }, from, to)
    }

    /// The place of a figure, to a tenth; a figure beyond the scale lies at its end.
    pub(super) fn at(&self, value: f64) -> f64 {
        let share = ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0);
        ((self.from + share * (self.to - self.from)) * 10.0).round() / 10.0
    }

    /// Round figures, from the lowest to the highest.
    pub(super) fn ticks(&self) -> impl Iterator<Item = f64> {
        let (low, high) = (self.low, self.high);
        let step = step(high - low);
        (0_u8..)
            .map(move |tick| low + f64::from(tick) * step)
            .take_while(move |value| *value <= high + step / 1e3)
            .take(MAX_TICKS)
    }
}

/// The round step that divides a length into few parts.
fn step(length: f64) -> f64 {
    if !(length.is_finite() && length > 0.0) {
        return 1.0;
    }
    let rough = length / STEPS;
    let power = 10_f64.powf(rough.log10().floor());
    let times = [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().find(|times| times * power >= rough * 0.999);
    times.unwrap_or(10.0) * power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_have_round_steps_from_zero_on() {
        for (most, ticks) in [
            (1979.0, &[0.0, 500.0, 1000.0, 1500.0, 2000.0][..]),
            (0.37, &[0.0, 0.1, 0.2, 0.3, 0.4]),
            (88.0, &[0.0, 25.0, 50.0, 75.0, 100.0]),
            (0.0, &[0.0, 0.25, 0.5, 0.75, 1.0]),
        ] {
            let scale = Scale::from_zero(most, 100.0, 0.0);
            let shown: Vec<_> = scale.ticks().collect();
            assert_eq!(shown.len(), ticks.len(), "{most}: {shown:?}");
            assert!(shown.iter().zip(ticks).all(|(shown, tick)| (shown - tick).abs() < 1e-9), "{most}: {shown:?}");
        }
    }

    #[test]
    fn figures_lie_between_the_ends_whatever_they_are() {
        let scale = Scale::from_zero(100.0, 100.0, 0.0);
        assert_eq!([0.0, 50.0, 100.0].map(|value| scale.at(value)), [100.0, 50.0, 0.0]);
        assert_eq!((scale.at(f64::INFINITY), scale.at(-5.0)), (0.0, 100.0));
        assert_eq!(Scale::new(7.0, 7.0, 0.0, 10.0).at(7.0), 5.0);
        for most in [f64::MIN_POSITIVE, 1e-300, 1e300, f64::MAX] {
            let ticks = Scale::from_zero(most, 100.0, 0.0).ticks().take(99).count();
            assert!((1..=12).contains(&ticks), "{most}: {ticks}");
        }
    }
}
