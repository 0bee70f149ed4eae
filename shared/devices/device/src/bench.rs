//! The contract of a benchmark: one stage of the work alone, beside the device's peak rates and the vendor's library.
//!
//! No challenge uses it. A benchmark owns its device and drives it in its own process.

use std::time::{Duration, Instant};

use assay_work::{PassKey, Precision, RoundKey};

use crate::{Device, DeviceError, Handle, Pass, ProbeRound, SweepRound};

/// The key of every pass that is measured.
pub const KEY: PassKey = PassKey([7; 32]);
/// Steps of each walk of the probe.
pub const PROBE_STEPS: u32 = 64;
/// Bytes of a state of a walk, and of a line that a step reads.
const STATE_BYTES: u64 = 64;
/// States are at most this part of the slots, as a policy asks.
const SLOTS_PER_STATES: u64 = 8;

assay_work::names! {
    /// A measured stage, in the order of a round: the peer next to the product, at the same clock and temperature.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum BenchStage {
        /// Products with their mixing, without leaves and digests.
        Product = "product",
        /// The vendor library's own product of a kind of work, sums of 32 bits written out.
        Peer = "peer",
        /// A whole pass: leaves, products, digests.
        Pass = "pass",
        /// Keystream into the two leaves.
        Leaves = "leaves (ChaCha8)",
        /// BLAKE3 of all slots.
        Digests = "digests (BLAKE3)",
        /// A round of the residency probe over all slots.
        Probe = "probe (random lines)",
        /// A round of the sweep over all slots.
        Sweep = "sweep (all rows)",
        /// A copy from pinned host memory.
        HostToDevice = "host to device",
        /// A copy to pinned host memory.
        DeviceToHost = "device to host",
        /// A copy within the device; bytes read and bytes written both count.
        DeviceCopy = "copy on the device",
    }
}

impl BenchStage {
    /// Whether the rate is in operations (products), else in bytes.
    pub const fn counts_operations(self) -> bool {
        matches!(self, Self::Product | Self::Pass | Self::Peer)
    }

    /// Whether the product kernel changes the rate.
    pub const fn depends_on_kernel(self) -> bool {
        matches!(self, Self::Product | Self::Pass)
    }

    /// Whether the kind of work changes the rate.
    pub const fn depends_on_kind(self) -> bool {
        matches!(self, Self::Product | Self::Peer | Self::Pass)
    }

    /// Whether the matrix size changes the rate.
    pub const fn depends_on_n(self) -> bool {
        !matches!(self, Self::HostToDevice | Self::DeviceToHost | Self::DeviceCopy)
    }

    /// The measurement of a GPU's `repeats` repeats over the slots of `pass`, one product, pass, round or copy each. A
    /// copy has `copy_bytes`.
    pub fn measurement(self, pass: &Pass, copy_bytes: u64, repeats: u32, elapsed: Duration) -> Measurement {
        let (operations, bytes) = match self {
            Self::Product | Self::Peer => (product_operations(pass.precision, pass.n), 0),
            Self::Pass => (u128::from(pass.count - 2) * product_operations(pass.precision, pass.n), 0),
            Self::Leaves => (0, 2 * pass.slot_bytes()),
            Self::Digests | Self::Sweep => (0, pass.bytes()),
            Self::Probe => (0, round_bytes(walks_over(pass.bytes()))),
            Self::HostToDevice | Self::DeviceToHost => (0, copy_bytes),
            Self::DeviceCopy => (0, 2 * copy_bytes),
        };
        Measurement { elapsed, operations: operations * u128::from(repeats), bytes: bytes * u64::from(repeats) }
    }
}

/// The work done in one sample, and its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Measurement {
    /// How long it took, by the device's own clock where it has one.
    pub elapsed: Duration,
    /// Multiplications and additions, two for each multiply-accumulate; 0 where bytes are counted.
    pub operations: u128,
    /// Bytes written, hashed, read or copied.
    pub bytes: u64,
}

impl Measurement {
    /// Operations a second, or bytes a second where no operations were counted.
    #[expect(clippy::cast_precision_loss, reason = "a rate to a few digits")]
    pub fn rate_per_s(&self) -> f64 {
        let amount = if self.operations > 0 { self.operations as f64 } else { self.bytes as f64 };
        amount / self.elapsed.as_secs_f64()
    }
}

