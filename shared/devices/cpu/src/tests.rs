//! The device as a whole against the reference.

use super::*;
use assay_device::{Device, DeviceError, Handle, LinkedShare, Pass, ProbeRound, SweepRound};
use assay_kits::naive;
use assay_work::probe::{start_state, state_bytes, step};
use assay_work::{Digest, PassKey, Precision, RoundKey, keys, product};

const MEMORY_BYTES: u64 = 1 << 30;

fn device(kernel: KernelKind, threads: usize) -> CpuDevice {
    let config = CpuConfig {
        devices: 1,
        memory_bytes: vec![MEMORY_BYTES],
        threads: vec![threads],
        kernel,
        ..CpuConfig::default()
    };
    devices(&config).unwrap().remove(0)
}

fn pass(n: u32, offset: u32, count: u32, seed: u8) -> Pass {
    pass_of(Precision::Int8, n, offset, count, seed)
}

fn pass_of(precision: Precision, n: u32, offset: u32, count: u32, seed: u8) -> Pass {
    Pass { precision, key: PassKey([seed; 32]), n, offset, count }
}

fn naive_pass(pass: &Pass) -> Vec<Vec<u8>> {
    naive::pass(pass.precision, &pass.key, pass.n, pass.offset, pass.count)
}

fn naive_round(round: &ProbeRound, slots: &[Vec<u8>]) -> Vec<u8> {
    let n = slots[0].len().isqrt() as u32;
    (0..round.walks).flat_map(|walk| naive::walk(slots, n, &round.key, walk, round.steps)).collect()
}

/// Every kernel, on 1, 2 and 3 threads.
fn every_device() -> impl Iterator<Item = CpuDevice> {
    KernelKind::available().flat_map(|kernel| [1, 2, 3].map(|threads| device(kernel, threads)))
}

/// The same pass on every device, slot by slot.
fn check_everywhere(pass: &Pass) {
    let slots = naive_pass(pass);
    for mut device in every_device() {
        let handle = Handle::default();
        let found = device.fill(pass, &handle).unwrap();
        let bytes = pass.slot_bytes() as usize;
        for (u, (slot, found)) in slots.iter().zip(device.resident_bytes().unwrap().chunks(bytes)).enumerate() {
            let differs = slot.iter().zip(found).position(|(a, b)| a != b);
            assert_eq!(differs, None, "{:?}, {}: slot {u}", pass, device.info().detail);
        }
        assert_eq!(found, naive::digests(&slots), "{:?}, {}", pass, device.info().detail);
        assert_eq!(handle.done_steps(), u64::from(pass.count));
    }
}

#[test]
fn small_passes_give_the_naive_bits() {
    check_everywhere(&pass(256, 0, 3, 1));
    check_everywhere(&pass(256, 7, 9, 2));
    check_everywhere(&pass(512, 1_000_000, 4, 3));
}

#[test]
fn larger_passes_give_the_naive_bits() {
    check_everywhere(&pass(1024, 5, 6, 4));
    check_everywhere(&pass(2048, 1, 4, 5));
}

#[test]
fn passes_of_every_kind_of_work_give_the_naive_bits() {
    for precision in Precision::ALL {
        check_everywhere(&pass_of(precision, 256, 7, 6, 21));
        check_everywhere(&pass_of(precision, 512, 1, 4, 22));
    }
}

/// Matrices whose Y is packed by blocks of columns, and by one block between products.
#[test]
fn blocks_of_columns_give_the_same_bits_on_every_kernel() {
    for pass in [pass(8192, 3, 3, 6), pass_of(Precision::F16, 4096, 3, 4, 6), pass_of(Precision::Fp4, 4096, 3, 4, 6)] {
        let mut fastest = device(KernelKind::Auto, 2);
        let expected = fastest.fill(&pass, &Handle::default()).unwrap();
        check_elements(&mut fastest, &pass);
        let others = KernelKind::available().skip(1).filter(|kernel| *kernel != KernelKind::Portable);
        for kernel in others {
            assert_eq!(device(kernel, 2).fill(&pass, &Handle::default()).unwrap(), expected, "{kernel:?}");
        }
    }
    let pass = pass_of(Precision::F16, 8192, 3, 3, 6);
    let mut fastest = device(KernelKind::Auto, 2);
    fastest.fill(&pass, &Handle::default()).unwrap();
    check_elements(&mut fastest, &pass);
}

