//! One look at a device's sensors, and which of them can be true.

use std::collections::BTreeSet;

use assay_protocol::claims::ThrottleReason;

/// Degrees of the hottest device: silicon is gone well before.
const MAX_TEMPERATURE_C: u32 = 200;
/// Milliwatts of the hungriest device: 10 kW, several times any board's.
pub(super) const MAX_POWER_MW: u32 = 10_000_000;
/// MHz of the fastest clock: several times any memory's.
const MAX_CLOCK_MHZ: u32 = 50_000;
/// Percent of the time.
const MAX_PERCENT: u32 = 100;
/// Bytes of the largest device: 16 TiB, tens of times any board's.
pub(super) const MAX_MEMORY_BYTES: u64 = 16 << 40;
/// The highest of the driver's error codes: there are fewer than 200.
const MAX_XID: u64 = u16::MAX as u64;

/// One look at a device's sensors: `None` where one gave nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reading {
    /// Degrees Celsius.
    pub temperature_c: Option<u32>,
    /// What it draws.
    pub power_mw: Option<u32>,
    /// The clock of its processors.
    pub sm_clock_mhz: Option<u32>,
    /// The clock of its memory.
    pub memory_clock_mhz: Option<u32>,
    /// In which part of the last moments something ran.
    pub gpu_utilisation_percent: Option<u32>,
    /// In which part of the last moments memory was read or written.
    pub memory_utilisation_percent: Option<u32>,
    /// Memory in use.
    pub memory_used_bytes: Option<u64>,
    /// Why clocks are lower than they could be.
    pub throttle_reasons: BTreeSet<ThrottleReason>,
    /// Memory errors corrected since some moment before.
    pub ecc_corrected: Option<u64>,
    /// Memory errors not corrected since some moment before.
    pub ecc_uncorrected: Option<u64>,
    /// The driver's error codes since the work began, each once.
    pub xids: Vec<u64>,
}

impl Reading {
    /// The reading without what no device can show, and how many values that were.
    #[must_use]
    pub fn plausible(mut self) -> (Self, u32) {
        let mut dropped = 0;
        keep(&mut self.temperature_c, MAX_TEMPERATURE_C, &mut dropped);
        keep(&mut self.power_mw, MAX_POWER_MW, &mut dropped);
        keep(&mut self.sm_clock_mhz, MAX_CLOCK_MHZ, &mut dropped);
        keep(&mut self.memory_clock_mhz, MAX_CLOCK_MHZ, &mut dropped);
        keep(&mut self.gpu_utilisation_percent, MAX_PERCENT, &mut dropped);
        keep(&mut self.memory_utilisation_percent, MAX_PERCENT, &mut dropped);
        keep(&mut self.memory_used_bytes, MAX_MEMORY_BYTES, &mut dropped);
        let codes = self.xids.len();
        self.xids.retain(|xid| *xid <= MAX_XID);
        // A source gives a bounded number of codes at once.
        dropped += (codes - self.xids.len()) as u32;
        (self, dropped)
    }
}

fn keep<T: PartialOrd>(value: &mut Option<T>, max: T, dropped: &mut u32) {
    if value.take_if(|value| *value > max).is_some() {
        *dropped += 1;
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
