//! A CPU device's stages one by one, for benchmarks.

use std::time::Instant;

use super::device::CpuDevice;
use super::kernel::KernelKind;
use super::limit::RegisterLoop;
use super::pass::Stages;
use assay_device::measure::{Limits, Measured, Sample, Stage};
use assay_device::{Device, DeviceError, Handle, Pass, ProbeRound};
use assay_work::{PassKey, RoundKey};

/// Walks of a probe round: enough that no thread waits for another.
const WALKS: u32 = 1 << 16;
/// Steps of each walk.
const STEPS: u32 = 64;
/// Bytes of a line of the probe.
const LINE_BYTES: u64 = 64;

impl Measured for CpuDevice {
    fn kernels(&self) -> Vec<String> {
        KernelKind::available().map(|kind| kind.name().to_owned()).collect()
    }

    #[expect(clippy::cast_precision_loss, reason = "a rate to a few digits")]
    fn limits(&mut self) -> Limits {
        let Some(register_loop) = RegisterLoop::of_this_processor() else {
            let source = "not known: this processor has no vpdpbusd".to_owned();
            return Limits { operations_per_s: None, bytes_per_s: None, source };
        };
        let start = Instant::now();
        let operations = register_loop.run_on(self.threads());
        let rate = operations as f64 / start.elapsed().as_secs_f64();
        let source = format!("{} in registers, measured", register_loop.instruction);
        Limits { operations_per_s: Some(rate), bytes_per_s: None, source }
    }

    fn peer(&self) -> Result<String, String> {
        Err("benchmarks/onednn.sh measures oneDNN beside the processor's kernels".to_owned())
    }

    fn prepare(&mut self, n: u32, count: u32) -> Result<(), DeviceError> {
        self.fill(&pass(n, count), &Handle::default()).map(drop)
    }

    fn sample(&mut self, stage: Stage, kernel: &str, repeats: u32) -> Result<Sample, DeviceError> {
        let kind = kernel.parse().map_err(|e| DeviceError::Unsupported(format!("{e}")))?;
        self.set_kernel(kind)?;
        let (n, count) = self.resident_size()?;
        let (pass, slot_bytes) = (pass(n, count), u64::from(n).pow(2));
        let product = 2 * u128::from(n).pow(3);
        let start = Instant::now();
        // Products come as they are in a pass: count - 2 at a time.
        let products = u128::from(count - 2);
        let turns = if stage == Stage::Product { repeats.div_ceil(count - 2) } else { repeats };
        for turn in 0..turns {
            match stage {
                Stage::Product => drop(self.refill(&pass, Stages::Products)?),
                Stage::Pass => drop(self.refill(&pass, Stages::All)?),
                Stage::Leaves => drop(self.refill(&pass, Stages::Leaves)?),
                Stage::Digests => drop(self.refill(&pass, Stages::Digests)?),
                Stage::Probe => drop(self.probe_round(&round(turn), &Handle::default())?),
                _ => return Err(DeviceError::Unsupported("the processor's memory is the host's".to_owned())),
            }
        }
        let each = match stage {
            Stage::Leaves => 2 * slot_bytes,
            Stage::Probe => u64::from(WALKS) * u64::from(STEPS) * LINE_BYTES,
            _ => u64::from(count) * slot_bytes,
        };
        let operations = if stage.counts_operations() { u128::from(turns) * products * product } else { 0 };
        Ok(Sample { elapsed: start.elapsed(), operations, bytes: u64::from(turns) * each })
    }
}

const fn pass(n: u32, count: u32) -> Pass {
    Pass { key: PassKey([7; 32]), n, offset: 0, count }
}

const fn round(turn: u32) -> ProbeRound {
    ProbeRound { key: RoundKey([turn as u8; 32]), walks: WALKS, steps: STEPS }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CpuConfig, devices};

    fn device(kernel: KernelKind, threads: usize) -> CpuDevice {
        let config = CpuConfig {
            devices: 1,
            memory_bytes: vec![64 << 20],
            threads: vec![threads],
            kernel,
            ..CpuConfig::default()
        };
        devices(&config).unwrap().remove(0)
    }

    #[test]
    fn stages_count_what_they_do_and_leave_the_slots_alone() {
        let mut device = device(KernelKind::Portable, 2);
        device.prepare(256, 5).unwrap();
        let before = device.resident_bytes().unwrap().to_vec();
        let product = 2 * 256_u128.pow(3);
        for (stage, repeats, operations, bytes) in [
            (Stage::Product, 4, 6 * product, 2 * 5 * 65_536),
            (Stage::Pass, 2, 6 * product, 2 * 5 * 65_536),
            (Stage::Leaves, 3, 0, 3 * 2 * 65_536),
            (Stage::Digests, 1, 0, 5 * 65_536),
            (Stage::Probe, 1, 0, u64::from(WALKS * STEPS) * 64),
        ] {
            let sample = device.sample(stage, "portable", repeats).unwrap();
            assert_eq!((sample.operations, sample.bytes), (operations, bytes), "{stage:?}");
            assert!(sample.rate() > 0.0, "{stage:?}");
            assert_eq!(device.resident_bytes().unwrap(), before, "{stage:?}");
        }
    }

    #[test]
    fn digests_alone_are_those_of_the_pass() {
        let mut device = device(KernelKind::Portable, 2);
        let pass = pass(256, 5);
        let digests = device.fill(&pass, &Handle::default()).unwrap();
        assert_eq!(device.refill(&pass, Stages::Digests).unwrap(), digests);
    }

    #[test]
    fn what_cannot_be_measured_is_refused() {
        let mut device = device(KernelKind::Portable, 1);
        assert!(
            matches!(device.sample(Stage::Pass, "portable", 1), Err(DeviceError::Unsupported(_))),
            "nothing resident"
        );
        device.prepare(256, 3).unwrap();
        for (stage, kernel) in [(Stage::HostToDevice, "portable"), (Stage::Peer, "portable"), (Stage::Pass, "abacus")] {
            assert!(matches!(device.sample(stage, kernel, 1), Err(DeviceError::Unsupported(_))), "{stage:?} {kernel}");
        }
    }
}