/// Some elements of the last slot of a pass, by the formula.
fn check_elements(device: &mut impl Device, pass: &Pass) {
    let (n, u) = (pass.n as usize, pass.count - 1);
    let (earlier, previous) = keys::parents(&pass.key, u);
    let mut row = |slot: u32, row: usize| {
        let mut bytes = vec![0; n];
        device.read(slot, (row * n) as u64, &mut bytes).unwrap();
        bytes
    };
    let places = [(0, 0), (n - 1, n - 1), (n / 2 + 1, 3), (95, n / 2), (96, n / 2 - 1), (1234, n - 2514)];
    for (r, c) in places {
        let (x, y, found) = (row(earlier, r), row(previous, c), row(u, r)[c]);
        let expected = product::element(pass.precision, &x, &y, pass.n, r as u32, c as u32, u);
        assert_eq!(found, expected, "{pass:?}: row {r}, column {c}");
    }
}

#[test]
fn memory_is_reused_from_pass_to_pass() {
    let mut device = device(KernelKind::Auto, 2);
    let of_other_kinds = [Precision::F16, Precision::Fp8, Precision::Fp4].map(|kind| pass_of(kind, 512, 0, 4, 9));
    let passes = [pass(512, 0, 5, 7), pass(256, 9, 3, 8), pass(512, 0, 3, 7), pass(256, 0, 40, 1)];
    for pass in passes.into_iter().chain(of_other_kinds).chain(passes) {
        let found = device.fill(&pass, &Handle::default()).unwrap();
        assert_eq!(found, naive::digests(&naive_pass(&pass)));
    }
}

#[test]
fn a_probe_walks_the_naive_walks_on_every_kernel() {
    let pass = pass(256, 2, 5, 9);
    let slots = naive_pass(&pass);
    for (walks, steps) in [(64, 1), (64, 33), (256, 7), (1024, 3)] {
        let round = ProbeRound { key: RoundKey([walks as u8; 32]), walks, steps };
        let states = naive_round(&round, &slots);
        for mut device in every_device() {
            device.fill(&pass, &Handle::default()).unwrap();
            let handle = Handle::default();
            let digest = device.probe_round(&round, &handle).unwrap();
            assert!(device.probe_states().unwrap() == states, "{}: {walks} walks", device.info().detail);
            assert_eq!(digest, Digest(blake3::hash(&states).into()));
            assert_eq!(handle.done_steps(), 1);
        }
    }
}

/// Steps of a linked probe over slots that lie among those of others, in batches that are no whole groups of 4 too.
#[test]
fn linked_steps_are_the_naive_steps_on_every_kernel() {
    let pass = pass(256, 2, 5, 9);
    let slots = naive_pass(&pass);
    let share = LinkedShare { n: 256, offset: 7, count: 5, total: 20 };
    let starts = (0..).map(|walk| start_state(&RoundKey([6; 32]), walk));
    let states: Vec<_> = starts.filter(|state| share.line_of(state).is_ok()).take(400).collect();
    for count in [1, 5, 128, 129, 400] {
        let stepped = states[..count].iter().map(|state| {
            let (mut state, line) = (*state, share.line_of(state).unwrap());
            step(&mut state, slots[line.slot as usize][line.first_byte as usize..].first_chunk().unwrap());
            state_bytes(&state)
        });
        let stepped: Vec<_> = stepped.collect();
        for mut device in every_device() {
            device.fill(&pass, &Handle::default()).unwrap();
            let mut states: Vec<_> = states[..count].iter().map(state_bytes).collect();
            device.step_states(&share, &mut states).unwrap();
            assert!(states == stepped, "{}: {count} states", device.info().detail);
        }
    }
}

