//! Readings of one device summarised one by one, in constant space.

use std::collections::BTreeSet;

use super::reading::Reading;
use assay_protocol::claims::{MAX_THROTTLE_REASONS, MAX_XIDS, SensorSpread, Telemetry};

macro_rules! collector {
    ($($(#[$about:meta])* $sensor:ident: $value:ty $(, max $max:expr)? =>
        $claim:ident: $claimed:ty, $summary:ty, $part:expr;)*) => {
        /// The state that the summary of each sensor keeps.
        #[derive(Debug, Clone, Default)]
        struct Summaries {
            $($sensor: $summary,)*
        }

        impl Summaries {
            fn add(&mut self, reading: Reading, telemetry: &mut Telemetry) {
                $(self.$sensor.add(reading.$sensor, &mut telemetry.$claim);)*
            }
        }
    };
}

assay_protocol::for_each_sensor!(collector);

/// Summarises the readings of one device.
#[derive(Debug, Clone, Default)]
pub struct TelemetryCollector {
    telemetry: Telemetry,
    summaries: Summaries,
    dropped: u32,
}

impl TelemetryCollector {
    /// Adds a reading, without the values that cannot be true.
    pub fn add(&mut self, reading: Reading) {
        let (reading, dropped) = reading.plausible();
        self.summaries.add(reading, &mut self.telemetry);
        self.telemetry.samples = self.telemetry.samples.saturating_add(1);
        self.dropped = self.dropped.saturating_add(dropped);
    }

    /// The summary of all readings so far.
    pub const fn summary(&self) -> &Telemetry {
        &self.telemetry
    }

    /// The number of values that could not be true.
    pub const fn dropped(&self) -> u32 {
        self.dropped
    }
}

/// The mean with the least and the largest value.
#[derive(Debug, Clone, Default)]
struct Mean {
    sum: u64,
    count: u64,
}

impl Mean {
    fn add(&mut self, value: Option<u32>, spread: &mut Option<SensorSpread>) {
        let Some(value) = value else { return };
        // 2³² readings of 2³² each fit: 34 years of four a second.
        self.sum += u64::from(value);
        self.count += 1;
        // The mean of 32-bit values has 32 bits.
        let mean = ((self.sum + self.count / 2) / self.count) as u32;
        *spread = Some(match *spread {
            None => SensorSpread { min: value, mean, max: value },
            Some(SensorSpread { min, max, .. }) => SensorSpread { min: min.min(value), mean, max: max.max(value) },
        });
    }
}

#[derive(Debug, Clone, Default)]
struct Largest;

impl Largest {
    fn add(&self, value: Option<u64>, largest: &mut Option<u64>) {
        *largest = value.max(*largest);
    }
}

/// The increase of a counter since its first reading. A counter that decreases was reset and counts on from there.
#[derive(Debug, Clone, Default)]
struct Increase {
    last: Option<u64>,
}

impl Increase {
    fn add(&mut self, value: Option<u64>, increase: &mut Option<u64>) {
        let Some(value) = value else { return };
        let step = self.last.map_or(0, |last| value.saturating_sub(last));
        *increase = Some(increase.unwrap_or(0).saturating_add(step));
        self.last = Some(value);
    }
}

/// Every distinct value, up to `MAX` of them.
#[derive(Debug, Clone, Default)]
struct Union<const MAX: usize>;

impl<const MAX: usize> Union<MAX> {
    fn add<T, U: TryFrom<T> + Ord>(&self, values: impl IntoIterator<Item = T>, union: &mut BTreeSet<U>) {
        for value in values.into_iter().filter_map(|value| U::try_from(value).ok()) {
            if union.len() < MAX {
                union.insert(value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use assay_protocol::claims::ThrottleReason;

    fn collected(readings: impl IntoIterator<Item = Reading>) -> TelemetryCollector {
        let mut collector = TelemetryCollector::default();
        readings.into_iter().for_each(|reading| collector.add(reading));
        collector
    }

    #[test]
    fn nothing_read_is_nothing_known() {
        assert_eq!(collected([]).summary(), &Telemetry::default());
        let silent = collected([Reading::default(), Reading::default()]);
        assert_eq!(silent.summary(), &Telemetry { samples: 2, ..Telemetry::default() });
    }

    #[test]
    fn a_spread_has_the_least_the_rounded_mean_and_the_largest() {
        let of = |values: &[u32]| {
            let reading = |value: &u32| Reading { power_mw: Some(*value), ..Reading::default() };
            collected(values.iter().map(reading)).summary().power_mw.unwrap()
        };
        assert_eq!(of(&[5]), SensorSpread { min: 5, mean: 5, max: 5 });
        assert_eq!(of(&[3, 1, 2]), SensorSpread { min: 1, mean: 2, max: 3 });
        // 2.5 is rounded up, 1.25 down, 1.75 up.
        assert_eq!(of(&[2, 3]).mean, 3);
        assert_eq!(of(&[1, 1, 1, 2]).mean, 1);
        assert_eq!(of(&[1, 2, 2, 2]).mean, 2);
    }

    #[test]
    fn a_mean_is_over_what_was_read() {
        let hot = Reading { temperature_c: Some(80), sm_clock_mhz: Some(1000), ..Reading::default() };
        let cold = Reading { temperature_c: Some(40), ..Reading::default() };
        let collector = collected([hot, Reading::default(), cold]);
        let summary = collector.summary();
        assert_eq!(summary.temperature_c, Some(SensorSpread { min: 40, mean: 60, max: 80 }));
        assert_eq!(summary.sm_clock_mhz, Some(SensorSpread { min: 1000, mean: 1000, max: 1000 }));
        assert_eq!((summary.samples, summary.memory_clock_mhz), (3, None));
    }

    #[test]
    fn each_sensor_has_its_place() {
        let reading = Reading {
            temperature_c: Some(1),
            power_mw: Some(2),
            sm_clock_mhz: Some(3),
            memory_clock_mhz: Some(4),
            gpu_utilisation_percent: Some(5),
            memory_utilisation_percent: Some(6),
            memory_used_bytes: Some(7),
            ..Reading::default()
        };
        let only = |value| Some(SensorSpread { min: value, mean: value, max: value });
        let expected = Telemetry {
            samples: 1,
            temperature_c: only(1),
            power_mw: only(2),
            sm_clock_mhz: only(3),
            memory_clock_mhz: only(4),
            gpu_utilisation_percent: only(5),
            memory_utilisation_percent: only(6),
            memory_used_max_bytes: Some(7),
            ..Telemetry::default()
        };
        assert_eq!(collected([reading]).summary(), &expected);
    }

    #[test]
    fn errors_count_from_the_first_reading() {
        let of = |values: &[Option<u64>]| {
            let reading = |value: &Option<u64>| Reading { ecc_uncorrected: *value, ..Reading::default() };
            collected(values.iter().map(reading)).summary().ecc_uncorrected
        };
        assert_eq!(of(&[None, None]), None);
        assert_eq!(of(&[Some(1000)]), Some(0));
        assert_eq!(of(&[Some(1000), None, Some(1003), Some(1004)]), Some(4));
        // A reset in between loses neither the errors before it nor those after it.
        assert_eq!(of(&[Some(10), Some(12), Some(0), Some(1)]), Some(3));
        assert_eq!(of(&[Some(0), Some(u64::MAX), Some(0), Some(u64::MAX)]), Some(u64::MAX));
    }

    #[test]
    fn reasons_and_codes_are_kept_once_and_codes_up_to_their_bound() {
        let reading =
            |reason, xids: Vec<u64>| Reading { throttle_reasons: [reason].into(), xids, ..Reading::default() };
        let collector = collected([
            reading(ThrottleReason::SwThermal, vec![79, 13]),
            reading(ThrottleReason::GpuIdle, vec![13, u64::MAX]),
            reading(ThrottleReason::SwThermal, vec![]),
        ]);
        let summary = collector.summary();
        assert_eq!(summary.throttle_reasons, [ThrottleReason::GpuIdle, ThrottleReason::SwThermal].into());
        assert_eq!(summary.xids, [13, 79].into());
        assert_eq!(collector.dropped(), 1);
        let many = collected((0..100).map(|xid| reading(ThrottleReason::GpuIdle, vec![xid])));
        assert_eq!(many.summary().xids.len(), MAX_XIDS);
    }

    /// A reading that cannot be true changes neither the least, the mean nor the largest.
    #[test]
    fn a_lie_does_not_enter() {
        let reading = |value| Reading { temperature_c: Some(value), ..Reading::default() };
        let collector = collected([reading(50), reading(4_000_000_000), reading(52)]);
        assert_eq!(collector.summary().temperature_c, Some(SensorSpread { min: 50, mean: 51, max: 52 }));
        assert_eq!((collector.summary().samples, collector.dropped()), (3, 1));
    }
}
