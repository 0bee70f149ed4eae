//! Measuring one stage of the work alone, beside the device's own limits and the vendor's library.
//!
//! Nothing here is part of a challenge: a device that can be measured says so by [`Device::measured`], and the
//! miner's `bench` command asks. What is compared is measured in turn in the same run, since clocks drift.
//!
//! [`Device::measured`]: super::device::Device::measured

use std::time::Duration;

use super::error::DeviceError;

/// Steps of each walk of the probe that is measured.
pub const PROBE_STEPS: u32 = 64;
/// Bytes of a state of a walk.
const STATE_BYTES: u64 = 64;
/// States are at most this part of the slots, as a policy asks.
const SLOTS_PER_STATES: u64 = 8;

/// What to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// Products with their mixing, without leaves and digests.
    Product,
    /// A whole pass: leaves, products, digests.
    Pass,
    /// Keystream into slots.
    Leaves,
    /// BLAKE3 of slots.
    Digests,
    /// A round of the residency probe over all slots.
    Probe,
    /// A copy from pinned host memory.
    HostToDevice,
    /// A copy to pinned host memory.
    DeviceToHost,
    /// A copy within the device; bytes read and bytes written both count.
    DeviceCopy,
    /// The vendor library's own INT8 product, int32 results written out.
    Peer,
}

impl Stage {
    /// All stages.
    pub const ALL: [Self; 9] = [
        Self::Product,
        Self::Pass,
        Self::Leaves,
        Self::Digests,
        Self::Probe,
        Self::HostToDevice,
        Self::DeviceToHost,
        Self::DeviceCopy,
        Self::Peer,
    ];

    /// Whether the rate is in operations (products), else in bytes.
    #[must_use]
    pub const fn counts_operations(self) -> bool {
        matches!(self, Self::Product | Self::Pass | Self::Peer)
    }

    /// Whether it matters which product kernel is chosen.
    #[must_use]
    pub const fn depends_on_kernel(self) -> bool {
        matches!(self, Self::Product | Self::Pass)
    }

    /// Whether the size of the matrices matters.
    #[must_use]
    pub const fn depends_on_n(self) -> bool {
        !matches!(self, Self::HostToDevice | Self::DeviceToHost | Self::DeviceCopy)
    }
}

/// One measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// How long it took, by the device's own clock where it has one.
    pub elapsed: Duration,
    /// Multiplications and additions done, two for each multiply-accumulate; 0 where bytes are counted.
    pub operations: u128,
    /// Bytes written, hashed, read or copied.
    pub bytes: u64,
}

impl Sample {
    /// Operations a second, or bytes a second where no operations were counted.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a rate to a few digits")]
    pub fn rate(&self) -> f64 {
        let amount = if self.operations > 0 { self.operations as f64 } else { self.bytes as f64 };
        amount / self.elapsed.as_secs_f64()
    }
}

/// What a device could reach at most, as far as that is known.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Limits {
    /// INT8 operations a second, dense.
    pub operations_per_s: Option<f64>,
    /// Bytes a second of the device's memory.
    pub bytes_per_s: Option<f64>,
    /// Where these figures come from.
    pub source: String,
}

/// The walks of the probe that is measured over so many bytes of slots on a GPU: as many as a policy would ask for.
#[must_use]
pub fn walks_over(slots_bytes: u64) -> u32 {
    const LEAST: u64 = 64;
    const MOST: u64 = 1 << 22;
    let most = (slots_bytes / SLOTS_PER_STATES / STATE_BYTES).clamp(LEAST, MOST);
    1 << most.ilog2()
}

/// A device whose stages can be measured one by one.
pub trait Measured {
    /// The product kernels that this device runs, the one that it would choose first.
    fn kernels(&self) -> Vec<String>;

    /// The device's limits. May take a second: some are measured.
    fn limits(&mut self) -> Limits;

    /// What [`Stage::Peer`] measures, or why it cannot.
    ///
    /// # Errors
    /// One sentence.
    fn peer(&self) -> Result<String, String>;

    /// Makes `count` n-by-n slots resident, of random bytes.
    ///
    /// # Errors
    /// As [`Device::fill`](super::device::Device::fill).
    fn prepare(&mut self, n: u32, count: u32) -> Result<(), DeviceError>;

    /// Does a stage `repeats` times over what was prepared, and nothing else meanwhile. For products, passes and
    /// peers one repeat is one product, one pass and one product.
    ///
    /// # Errors
    /// Any [`DeviceError`]; [`DeviceError::Unsupported`] for a stage that this device has not.
    fn sample(&mut self, stage: Stage, kernel: &str, repeats: u32) -> Result<Sample, DeviceError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn walks_are_a_power_of_two_that_a_policy_allows() {
        assert_eq!(walks_over(1 << 30), 1 << 21);
        assert_eq!(walks_over((1 << 30) - 1), 1 << 20);
        assert_eq!(walks_over(1), 64);
        assert_eq!(walks_over(u64::MAX), 1 << 22);
    }
}
