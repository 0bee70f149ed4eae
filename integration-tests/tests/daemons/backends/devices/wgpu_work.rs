//! The wgpu backend over a software Vulkan driver: with any limits and shaders it gives the bits of all backends.

use std::fs;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use super::sweeps;
use assay_device::backend::StartupProgress;
use assay_device::{Device, DeviceError, Handle, LinkedShare, MAX_STEPPED_STATES, SweepRound};
use assay_kits::conformance::{
    chaining_values_and_reads_are_the_references, check_fill, check_random, check_round, check_step,
    every_kind_of_work_is_the_references, openings_are_those_of_the_reference, pass,
};
use assay_kits::vectors::{LARGE, check_vector, vectors};
use assay_wgpu::{AdapterDescription, DotChoice, WgpuConfig, WgpuDevice, detect, find, open};
use assay_work::{Precision, RoundKey};

/// Enough for every vector, and little of a machine.
const MEMORY_BYTES: u64 = 256 << 20;
const SEED: &[u8] = b"tests";

fn config() -> WgpuConfig {
    WgpuConfig { memory_bytes: Some(MEMORY_BYTES), seed: SEED.into(), ..WgpuConfig::default() }
}

/// Buffers of this size, so that slots lie in several, and a slot too.
fn cut(buffer_bytes: u64) -> WgpuConfig {
    WgpuConfig { buffer_bytes: Some(buffer_bytes), ..config() }
}

fn adapter() -> AdapterDescription {
    let found = detect(SEED).unwrap_or_else(|error| panic!("{error}"));
    let software = found.into_iter().find(|adapter| adapter.software);
    software.expect("a software Vulkan driver: install mesa-vulkan-drivers")
}

fn device(config: WgpuConfig) -> WgpuDevice {
    open(adapter().id, config, &mut |_| ()).unwrap()
}

assay_kits::device_conformance!(Precision::ALL, device(config()));

#[test]
fn every_vector() {
    let mut device = device(config());
    let checked = vectors(&Precision::ALL).iter().map(|(name, vector)| check_vector(name, vector, &mut device)).count();
    // Fourteen of INT8, two of F16, one of FP8, two of FP4 and NETWORK each, three of FIELD; three each have a linked probe or a
    // sweep.
    assert_eq!(checked, 24);
}

#[test]
fn small_vectors_with_every_shader_and_cut_into_small_buffers() {
    let dot = |dot| WgpuConfig { dot, ..config() };
    // Slots of 64 KiB to 1 MiB: one to a buffer, several to a buffer, several buffers to a slot.
    for config in [
        dot(DotChoice::Packed),
        dot(DotChoice::Plain),
        dot(DotChoice::Fastest),
        cut(1 << 16),
        cut(5 << 16),
        cut(1 << 20),
    ] {
        let mut device = device(config);
        let fits =
            |vector: &serde_json::Value| device.slots_that_fit(vector["challenge"]["n"].as_u64().unwrap() as u32) > 0;
        let small = vectors(&Precision::ALL).into_iter().filter(|(name, _)| !LARGE.contains(&name.as_str()));
        let small: Vec<_> = small.filter(|(_, vector)| fits(vector)).collect();
        // Of n = 1024 there is one, whose operands fit into no buffer of 64 KiB by rows of a tile.
        let expected = if device.slots_that_fit(1024) > 0 { 20 } else { 19 };
        assert_eq!(small.iter().map(|(name, vector)| check_vector(name, vector, &mut device)).count(), expected);
    }
}

#[test]
fn random_passes_and_rounds_give_the_references_bits() {
    for (seed, config) in (1..).zip([config(), cut(1 << 16), cut(3 << 16), cut(7 << 16)]) {
        check_random(&mut device(config), seed, &[256, 256, 256, 512]);
    }
}

/// Operands are cut into other pieces than slots.
#[test]
fn every_kind_of_work_over_small_buffers() {
    for config in [cut(1 << 16), cut(3 << 16), cut(1 << 20)] {
        every_kind_of_work_is_the_references(&mut device(config));
    }
}

/// Float sums are used after their self-test alone: at opening where the fastest products are looked for, else when
/// they are asked for.
#[test]
fn float_sums_are_examined_before_they_are_used() {
    let exact = |device: &WgpuDevice| {
        let units = device.info().units;
        assert_eq!(units.len(), 2, "large tiles and small ones");
        for unit in units {
            // FP32 keeps 23 bits below a sum, and has 24.
            let found = (unit.precision, unit.bits_kept, unit.output_bits, unit.failed);
            assert_eq!(found, (Precision::F16, Some(23), Some(24), None), "{}", unit.unit);
        }
    };
    let fastest = device(WgpuConfig { dot: DotChoice::Fastest, ..config() });
    exact(&fastest);
    let mut asked = device(config());
    assert!(asked.info().units.is_empty());
    assert_eq!(asked.kernels(Precision::F16), ["wide", "float"]);
    asked.choose_kernel(Precision::F16, "float").unwrap();
    exact(&asked);
    assert_eq!(asked.kernels(Precision::F16), ["float", "wide"]);
    let vectors = vectors(&[Precision::F16]);
    assert_eq!(vectors.iter().map(|(name, vector)| check_vector(name, vector, &mut asked)).count(), 2);
    assert!(matches!(asked.choose_kernel(Precision::Int8, "float"), Err(DeviceError::Unsupported(_))));
}

