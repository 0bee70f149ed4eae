//! A CPU device's stages one by one.

mod register_loop;

use std::hint::black_box;
use std::time::{Duration, Instant};

use assay_device::bench::{
    Bench, BenchStage, Measurement, PeakRates, bench_pass, bench_round, bench_sweep, product_operations, round_bytes,
    time,
};
use assay_device::{Device, DeviceError, Handle};

use crate::device::CpuDevice;
use crate::kernel::KernelKind;
use crate::memory::Mapping;
use crate::pass::PassStages;
use crate::thread_team::ThreadTeam;
use assay_device::resident::Slots;
use assay_work::Precision;
pub use register_loop::RegisterLoop;

/// Walks of a probe round: enough that no thread waits for another.
const WALKS: u32 = 1 << 16;
/// Bytes of memory that is read in order: several times any cache.
const STREAM_BYTES: usize = 1 << 30;
/// Bytes that a thread reads in order at once.
const STRETCH_BYTES: usize = 1 << 20;
/// Readings, of which the fastest counts.
const READINGS: u32 = 5;

#[derive(Debug)]
pub struct CpuBench {
    pub device: CpuDevice,
}

impl CpuBench {
    pub(super) const fn new(device: CpuDevice) -> Self {
        Self { device }
    }

    /// Reads the resident slots in order on all threads of the device: the limit of a sweep.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] when no pass is resident.
    pub fn read_in_order(&self) -> Result<(), DeviceError> {
        read_in_order(self.device.resident_bytes()?, self.device.threads)
    }

    /// Bytes a second of memory that all threads of the device read in order.
    #[expect(clippy::cast_precision_loss, reason = "a rate to a few digits")]
    fn stream(&self) -> Result<f64, DeviceError> {
        let mut memory = Mapping::new(STREAM_BYTES as u64)?;
        // SAFETY: the mapping is as large, and nothing else uses it.
        let bytes = unsafe {
            memory.base().write_bytes(1, STREAM_BYTES);
            std::slice::from_raw_parts(memory.base(), STREAM_BYTES)
        };
        memory.note_touched(STREAM_BYTES as u64);
        let times = (0..READINGS).map(|_| time(1, |_| read_in_order(bytes, self.device.threads)));
        let fastest = times.collect::<Result<Vec<_>, _>>()?.into_iter().min().unwrap_or(Duration::MAX);
        Ok(STREAM_BYTES as f64 / fastest.as_secs_f64())
    }
}

fn read_in_order(memory: &[u8], threads: usize) -> Result<(), DeviceError> {
    let stretches: Vec<_> = memory.chunks(STRETCH_BYTES).collect();
    ThreadTeam::run(threads, &Handle::default(), |team, _| {
        while let Some(item) = team.take(stretches.len())? {
            let mut sums = [0_u64; 8];
            for line in stretches[item].as_chunks::<64>().0 {
                for (sum, word) in sums.iter_mut().zip(line.as_chunks::<8>().0) {
                    *sum ^= u64::from_ne_bytes(*word);
                }
            }
            black_box(sums);
        }
        Ok(())
    })
}

impl Bench for CpuBench {
    fn device(&mut self) -> &mut dyn Device {
        &mut self.device
    }

    fn kernels(&self, precision: Precision) -> Vec<String> {
        if !self.device.info().precisions.contains(&precision) {
            return Vec::new();
        }
        KernelKind::available().map(|kind| kind.name().to_owned()).collect()
    }

    fn peak_rates(&mut self) -> PeakRates {
        let operations_per_s = self.operations_limit(Precision::Int8);
        let operations = RegisterLoop::of_this_processor(Precision::Int8).map_or_else(
            || "not known: this processor has no vpdpbusd".to_owned(),
            |register_loop| format!("{} in registers, measured", register_loop.instruction),
        );
        let source = format!("operations {operations}; memory read in order, measured");
        PeakRates { operations_per_s, bytes_per_s: self.stream().ok(), source }
    }

    #[expect(clippy::cast_precision_loss, reason = "a rate to a few digits")]
    fn operations_limit(&mut self, precision: Precision) -> Option<f64> {
        let register_loop = RegisterLoop::of_this_processor(precision)?;
        let start = Instant::now();
        let operations = register_loop.run_on(self.device.threads);
        Some(operations as f64 / start.elapsed().as_secs_f64())
    }

    fn peer(&self, _: Precision) -> Result<String, String> {
        Err("benchmarks/onednn.sh measures oneDNN beside the processor's kernels".to_owned())
    }

