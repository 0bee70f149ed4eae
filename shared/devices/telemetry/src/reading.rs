//! One reading of a device's sensors, and which of its values can be true.

use std::collections::BTreeSet;

use assay_protocol::claims::{
    MAX_CLOCK_MHZ, MAX_MEMORY_BYTES, MAX_PERCENT, MAX_POWER_MW, MAX_TEMPERATURE_C, MAX_XID, ThrottleReason,
};

macro_rules! reading {
    ($($(#[$about:meta])* $sensor:ident: $value:ty $(, max $max:expr)? =>
        $claim:ident: $claimed:ty, $summary:ty, $part:expr;)*) => {
        /// One reading of a device's sensors: `None` or empty where a sensor gave no value.
        #[derive(Debug, Clone, Default, PartialEq, Eq)]
        pub struct Reading {
            $($(#[$about])* pub $sensor: $value,)*
        }

        impl Reading {
            /// Removes the values that cannot be true, and counts them.
            pub fn plausible(mut self) -> (Self, u32) {
                let dropped = [$($(self.$sensor.drop_above($max),)?)*];
                (self, dropped.into_iter().sum())
            }
        }
    };
}

assay_protocol::for_each_sensor!(reading);

/// A sensor's values, to compare with a bound.
trait SensorValue<T> {
    /// Removes the values above `max`, and counts them.
    fn drop_above(&mut self, max: T) -> u32;
}

impl<T: PartialOrd> SensorValue<T> for Option<T> {
    fn drop_above(&mut self, max: T) -> u32 {
        self.take_if(|value| *value > max).is_some().into()
    }
}

impl<T: PartialOrd> SensorValue<T> for Vec<T> {
    fn drop_above(&mut self, max: T) -> u32 {
        let before = self.len();
        self.retain(|value| *value <= max);
        // A source gives few values at once.
        (before - self.len()) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_device_can_show_is_left_out() {
        let at_the_bounds = Reading {
            temperature_c: Some(MAX_TEMPERATURE_C),
            power_mw: Some(MAX_POWER_MW),
            sm_clock_mhz: Some(MAX_CLOCK_MHZ),
            memory_clock_mhz: Some(MAX_CLOCK_MHZ),
            gpu_utilisation_percent: Some(100),
            memory_utilisation_percent: Some(100),
            memory_used_bytes: Some(MAX_MEMORY_BYTES),
            xids: vec![79, MAX_XID],
            ecc_corrected: Some(u64::MAX),
            ..Reading::default()
        };
        assert_eq!(at_the_bounds.clone().plausible(), (at_the_bounds, 0));
        let beyond = Reading {
            temperature_c: Some(MAX_TEMPERATURE_C + 1),
            power_mw: Some(MAX_POWER_MW + 1),
            sm_clock_mhz: Some(MAX_CLOCK_MHZ + 1),
            memory_clock_mhz: Some(u32::MAX),
            gpu_utilisation_percent: Some(101),
            memory_utilisation_percent: Some(101),
            memory_used_bytes: Some(MAX_MEMORY_BYTES + 1),
            xids: vec![79, MAX_XID + 1, u64::MAX],
            ..Reading::default()
        };
        assert_eq!(beyond.plausible(), (Reading { xids: vec![79], ..Reading::default() }, 9));
    }
}