/// The most that a device could reach, as far as that is known.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct PeakRates {
    /// INT8 operations a second, dense.
    pub operations_per_s: Option<f64>,
    /// Bytes a second of the device's memory.
    pub bytes_per_s: Option<f64>,
    /// Where these figures come from.
    pub source: String,
}

/// A device whose stages are measured one by one. It gives all memory back as it is dropped.
pub trait Bench {
    fn device(&mut self) -> &mut dyn Device;

    /// The product kernels that this device runs for a kind of work, the one that it would choose first.
    fn kernels(&self, precision: Precision) -> Vec<String>;

    /// The device's peak rates. May take a second: some are measured.
    fn peak_rates(&mut self) -> PeakRates;

    /// The most operations a second that products of a kind of work could reach, where that is known. May take a second.
    fn operations_limit(&mut self, precision: Precision) -> Option<f64> {
        if precision == Precision::Int8 { self.peak_rates().operations_per_s } else { None }
    }

    /// The library and operands of [`BenchStage::Peer`] for a kind of work.
    ///
    /// # Errors
    /// The reason that it cannot be measured, in one sentence.
    fn peer(&self, precision: Precision) -> Result<String, String>;

    /// Makes the slots of [`bench_pass`] resident, of random bytes, for later measurements of this kind of work.
    ///
    /// # Errors
    /// As [`Device::fill`].
    fn prepare(&mut self, precision: Precision, n: u32, count: u32) -> Result<(), DeviceError> {
        self.device().fill(&bench_pass(precision, n, count), &Handle::default()).map(drop)
    }

    /// The sums of the product that made slot `u` of `pass`, which is resident and of n = 256: row-major, as the kernel forms
    /// them before they are mixed.
    ///
    /// # Errors
    /// Any [`DeviceError`]; [`DeviceError::Unsupported`] where they cannot be had.
    fn sums(&mut self, pass: &Pass, u: u32) -> Result<Vec<f64>, DeviceError> {
        let _ = (pass, u);
        Err(DeviceError::Unsupported("this backend keeps its sums to itself".into()))
    }

    /// Repeats a stage `repeats` times over the prepared slots, with no other work meanwhile.
    ///
    /// # Errors
    /// Any [`DeviceError`]; [`DeviceError::Unsupported`] for a stage that this device does not have.
    fn sample(&mut self, stage: BenchStage, kernel: &str, repeats: u32) -> Result<Measurement, DeviceError>;
}

/// A benchmark that was opened, or why not.
pub type OpenedBench = Result<Box<dyn Bench>, DeviceError>;

pub const fn bench_pass(precision: Precision, n: u32, count: u32) -> Pass {
    Pass { precision, key: KEY, n, offset: 0, count }
}

/// Operations of one n-by-n product of a kind of work.
pub const fn product_operations(precision: Precision, n: u32) -> u128 {
    2 * precision.multiply_accumulates_of_product(n) as u128
}

/// Bytes that a round of the probe reads.
pub const fn round_bytes(walks: u32) -> u64 {
    walks as u64 * PROBE_STEPS as u64 * STATE_BYTES
}

/// Number of walks of the probe over `slots_bytes` bytes of slots on a GPU: as many as a policy would ask for.
pub fn walks_over(slots_bytes: u64) -> u32 {
    const MIN_WALKS: u64 = 64;
    const MAX_WALKS: u64 = 1 << 22;
    let most = (slots_bytes / SLOTS_PER_STATES / STATE_BYTES).clamp(MIN_WALKS, MAX_WALKS);
    1 << most.ilog2()
}

/// Round number `turn` of the probe.
pub const fn bench_round(turn: u32, walks: u32) -> ProbeRound {
    ProbeRound { key: RoundKey([turn as u8; 32]), walks, steps: PROBE_STEPS }
}

/// Round number `turn` of the sweep over the slots of a pass.
pub const fn bench_sweep(turn: u32, pass: &Pass) -> SweepRound {
    SweepRound { key: RoundKey([turn as u8; 32]), n: pass.n, count: pass.count }
}

/// The time of `repeats` turns by the host's clock, the host's own part included.
pub fn time(repeats: u32, turn: impl FnMut(u32) -> Result<(), DeviceError>) -> Result<Duration, DeviceError> {
    let start = Instant::now();
    (0..repeats).try_for_each(turn)?;
    Ok(start.elapsed())
}

/// The slot that product number `turn` makes: one after another, then again.
pub const fn product_slot(pass: &Pass, turn: u32) -> u32 {
    2 + turn % (pass.count - 2)
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
