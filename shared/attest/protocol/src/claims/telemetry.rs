//! A device's sensors during a challenge, summarised.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

/// The least, the mean and the largest of several readings: `min ≤ mean ≤ max`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = Spread))]
pub struct SensorSpread {
    /// The least.
    pub min: u32,
    /// The mean, rounded to the nearest whole number.
    pub mean: u32,
    /// The largest.
    pub max: u32,
}

assay_work::names! {
    /// Why clocks were reduced, in order of the codes.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
    #[serde(rename_all = "snake_case")]
    pub enum ThrottleReason {
        /// No kernel ran.
        GpuIdle = "gpu_idle",
        /// A setting limited the clocks.
        ApplicationsClocks = "applications_clocks",
        /// The power limit was reached.
        SwPowerCap = "sw_power_cap",
        /// The hardware halved the clocks because of heat or power.
        HwSlowdown = "hw_slowdown",
        /// Another device of the sync-boost group was slower.
        SyncBoost = "sync_boost",
        /// The driver reduced the clocks because of heat.
        SwThermal = "sw_thermal",
        /// The hardware halved the clocks because of heat.
        HwThermal = "hw_thermal",
        /// The power supply requested a reduction.
        HwPowerBrake = "hw_power_brake",
        /// A display limited the clocks.
        DisplayClocks = "display_clocks",
    }
}

impl ThrottleReason {
    /// Whether an operator should investigate it: heat, or an insufficient power supply. A device that idles, keeps to
    /// configured clocks or reaches its power limit works as intended.
    #[must_use]
    pub const fn is_trouble(self) -> bool {
        matches!(self, Self::HwSlowdown | Self::SwThermal | Self::HwThermal | Self::HwPowerBrake)
    }
}

macro_rules! telemetry {
    ($($(#[$about:meta])* $reading:ident: $value:ty $(, max $max:expr)? =>
        $claim:ident: $claimed:ty, $summary:ty, $part:expr;)*) => {
        /// One device's sensors over a challenge: all of it a claim; `None` or empty where nothing was read.
        #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
        pub struct Telemetry {
            /// Number of readings.
            pub samples: u32,
            $($(#[$about])* pub $claim: $claimed,)*
        }

        /// One line for a log.
        impl fmt::Display for Telemetry {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{} sample{}", self.samples, if self.samples == 1 { "" } else { "s" })?;
                let parts: [Option<String>; _] = [$($part(&self.$claim)),*];
                parts.into_iter().flatten().try_for_each(|part| write!(f, ", {part}"))
            }
        }
    };
}

crate::for_each_sensor!(telemetry);

impl Telemetry {
    /// Findings for an operator to investigate, one sentence each.
    pub fn troubles(&self) -> Vec<String> {
        let mut troubles = Vec::new();
        let reasons: Vec<_> = self.throttle_reasons.iter().filter(|r| r.is_trouble()).map(|r| r.name()).collect();
        if !reasons.is_empty() {
            troubles.push(format!("it was slowed down ({}): check its cooling and power supply", reasons.join(", ")));
        }
        if let Some(errors) = self.ecc_uncorrected.filter(|errors| *errors > 0) {
            troubles.push(format!("memory errors that could not be corrected: {errors}; have the device checked"));
        }
        if !self.xids.is_empty() {
            let codes: Vec<_> = self.xids.iter().map(u32::to_string).collect();
            troubles.push(format!("the driver reported XID {}: see the kernel's log", codes.join(", ")));
        }
        troubles
    }
}

/// "61 °C (40–66)", each number divided by `scale`.
fn spread(scale: u32, unit: &str) -> impl Fn(&Option<SensorSpread>) -> Option<String> {
    move |claim| {
        let SensorSpread { min, mean, max } = (*claim)?;
        let (min, mean, max) = (min / scale, mean / scale, max / scale);
        Some(if min == max { format!("{mean} {unit}") } else { format!("{mean} {unit} ({min}–{max})") })
    }
}

/// "3072 MiB in use".
fn mebibytes(text: &str) -> impl Fn(&Option<u64>) -> Option<String> {
    move |bytes| bytes.map(|bytes| format!("{} MiB {text}", bytes >> 20))
}

/// "clocks held by sw_power_cap, sw_thermal".
fn reasons(text: &str) -> impl Fn(&BTreeSet<ThrottleReason>) -> Option<String> {
    move |reasons| {
        let names: Vec<_> = reasons.iter().map(|reason| reason.name()).collect();
        (!names.is_empty()).then(|| format!("{text} {}", names.join(", ")))
    }
}

/// "memory errors corrected: 9".
fn errors(text: &str) -> impl Fn(&Option<u64>) -> Option<String> {
    move |errors| errors.filter(|errors| *errors > 0).map(|errors| format!("{text}: {errors}"))
}

/// No part of the line: [`Telemetry::troubles`] has a sentence for it.
fn no_part<T>() -> impl Fn(&T) -> Option<String> {
    |_| None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_json() {
        for reason in ThrottleReason::ALL {
            assert_eq!(serde_json::to_value(reason).unwrap(), reason.name());
        }
    }

    #[test]
    fn a_line_says_what_was_read_and_nothing_else() {
        let telemetry = Telemetry {
            samples: 12,
            temperature_c: Some(SensorSpread { min: 40, mean: 61, max: 66 }),
            power_mw: Some(SensorSpread { min: 120_000, mean: 642_500, max: 700_999 }),
            sm_clock_mhz: Some(SensorSpread { min: 1590, mean: 1590, max: 1590 }),
            memory_used_max_bytes: Some(3 << 30),
            throttle_reasons: [ThrottleReason::SwPowerCap].into(),
            ecc_corrected: Some(0),
            ..Telemetry::default()
        };
        let line =
            "12 samples, 61 °C (40–66), 642 W (120–700), 1590 MHz SM, 3072 MiB in use, clocks held by sw_power_cap";
        assert_eq!(telemetry.to_string(), line);
        assert_eq!(Telemetry::default().to_string(), "0 samples");
    }

    #[test]
    fn only_what_an_operator_can_mend_is_trouble() {
        let at_its_limit = [ThrottleReason::SwPowerCap, ThrottleReason::GpuIdle, ThrottleReason::SyncBoost];
        let fine = Telemetry {
            throttle_reasons: at_its_limit.into(),
            ecc_uncorrected: Some(0),
            ecc_corrected: Some(9),
            ..Telemetry::default()
        };
        assert_eq!(fine.troubles(), Vec::<String>::new());
        let hot = Telemetry {
            throttle_reasons: [ThrottleReason::HwThermal, ThrottleReason::SwThermal].into(),
            ecc_uncorrected: Some(2),
            xids: [79, 48].into(),
            ..Telemetry::default()
        };
        let [slow, memory, xid] = &hot.troubles()[..] else { panic!("{:?}", hot.troubles()) };
        assert!(slow.contains("sw_thermal, hw_thermal"), "{slow}");
        assert!(memory.contains("could not be corrected: 2;"), "{memory}");
        assert!(xid.contains("XID 48, 79"), "{xid}");
    }
}