/// Cooperative matrices, over a driver that has them: after their self-test, whole and cut, back and forth.
#[test]
#[ignore = "needs a driver with cooperative matrices: scripts/check-cooperative"]
fn every_kind_of_work_in_cooperative_matrices() {
    const KINDS: [Precision; 3] = [Precision::Int8, Precision::F16, Precision::Fp8];
    for config in [config(), cut(5 << 16)] {
        let mut device = device(WgpuConfig { dot: DotChoice::Cooperative, ..config });
        let units = device.info().units;
        assert_eq!(units.iter().map(|unit| unit.precision).collect::<Vec<_>>(), KINDS);
        for unit in units {
            let found = (unit.bits_kept, unit.output_bits, unit.failed);
            assert_eq!(found, (Some(23), Some(24), None), "{}", unit.unit);
        }
        for kind in KINDS {
            assert_eq!(device.kernels(kind)[0], "cooperative", "{kind}");
        }
        every_kind_of_work_is_the_references(&mut device);
        let small = vectors(&KINDS).into_iter().filter(|(name, _)| !LARGE.contains(&name.as_str()));
        assert_eq!(small.map(|(name, vector)| check_vector(&name, &vector, &mut device)).count(), 14);
        // Resident slots stay where products are timed that read other operands.
        let pass = pass(512, 5, 3);
        device.choose_kernel(Precision::Int8, "packed").unwrap();
        check_fill(&mut device, &pass);
        for kernel in ["cooperative", "packed", "cooperative"] {
            device.choose_kernel(Precision::Int8, kernel).unwrap();
            device.time_products(3).unwrap();
            check_round(&mut device, &pass, 64, 3);
        }
        check_fill(&mut device, &pass);
    }
}

/// Walks go from group to group where more buffers are needed than a shader binds.
#[test]
fn walks_over_more_buffers_than_can_be_bound() {
    let mut device = device(cut(1 << 16));
    for count in [30, 31, 40, 64] {
        let pass = pass(256, count, count as u8);
        check_fill(&mut device, &pass);
        // An even and an odd number of steps: the states end in the one set and in the other.
        check_round(&mut device, &pass, 4096, 6);
        check_round(&mut device, &pass, 64, 7);
        let states = device.probe_states().unwrap();
        let share = LinkedShare { n: 256, offset: 7, count, total: count + 9 };
        for states in [MAX_STEPPED_STATES, 130] {
            check_step(&mut device, &pass, &share, states);
        }
        assert!(device.probe_states().unwrap() == states, "steps have states of their own");
    }
}

#[test]
fn openings_over_several_buffers_are_those_of_the_reference() {
    openings_are_those_of_the_reference(&mut device(cut(1 << 18)));
}

#[test]
fn chaining_values_over_several_buffers_are_the_references() {
    chaining_values_and_reads_are_the_references(&mut device(cut(1 << 17)));
}

#[test]
fn sizes_whose_pieces_are_smaller_than_a_tile_are_not_offered_and_refused_with_the_reason() {
    let mut device = device(cut(1 << 16));
    assert!(device.slots_that_fit(512) > 0);
    assert_eq!(device.slots_that_fit(1024), 0);
    assert!(device.info().detail.contains("n up to 512"), "{}", device.info().detail);
    let error = device.fill(&pass(1024, 3, 1), &Handle::default()).unwrap_err();
    assert!(matches!(&error, DeviceError::Unsupported(why) if why.contains("512 is the largest")), "{error}");
    check_fill(&mut device, &pass(256, 3, 1));
}

#[test]
fn memory_that_is_not_there_is_busy_and_what_is_there_goes_on() {
    let mut device = device(WgpuConfig { memory_bytes: Some(8 << 20), ..config() });
    let fit = device.slots_that_fit(256);
    assert!((8..128).contains(&fit), "{fit}");
    let error = device.fill(&pass(256, fit + 1, 1), &Handle::default()).unwrap_err();
    let DeviceError::Busy { needed_bytes, free_bytes } = error else { panic!("{error:?}") };
    assert!(needed_bytes > free_bytes / 100 * 95, "{needed_bytes} of {free_bytes}");
    check_fill(&mut device, &pass(256, fit, 1));
    assert_eq!(device.slots_that_fit(256), fit, "what it holds counts as free");
    device.release();
    assert_eq!(device.slots_that_fit(256), fit);
    assert!(matches!(device.read(0, 0, &mut [0]), Err(DeviceError::Unsupported(_))));
    check_fill(&mut device, &pass(256, 3, 2));
}

