//! The plan of a burn-in: its work, its time, and its limits.

use std::time::Duration;

use assay_device::copies::{MAX_COPY_BYTES, MIN_COPY_BYTES};
use assay_protocol::message::MATRIX_SIZES;

use crate::draw::Seed;
use crate::finding::Severity;

/// The largest matrices that are taken without being asked for: larger ones load a device no more.
const MAX_AUTO_N: u32 = 8192;
/// The fewest slots that are taken without being asked for: fewer leave much of the memory out.
const MIN_AUTO_SLOTS: u32 = 64;
/// How long a pass over all memory may take by the estimate, where a smaller matrix would be faster.
pub const MAX_PASS: Duration = Duration::from_secs(30);
/// The part of the slots that one area of copies takes.
const SLOTS_PER_AREA: u64 = 16;

/// The work and time of a burn-in.
#[derive(Debug, Clone, PartialEq)]
pub struct DiagPlan {
    /// For how long; one round is made in any case.
    pub time: Duration,
    /// How many rounds, in place of a time.
    pub rounds: Option<u32>,
    /// The matrix size; `None`: by memory and speed.
    pub n: Option<u32>,
    /// The percentage of the slots that fit to fill.
    pub share_percent: u32,
    /// Samples of each pass that the processor computes.
    pub samples: u32,
    /// Kernels to run, `None`: all that a device has.
    pub kernels: Option<Vec<String>>,
    /// The seed of keys and samples.
    pub seed: Seed,
    /// How long a device may make no progress.
    pub stall: Duration,
    /// How long a lost device is waited for.
    pub comeback: Duration,
    pub limits: TestLimits,
}

/// Limits beyond which a device fails beside wrong bits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TestLimits {
    /// By how much a device may slow down, in percent.
    pub max_drift_percent: Option<f64>,
    /// The least rate of passes with the fastest kernel, in 10¹² operations a second.
    pub min_tops: Option<f64>,
    /// The severity of clocks that were reduced for heat or power.
    pub on_throttle: Severity,
    /// The severity of memory errors that the device corrected.
    pub on_corrected: Severity,
}

/// The matrix size for a device on which `fits` slots of a size fit, and which does `rate_per_s` operations.
#[expect(clippy::cast_precision_loss, reason = "an estimate")]
pub fn choose_n(asked: Option<u32>, fits: impl Fn(u32) -> u32, rate_per_s: f64) -> u32 {
    if let Some(n) = asked {
        return n;
    }
    let is_good = |n: &u32| {
        let slots = fits(*n);
        let seconds = f64::from(slots) * pass_operations(*n, 3) as f64 / rate_per_s;
        slots >= MIN_AUTO_SLOTS && seconds <= MAX_PASS.as_secs_f64()
    };
    let sizes = MATRIX_SIZES.into_iter().filter(|n| *n <= MAX_AUTO_N);
    sizes.rev().find(is_good).unwrap_or(MATRIX_SIZES[0])
}

/// Operations of a pass: two for each multiply-accumulate of its products.
pub const fn pass_operations(n: u32, count: u32) -> u128 {
    2 * (n as u128).pow(3) * count.saturating_sub(2) as u128
}

/// Bytes of one area of copies beside `fits` n-by-n slots.
pub fn area_bytes(n: u32, fits: u32) -> u64 {
    let slots_bytes = u64::from(fits) * u64::from(n) * u64::from(n);
    let bytes = (slots_bytes / SLOTS_PER_AREA).clamp(MIN_COPY_BYTES, MAX_COPY_BYTES);
    bytes - bytes % MIN_COPY_BYTES
}

/// The slots to fill of those that fit, beside two areas of copies.
pub fn slots_to_fill(n: u32, fits: u32, area_bytes: u64, share_percent: u32) -> u32 {
    let slot_bytes = u64::from(n) * u64::from(n);
    // CAST: an area is a part of the slots.
    let areas = (2 * area_bytes).div_ceil(slot_bytes) as u32;
    // CAST: a percentage of a u32.
    let share = (u64::from(fits) * u64::from(share_percent.min(100)) / 100) as u32;
    share.min(fits.saturating_sub(areas)).max(3.min(fits))
}

/// The slots of a pass with a kernel that does `rate_per_s` operations, so that it takes no longer than it may.
#[expect(clippy::cast_precision_loss, reason = "an estimate")]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates, and no rate is negative"
)]
pub fn slots_in_time(n: u32, most: u32, rate_per_s: f64) -> u32 {
    let products = MAX_PASS.as_secs_f64() * rate_per_s / pass_operations(n, 3) as f64;
    (products as u32).saturating_add(2).clamp(3, most.max(3))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(memory: u64) -> impl Fn(u32) -> u32 {
        move |n| (memory / (u64::from(n) * u64::from(n))).min(1 << 20) as u32
    }

    #[test]
    fn the_size_follows_memory_and_speed() {
        // A large GPU, a small one, a processor, a program on a processor.
        assert_eq!(choose_n(None, fits(140 << 30), 3e14), 8192);
        assert_eq!(choose_n(None, fits(2 << 30), 1e14), 4096);
        assert_eq!(choose_n(None, fits(1 << 30), 1e12), 4096);
        assert_eq!(choose_n(None, fits(64 << 30), 1e12), 256);
        assert_eq!(choose_n(None, fits(8 << 20), 1e10), 256);
        assert_eq!(choose_n(None, fits(8 << 20), 1.0), 256, "there is none smaller");
        assert_eq!(choose_n(Some(16_384), fits(8 << 20), 1.0), 16_384, "what is asked for is taken");
    }

    #[test]
    fn areas_and_slots_share_the_memory() {
        for (n, fit) in [(256, 124), (8192, 2090), (1024, 3)] {
            let area = area_bytes(n, fit);
            let slots = slots_to_fill(n, fit, area, 100);
            let slot = u64::from(n) * u64::from(n);
            assert!(slots >= 3 && (slots == 3 || u64::from(slots) * slot + 2 * area <= u64::from(fit) * slot));
        }
        assert_eq!(area_bytes(8192, 2090), MAX_COPY_BYTES);
        assert_eq!(slots_to_fill(8192, 2090, MAX_COPY_BYTES, 100), 2088);
        assert_eq!(slots_to_fill(8192, 2090, MAX_COPY_BYTES, 50), 1045);
        assert_eq!(slots_to_fill(256, 2, 1024, 100), 2, "too few are not more");
    }

    #[test]
    fn a_slow_kernel_fills_what_it_can_in_time() {
        assert_eq!(slots_in_time(8192, 2000, 1e15), 2000);
        assert_eq!(slots_in_time(8192, 2000, 1.0), 3);
        let slots = slots_in_time(1024, 1 << 20, 1e12);
        assert!((13_960..13_980).contains(&slots), "{slots}");
    }
}