/// Checks a sweep over a device's slots; the states of a probe are gone after it.
fn check_sweep(device: &mut CpuDevice, pass: &Pass) {
    let round = SweepRound { key: RoundKey([7; 32]), n: pass.n, count: pass.count };
    let slots: Vec<_> = device.resident_bytes().unwrap().chunks(pass.slot_bytes() as usize).collect();
    let sums = naive::sweep_round(&slots, pass.n, &round.key);
    let walked = ProbeRound { key: RoundKey([1; 32]), walks: 64, steps: 1 };
    device.probe_round(&walked, &Handle::default()).unwrap();
    let handle = Handle::default();
    assert_eq!(device.sweep_round(&round, &handle), Ok(Digest(blake3::hash(&sums).into())), "{}", device.info().detail);
    assert_eq!(handle.done_steps(), 1);
    assert!(device.sweep_sums(&round, &handle).unwrap() == sums, "{}", device.info().detail);
    assert!(matches!(device.probe_states(), Err(DeviceError::Unsupported(_))));
}

/// Stretches of rows that are as long as the last one and longer.
#[test]
fn sweeps_are_the_naive_sums_on_every_kernel() {
    for pass in [pass(256, 0, 5, 13), pass(512, 3, 4, 14), pass(1024, 0, 3, 15)] {
        for mut device in every_device() {
            device.fill(&pass, &Handle::default()).unwrap();
            check_sweep(&mut device, &pass);
        }
    }
}

#[test]
fn sums_larger_than_the_scratch_memory_find_room() {
    let mut device = device(KernelKind::Auto, 2);
    let pass = pass(256, 0, 2100, 16);
    let digests = device.fill(&pass, &Handle::default()).unwrap();
    check_sweep(&mut device, &pass);
    assert_eq!(device.fill(&pass, &Handle::default()).unwrap(), digests);
}

#[test]
fn states_larger_than_the_scratch_memory_find_room() {
    let mut device = device(KernelKind::Auto, 2);
    let pass = pass(256, 0, 3, 10);
    let digests = device.fill(&pass, &Handle::default()).unwrap();
    let round = ProbeRound { key: RoundKey([1; 32]), walks: 1 << 17, steps: 1 };
    device.probe_round(&round, &Handle::default()).unwrap();
    assert_eq!(device.probe_states().unwrap().len(), 64 << 17);
    assert_eq!(device.fill(&pass, &Handle::default()).unwrap(), digests);
    assert!(matches!(device.probe_states(), Err(DeviceError::Unsupported(_))));
}

#[test]
fn ranges_and_chaining_values_are_those_of_the_slots() {
    use blake3::hazmat::{HasherExt, Mode, merge_subtrees_root};
    let pass = pass(512, 0, 4, 11);
    let slots = naive_pass(&pass);
    let mut device = device(KernelKind::Auto, 2);
    device.fill(&pass, &Handle::default()).unwrap();
    let mut bytes = [0; 1024];
    device.read(3, 2048, &mut bytes).unwrap();
    assert_eq!(bytes, slots[3][2048..3072]);
    for subtree in [1024, 8192, 131_072] {
        let values = device.chaining_values(2, subtree as u64).unwrap();
        for (i, (value, part)) in values.iter().zip(slots[2].chunks(subtree)).enumerate() {
            let mut hasher = blake3::Hasher::new();
            hasher.set_input_offset((i * subtree) as u64);
            assert_eq!(*value, hasher.update(part).finalize_non_root());
        }
        assert_eq!(values.len(), slots[2].len() / subtree);
    }
    let halves = device.chaining_values(2, 131_072).unwrap();
    assert_eq!(merge_subtrees_root(&halves[0], &halves[1], Mode::Hash), blake3::hash(&slots[2]));
}