    fn sample(&mut self, stage: BenchStage, kernel: &str, repeats: u32) -> Result<Measurement, DeviceError> {
        let Slots { n, count } = self.device.residency.layout()?;
        let precision = self.device.pass.map_or(Precision::Int8, |pass| pass.precision);
        self.device.choose_kernel(precision, kernel)?;
        let (pass, handle) = (bench_pass(precision, n, count), Handle::default());
        // Products come as they are in a pass: count - 2 at a time.
        let turns = if stage == BenchStage::Product { repeats.div_ceil(count - 2) } else { repeats };
        let elapsed = time(turns, |turn| {
            let stages = match stage {
                BenchStage::Product => PassStages::Products,
                BenchStage::Pass => PassStages::All,
                BenchStage::Leaves => PassStages::Leaves,
                BenchStage::Digests => PassStages::Digests,
                BenchStage::Probe => {
                    return self.device.probe_round(&bench_round(turn, WALKS), &handle).map(drop);
                }
                BenchStage::Sweep => return self.device.sweep_round(&bench_sweep(turn, &pass), &handle).map(drop),
                _ => return Err(DeviceError::Unsupported("the processor's memory is the host's".to_owned())),
            };
            self.device.fill_stages(&pass, &handle, stages).map(drop)
        })?;
        let bytes = match stage {
            BenchStage::Leaves => 2 * pass.slot_bytes(),
            BenchStage::Probe => round_bytes(WALKS),
            _ => pass.bytes(),
        };
        let products = if stage.counts_operations() { u128::from(count - 2) } else { 0 };
        let operations = u128::from(turns) * products * product_operations(precision, n);
        Ok(Measurement { elapsed, operations, bytes: u64::from(turns) * bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CpuConfig, devices};
    use assay_device::bench::PROBE_STEPS;

    fn bench(kernel: KernelKind, threads: usize) -> CpuBench {
        let config = CpuConfig {
            devices: 1,
            memory_bytes: vec![64 << 20],
            threads: vec![threads],
            kernel,
            ..CpuConfig::default()
        };
        CpuBench { device: devices(&config).unwrap().remove(0) }
    }

    #[test]
    fn stages_count_what_they_do_and_leave_the_slots_alone() {
        let mut bench = bench(KernelKind::Portable, 2);
        bench.prepare(Precision::Int8, 256, 5).unwrap();
        let before = bench.device.resident_bytes().unwrap().to_vec();
        let product = 2 * 256_u128.pow(3);
        for (stage, repeats, operations, bytes) in [
            (BenchStage::Product, 4, 6 * product, 2 * 5 * 65_536),
            (BenchStage::Pass, 2, 6 * product, 2 * 5 * 65_536),
            (BenchStage::Leaves, 3, 0, 3 * 2 * 65_536),
            (BenchStage::Digests, 1, 0, 5 * 65_536),
            (BenchStage::Probe, 1, 0, u64::from(WALKS * PROBE_STEPS) * 64),
            (BenchStage::Sweep, 3, 0, 3 * 5 * 65_536),
        ] {
            let sample = bench.sample(stage, "portable", repeats).unwrap();
            assert_eq!((sample.operations, sample.bytes), (operations, bytes), "{stage:?}");
            assert!(sample.rate_per_s() > 0.0, "{stage:?}");
            assert_eq!(bench.device.resident_bytes().unwrap(), before, "{stage:?}");
        }
    }

    #[test]
    fn the_operations_of_fp4_are_twice_those_of_the_other_kinds() {
        let mut bench = bench(KernelKind::Portable, 1);
        for precision in Precision::ALL {
            bench.prepare(precision, 256, 3).unwrap();
            let sample = bench.sample(BenchStage::Product, "portable", 1).unwrap();
            let terms = if precision == Precision::Fp4 { 512 } else { 256 };
            assert_eq!(sample.operations, 2 * 256 * 256 * terms, "{precision}");
        }
    }

    #[test]
    fn digests_alone_are_those_of_the_pass() {
        let mut bench = bench(KernelKind::Portable, 2);
        let pass = bench_pass(Precision::Int8, 256, 5);
        let digests = bench.device.fill(&pass, &Handle::default()).unwrap();
        assert_eq!(bench.device.fill_stages(&pass, &Handle::default(), PassStages::Digests).unwrap(), digests);
    }

    #[test]
    fn what_cannot_be_measured_is_refused() {
        let mut bench = bench(KernelKind::Portable, 1);
        assert!(
            matches!(bench.sample(BenchStage::Pass, "portable", 1), Err(DeviceError::Unsupported(_))),
            "nothing resident"
        );
        bench.prepare(Precision::Int8, 256, 3).unwrap();
        for (stage, kernel) in
            [(BenchStage::HostToDevice, "portable"), (BenchStage::Peer, "portable"), (BenchStage::Pass, "abacus")]
        {
            assert!(matches!(bench.sample(stage, kernel, 1), Err(DeviceError::Unsupported(_))), "{stage:?} {kernel}");
        }
    }
}