/// A product of seconds is given up where it is; the leaves before it are done.
#[test]
fn a_large_product_can_be_cancelled_inside() {
    let mut device = device(config());
    let handle = Handle::default();
    thread::scope(|scope| {
        scope.spawn(|| {
            while handle.done_steps() < 2 {
                thread::sleep(Duration::from_millis(1));
            }
            handle.cancel();
        });
        assert_eq!(device.fill(&pass(4096, 3, 1), &handle).unwrap_err(), DeviceError::Cancelled);
    });
    assert_eq!(handle.done_steps(), 2);
    check_fill(&mut device, &pass(256, 3, 1));
}

/// Memory that is never read before it is written gives the same bits with any earlier content.
#[test]
fn poison_does_not_show() {
    let mut device = device(WgpuConfig { poison: true, ..cut(3 << 16) });
    for seed in 1..4 {
        let pass = pass(256, 5 + u32::from(seed), seed);
        check_fill(&mut device, &pass);
        check_round(&mut device, &pass, 64, 3);
    }
}

#[test]
fn two_devices_of_one_process_work_at_once() {
    thread::scope(|scope| {
        for seed in [1, 2] {
            scope.spawn(move || check_random(&mut device(cut(u64::from(seed) << 18)), seed, &[256]));
        }
    });
}

#[test]
fn an_adapter_is_described_and_its_id_stays() {
    let first = adapter();
    assert_eq!((first.api, first.software, first.refusal.clone()), ("Vulkan", true, None));
    assert!(first.name.contains("llvmpipe") && first.driver.contains("Mesa"), "{first:?}");
    assert_eq!(adapter(), first);
    let other = detect(b"another daemon").unwrap().into_iter().find(|adapter| adapter.software).unwrap();
    assert_ne!(other.id, first.id);
    // As a device for mining it is only there when asked for.
    let found = find(&WgpuConfig { software: true, ..config() }).unwrap();
    if found.iter().any(|found| found.info.id == first.id) {
        assert!(found[0].info.detail.contains("a software adapter"), "{:?}", found[0]);
        let error = find(&WgpuConfig { software: false, ..config() }).unwrap_err().to_string();
        assert!(error.contains("only software adapters") && error.contains("llvmpipe"), "{error}");
    }
}

/// The first start says that it compiles; the next one that it loads; a file that was altered is compiled again.
#[test]
fn compiled_pipelines_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let says = || {
        let told = Mutex::new(Vec::new());
        let config = WgpuConfig { cache_folder: Some(folder.path().join("cache")), ..config() };
        let mut take = |preparing: StartupProgress| told.lock().unwrap().push(preparing);
        let mut device = open(adapter().id, config, &mut take).unwrap();
        check_fill(&mut device, &pass(256, 3, 1));
        let told = told.into_inner().unwrap();
        assert_eq!(
            told.iter().map(|p| (p.done, p.total)).collect::<Vec<_>>(),
            (0..=7).map(|d| (d, 7)).collect::<Vec<_>>()
        );
        told[0].what.clone()
    };
    assert_eq!([says(), says()], ["compiling shaders, once for each driver", "loading shaders"]);
    for file in fs::read_dir(folder.path().join("cache")).unwrap() {
        let file = file.unwrap().path();
        let mut bytes = fs::read(&file).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        fs::write(&file, bytes).unwrap();
    }
    assert_eq!([says(), says()], ["compiling shaders, once for each driver", "loading shaders"]);
}

/// In one buffer, in several, in as many that walks go by groups, and with either way to multiply.
#[test]
fn sweeps_are_the_references() {
    let dot = |dot| WgpuConfig { dot, ..config() };
    for config in [dot(DotChoice::Packed), dot(DotChoice::Plain), cut(5 << 20)] {
        sweeps::sweeps_are_the_references(&mut device(config));
    }
    for config in [config(), cut(1 << 16), cut(3 << 16)] {
        sweeps::rounds_of_a_sweep_follow_one_another(&mut device(config.clone()));
        sweeps::sweeps_of_other_slots_are_refused(&mut device(config));
    }
    // Another way to multiply than at the pass; and sums in several buffers, with zeros in the last one.
    let mut device = device(cut(1 << 16));
    for (count, chosen) in [(64, "plain"), (70, "packed"), (130, "plain")] {
        let slots = sweeps::filled(&mut device, 256, count);
        device.choose_kernel(Precision::Int8, chosen).unwrap();
        sweeps::check_sweep(&mut device, &slots, &SweepRound { key: RoundKey([count as u8; 32]), n: 256, count });
    }
}