#[test]
fn what_is_not_resident_is_not_read() {
    let mut device = device(KernelKind::Auto, 1);
    let round = ProbeRound { key: RoundKey([1; 32]), walks: 64, steps: 1 };
    let refused = |result: Result<(), DeviceError>| assert!(matches!(result, Err(DeviceError::Unsupported(_))));
    refused(device.read(0, 0, &mut [0; 64]));
    refused(device.probe_round(&round, &Handle::default()).map(drop));
    refused(device.probe_states().map(drop));
    refused(device.chaining_values(0, 1024).map(drop));
    device.fill(&pass(256, 0, 3, 1), &Handle::default()).unwrap();
    refused(device.read(3, 0, &mut [0; 64]));
    refused(device.read(2, 65_536 - 63, &mut [0; 64]));
    refused(device.read(2, u64::MAX, &mut [0; 64]));
    refused(device.chaining_values(0, 65_536).map(drop));
    refused(device.chaining_values(0, 1536).map(drop));
    refused(device.chaining_values(0, 512).map(drop));
    refused(device.probe_states().map(drop));
    device.release();
    refused(device.read(0, 0, &mut [0; 64]));
}

#[test]
fn work_outside_the_rules_is_refused() {
    let mut device = device(KernelKind::Auto, 1);
    for bad in [pass(128, 0, 3, 1), pass(300, 0, 3, 1), pass(65_536, 0, 3, 1), pass(256, 0, 2, 1)] {
        assert!(matches!(device.fill(&bad, &Handle::default()), Err(DeviceError::Unsupported(_))));
    }
    device.fill(&pass(256, 0, 3, 1), &Handle::default()).unwrap();
    for (walks, steps) in [(32, 1), (96, 1), (1 << 23, 1), (64, 0), (64, 1025)] {
        let round = ProbeRound { key: RoundKey([1; 32]), walks, steps };
        assert!(matches!(device.probe_round(&round, &Handle::default()), Err(DeviceError::Unsupported(_))));
    }
    assert_eq!(device.slots_that_fit(128), 0);
    assert_eq!(device.slots_that_fit(1000), 0);
}

#[test]
fn what_fits_is_what_can_be_filled() {
    let config = CpuConfig { devices: 1, memory_bytes: vec![8 << 20], threads: vec![2], ..CpuConfig::default() };
    let mut device = devices(&config).unwrap().remove(0);
    let fit = device.slots_that_fit(256);
    assert!(fit > 32);
    for precision in Precision::ALL {
        device.fill(&pass_of(precision, 256, 0, fit, 1), &Handle::default()).unwrap();
        assert_eq!(device.slots_that_fit(256), fit, "memory that the device holds counts as free");
    }
    let busy = device.fill(&pass(256, 0, 128, 1), &Handle::default());
    assert!(matches!(busy, Err(DeviceError::Busy { needed_bytes, free_bytes }) if needed_bytes > free_bytes));
    assert!(device.resident_bytes().is_err(), "after an error nothing is resident");
    assert_eq!(device.slots_that_fit(32_768), 0);
}

#[test]
fn a_size_beyond_all_memory_is_busy_and_touches_nothing() {
    let config = CpuConfig { devices: 1, memory_bytes: vec![u64::MAX], ..CpuConfig::default() };
    let mut device = devices(&config).unwrap().remove(0);
    let huge = pass(32_768, 0, 1 << 20, 1);
    assert!(matches!(device.fill(&huge, &Handle::default()), Err(DeviceError::Busy { .. })));
}

#[test]
fn a_cancelled_pass_leaves_nothing_and_the_device_works_on() {
    let mut device = device(KernelKind::Auto, 2);
    let small = pass(256, 0, 3, 1);
    let handle = Handle::default();
    handle.cancel();
    assert_eq!(device.fill(&small, &handle), Err(DeviceError::Cancelled));
    assert!(device.resident_bytes().is_err());
    let handle = Handle::default();
    let long = pass(1024, 0, 500, 1);
    let result = std::thread::scope(|scope| {
        scope.spawn(|| {
            while handle.done_steps() < 3 {
                std::thread::yield_now();
            }
            handle.cancel();
        });
        device.fill(&long, &handle)
    });
    assert_eq!(result, Err(DeviceError::Cancelled));
    assert!(handle.done_steps() < 500);
    assert_eq!(device.fill(&small, &Handle::default()).unwrap(), naive::digests(&naive_pass(&small)));
}
