//! Measuring a CUDA device over the stand-in driver: every stage is done as often as it says, and spoils nothing.

#![cfg(target_os = "linux")]

use super::standin::{Scenario, config, try_open};
use assay_cuda::{CudaBench, KernelChoice};
use assay_device::bench::{Bench, BenchStage};
use assay_device::{Device, DeviceError, Pass};
use assay_kits::naive;
use assay_work::{PassKey, Precision};

const N: u32 = 256;
const COUNT: u32 = 8;
const SLOT_BYTES: u64 = (N * N) as u64;
/// The measured pass, the same for each device.
const PASS: Pass = Pass { precision: Precision::Int8, key: PassKey([7; 32]), n: N, offset: 0, count: COUNT };

fn slots(bench: &mut CudaBench) -> Vec<Vec<u8>> {
    let read = |slot| {
        let mut bytes = vec![0; SLOT_BYTES as usize];
        bench.device.read(slot, 0, &mut bytes).unwrap();
        bytes
    };
    (0..COUNT).map(read).collect()
}

#[test]
fn every_stage_counts_what_it_does_and_leaves_the_slots_alone() {
    let scenario = Scenario::new("every_stage_counts_what_it_does_and_leaves_the_slots_alone", "all");
    scenario.with("DEVICES", "1").with("CAPABILITY", "9.0").run(|| {
        let mut bench = CudaBench::new(try_open(0, config(KernelChoice::Auto)).unwrap());
        let expected = naive::pass(Precision::Int8, &PASS.key, N, 0, COUNT);
        bench.prepare(Precision::Int8, N, COUNT).unwrap();
        let product = 2 * u128::from(N).pow(3);
        let kernels = bench.kernels(Precision::Int8);
        assert_eq!(kernels, ["wgmma-sm90a", "mma-sm80", "mma-sm75", "dp4a"]);
        for kernel in &kernels {
            for (stage, operations) in [(BenchStage::Product, 5 * product), (BenchStage::Pass, 5 * 6 * product)] {
                let sample = bench.sample(stage, kernel, 5).unwrap();
                assert_eq!((sample.operations, sample.bytes), (operations, 0), "{stage:?} with {kernel}");
                assert!(
                    bench.device.info().detail.contains(kernel.as_str()),
                    "{kernel}: {}",
                    bench.device.info().detail
                );
                assert_eq!(slots(&mut bench), expected, "{stage:?} with {kernel}");
            }
        }
        // An eighth of the slots in states of 64 bytes: 1024 walks.
        let walked = 1024 * 64 * 64;
        for (stage, bytes) in [
            (BenchStage::Leaves, 2 * SLOT_BYTES),
            (BenchStage::Digests, 8 * SLOT_BYTES),
            (BenchStage::Probe, walked),
            (BenchStage::Sweep, 8 * SLOT_BYTES),
            (BenchStage::HostToDevice, 64 << 20),
            (BenchStage::DeviceToHost, 64 << 20),
            (BenchStage::DeviceCopy, 2 * 8 * SLOT_BYTES),
        ] {
            let sample = bench.sample(stage, &kernels[0], 2).unwrap();
            assert_eq!((sample.operations, sample.bytes), (0, 2 * bytes), "{stage:?}");
            assert!(sample.elapsed.as_nanos() > 0, "{stage:?}");
            assert_eq!(slots(&mut bench), expected, "{stage:?}");
        }
    });
}

#[test]
fn what_cannot_be_measured_is_said() {
    let scenario = Scenario::new("what_cannot_be_measured_is_said", "all");
    scenario.with("DEVICES", "1").with("CAPABILITY", "8.6").run(|| {
        let mut bench = CudaBench::new(try_open(0, config(KernelChoice::Auto)).unwrap());
        let refused = |result| matches!(result, Err(DeviceError::Unsupported(_)));
        assert!(refused(bench.sample(BenchStage::Pass, "dp4a", 1)), "nothing is resident");
        bench.prepare(Precision::Int8, N, COUNT).unwrap();
        assert_eq!(bench.kernels(Precision::Int8), ["mma-sm80", "mma-sm75", "dp4a"]);
        assert!(refused(bench.sample(BenchStage::Product, "wgmma-sm90a", 1)), "not on this capability");
        assert!(refused(bench.sample(BenchStage::Product, "abacus", 1)));
        // A library of the machine's own would not work with the stand-in.
        assert!(bench.peer(Precision::Int8).is_ok() || refused(bench.sample(BenchStage::Peer, "dp4a", 1)));
        // More than its 256 MiB.
        assert!(matches!(bench.prepare(Precision::Int8, 16_384, 3), Err(DeviceError::Busy { .. })));
    });
}
