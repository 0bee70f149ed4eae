//! What a device's sensors showed during a challenge, in few numbers.

use std::collections::BTreeSet;
use std::fmt;

use serde::Serialize;

/// Distinct error codes that are kept of a device in one challenge: one that gives more is not to be believed.
pub const MAX_XIDS: usize = 16;

/// The least, the mean (rounded) and the largest of what was read: `min ≤ mean ≤ max`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Spread {
    /// The least.
    pub min: u32,
    /// The mean, to the nearest whole number.
    pub mean: u32,
    /// The largest.
    pub max: u32,
}

macro_rules! throttle_reasons {
    ($($variant:ident $name:literal $hinders:literal $about:literal;)*) => {
        /// Why clocks were lower than they could be.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[serde(rename_all = "snake_case")]
        pub enum ThrottleReason {
            $(#[doc = $about] $variant,)*
        }

        impl ThrottleReason {
            /// Every reason there is.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The stable name.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// Whether an operator should look into it: heat, or a power supply that gives too little. A device that
            /// idles, keeps to the clocks it was given or reaches its power limit is as it should be.
            #[must_use]
            pub const fn is_trouble(self) -> bool {
                match self { $(Self::$variant => $hinders,)* }
            }
        }
    };
}

throttle_reasons! {
    GpuIdle "gpu_idle" false "Nothing ran.";
    ApplicationsClocks "applications_clocks" false "Clocks were limited by a setting.";
    SwPowerCap "sw_power_cap" false "The power limit was reached.";
    HwSlowdown "hw_slowdown" true "The hardware halved its clocks: heat, or power.";
    SyncBoost "sync_boost" false "Another device of its group was slower.";
    SwThermal "sw_thermal" true "The driver lowered clocks for heat.";
    HwThermal "hw_thermal" true "The hardware halved its clocks for heat.";
    HwPowerBrake "hw_power_brake" true "The power supply asked for less.";
    DisplayClocks "display_clocks" false "Clocks were limited by a display.";
}

impl fmt::Display for ThrottleReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// One device's sensors over a challenge: all of it a claim, `None` where nothing was read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Telemetry {
    /// How often it was read.
    pub samples: u32,
    /// Degrees Celsius.
    pub temperature_c: Option<Spread>,
    /// What it drew.
    pub power_mw: Option<Spread>,
    /// The clock of its processors.
    pub sm_clock_mhz: Option<Spread>,
    /// The clock of its memory.
    pub memory_clock_mhz: Option<Spread>,
    /// In which part of the time something ran.
    pub gpu_utilisation_percent: Option<Spread>,
    /// In which part of the time memory was read or written.
    pub memory_utilisation_percent: Option<Spread>,
    /// The most memory that was in use.
    pub memory_used_max_bytes: Option<u64>,
    /// Every reason that clocks were lowered for at some moment.
    pub throttle_reasons: BTreeSet<ThrottleReason>,
    /// Memory errors meanwhile that were corrected.
    pub ecc_corrected: Option<u64>,
    /// Memory errors meanwhile that were not.
    pub ecc_uncorrected: Option<u64>,
    /// The driver's error codes meanwhile, at most [`MAX_XIDS`].
    pub xids: BTreeSet<u32>,
}

impl Telemetry {
    /// What an operator should look into, a sentence for each.
    #[must_use]
    pub fn troubles(&self) -> Vec<String> {
        let mut troubles = Vec::new();
        let reasons: Vec<_> = self.throttle_reasons.iter().filter(|r| r.is_trouble()).map(|r| r.name()).collect();
        if !reasons.is_empty() {
            troubles.push(format!("it was slowed down ({}): look at its cooling and its power", reasons.join(", ")));
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

/// One line for a log.
impl fmt::Display for Telemetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let spread = |spread: &Option<Spread>, scale: u32, unit: &str| {
            let Spread { min, mean, max } = spread.as_ref()?;
            let (min, mean, max) = (min / scale, mean / scale, max / scale);
            Some(if min == max { format!("{mean} {unit}") } else { format!("{mean} {unit} ({min}–{max})") })
        };
        let reasons: Vec<_> = self.throttle_reasons.iter().map(|reason| reason.name()).collect();
        let parts = [
            spread(&self.temperature_c, 1, "°C"),
            spread(&self.power_mw, 1000, "W"),
            spread(&self.sm_clock_mhz, 1, "MHz SM"),
            spread(&self.memory_clock_mhz, 1, "MHz memory"),
            spread(&self.gpu_utilisation_percent, 1, "% GPU"),
            spread(&self.memory_utilisation_percent, 1, "% memory"),
            self.memory_used_max_bytes.map(|bytes| format!("{} MiB in use", bytes >> 20)),
            (!reasons.is_empty()).then(|| format!("clocks held by {}", reasons.join(", "))),
            self.ecc_corrected.filter(|errors| *errors > 0).map(|errors| format!("memory errors corrected: {errors}")),
        ];
        write!(f, "{} sample{}", self.samples, if self.samples == 1 { "" } else { "s" })?;
        parts.into_iter().flatten().try_for_each(|part| write!(f, ", {part}"))
    }
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
            temperature_c: Some(Spread { min: 40, mean: 61, max: 66 }),
            power_mw: Some(Spread { min: 120_000, mean: 642_500, max: 700_999 }),
            sm_clock_mhz: Some(Spread { min: 1590, mean: 1590, max: 1590 }),
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
