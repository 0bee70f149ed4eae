//! The requirements on every backend's device: the reference's bits in every case, and one error for each refusal.
//!
//! A backend has all of it as tests, in a module `conformance`, by one line: [`device_conformance!`](crate::device_conformance).

use crate::naive;
use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use assay_device::copies::CopySource;
use assay_device::open::{AuditedPass, ProbedDevice, SweptDevice, open_samples, open_segments, open_sums};
use assay_device::{
    Device, DeviceError, Handle, LinkedShare, MAX_STEPPED_STATES, Pass, ProbeRound, ProbeRounds, StateBytes,
    SweepRound, SweepRounds,
};
use assay_work::keys::pass_key;
use assay_work::probe::{
    LINE_BYTES, Sweep, SweepSample, UncheckedSweep, probe_key, start_state, state_bytes, state_from_bytes, step,
};
use assay_work::tree::CHUNK_BYTES;
use assay_work::{DeviceId, Digest, PassKey, PassSample, Precision, ProbeKey, ProbeSeed, RoundKey, Segment};

use crate::reference::ReferenceDevice;
use crate::vectors::{LARGE, check_vector, precision_of, vectors};
use crate::{WorkedExample, probe};

/// A round for slots of any size.
const ROUND: ProbeRound = ProbeRound { key: RoundKey([4; 32]), walks: 64, steps: 3 };
/// A round for three slots of n = 256.
const SWEEP: SweepRound = SweepRound { key: RoundKey([5; 32]), n: 256, count: 3 };

/// Tests that the device of `$open` meets all requirements: one test for each function of
/// [`conformance`](crate::conformance) that takes a device and the kinds of work that it must offer, `$kinds`.
/// `$open` gives a new device each time. `$within` runs each test's body in its environment; it is given the test's
/// name.
#[macro_export]
macro_rules! device_conformance {
    (@tests $kinds:expr, $open:expr, $within:path; $($name:ident)*) => {$(
        #[test]
        fn $name() {
            $within(concat!("conformance::", stringify!($name)), || {
                let mut device = $open;
                assert_eq!(assay_device::Device::info(&device).precisions, $kinds, "the kinds of work that are offered");
                $crate::conformance::$name(&mut device)
            });
        }
    )*};
    ($kinds:expr, $open:expr) => { $crate::device_conformance!($kinds, $open, $crate::conformance::here); };
    ($kinds:expr, $open:expr, $within:path) => {
        mod conformance {
            use super::*;
            $crate::device_conformance! { @tests $kinds, $open, $within;
                small_vectors_are_reproduced
                random_passes_and_rounds_are_the_references
                rounds_of_a_probe_follow_one_another
                sweeps_are_the_references
                sweeps_and_probes_leave_one_another_alone
                a_cancelled_sweep_leaves_the_slots
                every_kind_of_work_is_the_references
                steps_of_linked_walks_are_the_references
                openings_are_those_of_the_reference
                chaining_values_and_reads_are_the_references
                a_cancelled_call_leaves_a_usable_device
                what_is_not_resident_is_refused
                arguments_that_break_the_rules_are_refused
                every_kernel_gives_the_same_bits
                copies_are_exact_and_leave_the_slots_alone
            }
        }
    };
}

pub fn here(_test: &str, body: impl FnOnce()) {
    body();
}

/// A pass whose key and offset come from `seed`.
pub fn pass(n: u32, count: u32, seed: u8) -> Pass {
    pass_of(Precision::Int8, n, count, seed)
}

/// As [`pass`], of a kind of work.
pub fn pass_of(precision: Precision, n: u32, count: u32, seed: u8) -> Pass {
    Pass { precision, key: PassKey([seed; 32]), n, offset: u32::from(seed), count }
}

/// The reference's digests of a pass, and the device that holds it.
///
/// # Panics
/// When the reference cannot hold it.
pub fn expected(pass: &Pass) -> (Vec<Digest>, ReferenceDevice) {
    let mut device = ReferenceDevice::new(DeviceId([9; 16]), "reference", pass.bytes());
    (device.fill(pass, &Handle::default()).unwrap(), device)
}

/// Fills on a device and compares the digests.
///
/// # Panics
/// When the device gives anything else.
pub fn check_fill(device: &mut dyn Device, pass: &Pass) {
    let handle = Handle::default();
    assert_eq!(device.fill(pass, &handle).unwrap(), expected(pass).0, "{pass:?}, {}", device.info().detail);
    assert_eq!(handle.done_steps(), u64::from(pass.count));
}

/// A round on a device in which `pass` is resident, against the walks of the specification.
///
/// # Panics
/// When the device gives anything else.
pub fn check_round(device: &mut dyn Device, pass: &Pass, walks: u32, steps: u32) {
    let slots = naive::pass(pass.precision, &pass.key, pass.n, pass.offset, pass.count);
    let round = ProbeRound { key: RoundKey([steps as u8; 32]), walks, steps };
    let states: Vec<u8> = (0..walks).flat_map(|walk| naive::walk(&slots, pass.n, &round.key, walk, steps)).collect();
    let handle = Handle::default();
    let digest = device.probe_round(&round, &handle).unwrap();
    assert!(device.probe_states().unwrap() == states, "{walks} walks, {steps} steps, {pass:?}");
    assert_eq!((digest, handle.done_steps()), (Digest(blake3::hash(&states).into()), 1));
}

/// Passes and rounds of seeded shapes, one after another over memory that changes its use.
///
/// # Panics
/// When the device gives anything else.
pub fn check_random(device: &mut dyn Device, seed: u8, sizes: &[u32]) {
    let mut draw = u32::from(seed);
    for case in 0..5_u8 {
        draw = draw.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let n = sizes[(draw >> 28) as usize % sizes.len()];
        let pass = pass(n, 3 + (draw >> 8) % 7, seed * 16 + case);
        check_fill(device, &pass);
        check_round(device, &pass, 64 << ((draw >> 16) % 4), 1 + (draw >> 20) % 40);
    }
}

/// The vectors that are quick on every device, of the kinds of work that it offers.
///
/// # Panics
/// When the device gives anything else.
pub fn small_vectors_are_reproduced(device: &mut dyn Device) {
    let offered = device.info().precisions;
    let small = vectors(&offered).into_iter().filter(|(name, _)| !LARGE.contains(&name.as_str()));
    let mut checked = BTreeMap::<_, u32>::new();
    for (name, vector) in small {
        check_vector(&name, &vector, device);
        *checked.entry(precision_of(&vector)).or_default() += 1;
    }
    let of_kind = |precision: Precision| match precision {
        Precision::Int8 => 11,
        Precision::F16 | Precision::Fp4 | Precision::Field | Precision::Network => 2,
        Precision::Fp8 => 1,
    };
    assert_eq!(checked, offered.into_iter().map(|precision| (precision, of_kind(precision))).collect());
}

/// Passes, rounds and openings of every offered kind of work, in turn on one device; each other kind is refused.
///
/// # Panics
/// When the device gives anything else.
pub fn every_kind_of_work_is_the_references(device: &mut dyn Device) {
    let offered = device.info().precisions;
    for (turn, precision) in (0..).zip(Precision::ALL.into_iter().chain(Precision::ALL)) {
        let pass = pass_of(precision, 256 << (turn % 2), 5, 40 + turn);
        if offered.contains(&precision) {
            check_fill(device, &pass);
            check_round(device, &pass, 64, 7);
            check_openings(&WorkedExample::of(precision, 256, 1, 5), device);
        } else {
            check_refused(device.fill(&pass, &Handle::default()));
        }
    }
}

/// Seeded shapes, one after another.
///
/// # Panics
/// When the device gives anything else.
pub fn random_passes_and_rounds_are_the_references(device: &mut dyn Device) {
    check_random(device, 9, &[256, 256, 256, 512]);
}

/// All rounds at once are the rounds one by one, each after the digest before.
///
/// # Panics
/// When the device gives anything else.
pub fn rounds_of_a_probe_follow_one_another(device: &mut dyn Device) {
    let pass = pass(256, 5, 3);
    let (_, mut reference) = expected(&pass);
    check_fill(device, &pass);
    let probe = ProbeRounds { key: ProbeKey([6; 32]), walks: 128, steps: 5, rounds: 4 };
    let handle = Handle::default();
    let digests = device.probe_rounds(&probe, &handle).unwrap();
    assert_eq!(digests, reference.probe_rounds(&probe, &Handle::default()).unwrap());
    assert_eq!(device.probe_states().unwrap(), reference.probe_states().unwrap());
    assert_eq!(handle.done_steps(), 4);
}

fn sweep_of(pass: &Pass, rounds: u32) -> SweepRounds {
    SweepRounds { key: ProbeKey([pass.count as u8; 32]), n: pass.n, count: pass.count, rounds }
}

/// Sweeps of all sizes, whose sums fill their string or leave a part of it zero, shorter ones after longer ones.
///
/// # Panics
/// When the device gives anything else.
pub fn sweeps_are_the_references(device: &mut dyn Device) {
    for (n, count) in [(2048, 4), (1024, 3), (512, 9), (512, 8), (256, 33), (256, 5), (256, 4), (256, 3)] {
        check_sweep(device, &pass(n, count, 30));
    }
}

/// Fills on a device, and sums over the slots that it holds then: digests, sums and openings.
fn check_sweep(device: &mut dyn Device, pass: &Pass) {
    let slot_digests = device.fill(pass, &Handle::default()).unwrap();
    let slots: Vec<_> = (0..pass.count).map(|slot| read_whole(device, pass, slot)).collect();
    let asked = Sweep::try_from(UncheckedSweep { seed: ProbeSeed([0; 32]), rounds: 3 }).unwrap();
    let rounds = sweep_of(pass, 3);
    let (sums, digests) = naive::sweep(&slots, pass.n, &rounds.key, &asked);
    let handle = Handle::default();
    assert_eq!(device.sweep_rounds(&rounds, &handle).unwrap(), digests, "{pass:?}, {}", device.info().detail);
    assert_eq!(handle.done_steps(), 3);
    let last = rounds.round(2, &digests[1]);
    assert_eq!(device.sweep_round(&last, &handle), Ok(digests[2]));
    assert!(device.sweep_sums(&last, &handle).unwrap() == sums[2], "{pass:?}");
    let at = [sums[2].len() as u64 - CHUNK_BYTES, 0, CHUNK_BYTES, 0];
    let opened = at.map(|at| naive::open(&sums[2], at, CHUNK_BYTES));
    assert_eq!(device.open_sums(&last, &at, &handle).unwrap(), opened);
    for wrong in [sums[2].len() as u64, 64, u64::MAX] {
        check_refused(device.open_sums(&last, &[0, wrong], &handle));
    }
    let samples = [(2, pass.count - 1, pass.n - 1), (0, 0, 0), (2, 1, pass.n / 2 - 1)];
    let samples = samples.map(|(round, slot, row)| SweepSample { round, slot, row });
    let swept = SweptDevice { rounds, digests: &digests, slot_digests: &slot_digests };
    let opened = open_sums(device, &swept, &samples, &handle).unwrap();
    let open = |sample: &SweepSample| naive::open_sum(&slots, pass.n, &sums[sample.round as usize], sample);
    assert_eq!(opened, samples.iter().map(open).collect::<Vec<_>>());
}

/// A probe after a sweep, and a sweep after a probe, give the digests of before; the slots stay as they are.
///
/// # Panics
/// When the device gives anything else.
pub fn sweeps_and_probes_leave_one_another_alone(device: &mut dyn Device) {
    let pass = pass(512, 5, 31);
    check_fill(device, &pass);
    let sweep = sweep_of(&pass, 2);
    let digests = device.sweep_rounds(&sweep, &Handle::default()).unwrap();
    for walks in [64, 4096] {
        check_round(device, &pass, walks, 5);
        assert_eq!(device.sweep_rounds(&sweep, &Handle::default()).unwrap(), digests);
    }
    check_round(device, &pass, 64, 5);
    let hashed = |slot| Digest(blake3::hash(&read_whole(device, &pass, slot)).into());
    assert_eq!((0..5).map(hashed).collect::<Vec<_>>(), expected(&pass).0);
}

/// Cancels before the first round, and in the middle of a sweep: the slots stay resident.
///
/// # Panics
/// When the device gives anything else.
pub fn a_cancelled_sweep_leaves_the_slots(device: &mut dyn Device) {
    let pass = pass(256, 5, 32);
    check_fill(device, &pass);
    let sweep = sweep_of(&pass, 2);
    let digests = device.sweep_rounds(&sweep, &Handle::default()).unwrap();
    let handle = Handle::default();
    let result = cancelled_inside(&handle, || device.sweep_rounds(&sweep_of(&pass, 65_536), &handle));
    assert_eq!(result, Err(DeviceError::Cancelled));
    assert!(handle.done_steps() < 65_536);
    let round = sweep.round(0, &Digest::BEFORE_FIRST);
    assert_eq!(device.sweep_rounds(&sweep, &handle), Err(DeviceError::Cancelled));
    assert_eq!(device.sweep_round(&round, &handle), Err(DeviceError::Cancelled));
    assert_eq!(device.sweep_sums(&round, &handle), Err(DeviceError::Cancelled));
    assert_eq!(device.open_sums(&round, &[0], &handle), Err(DeviceError::Cancelled));
    assert_eq!(device.sweep_rounds(&sweep, &Handle::default()).unwrap(), digests);
    check_round(device, &pass, 64, 5);
}

/// Openings of samples and of a probe's segments.
///
/// # Panics
/// When the device gives anything else.
pub fn openings_are_those_of_the_reference(device: &mut dyn Device) {
    for (n, count) in [(256, 6), (1024, 4)] {
        check_openings(&WorkedExample::new(n, 1, count), device);
    }
}

fn check_openings(worked: &WorkedExample, device: &mut dyn Device) {
    let share = worked.share;
    let (n, count) = (worked.challenge.n(), share.count);
    let key = pass_key(worked.challenge.work_key(), share.device_id, 0, &worked.previous_root());
    let pass = Pass { precision: worked.challenge.precision(), key, n, offset: share.offset, count };
    assert_eq!(device.fill(&pass, &Handle::default()).unwrap(), worked.digests);
    let mut samples = vec![PassSample::Leaf { slot: 0, row: 3 }, PassSample::Leaf { slot: 1, row: n - 1 }];
    samples.extend((2..count).map(|slot| PassSample::Product { slot, row: n - 1, column: 2 * slot, inner: slot }));
    let audited = AuditedPass {
        challenge: &worked.challenge,
        device_id: share.device_id,
        iteration: 0,
        previous_root: worked.previous_root(),
        root: worked.last_root(),
        slot_digests: &worked.digests,
    };
    let opened = open_samples(device, &audited, &samples, &Handle::default()).unwrap();
    assert_eq!(opened, naive::open_pass(&worked.challenge, &share, &worked.roots, 0, &samples));
    check_segments_of(worked, device);
}

fn check_segments_of(worked: &WorkedExample, device: &mut dyn Device) {
    let (probe, id, n) = (probe(128, 9, 2), worked.share.device_id, worked.challenge.n());
    let key = probe_key(&probe, worked.challenge.work_key(), id, &worked.last_root());
    let (_, digests) = naive::probe(&worked.slots, n, &key, &probe);
    let segments: Vec<_> = [(1, 17), (0, 127), (0, 0)].map(|(round, walk)| Segment { round, walk }).into();
    let probed = ProbedDevice {
        challenge: &worked.challenge,
        probe: &probe,
        device_id: id,
        probe_key: &key,
        digests: &digests,
        slot_digests: &worked.digests,
    };
    let opened = open_segments(device, &probed, &segments, &Handle::default()).unwrap();
    assert_eq!(opened, naive::open_probe(&worked.slots, n, &key, &probe, id, &segments));
}

/// States of linked walks whose next lines are in `share`, different for every seed.
fn states_over(share: &LinkedShare, count: usize, seed: u8) -> Vec<StateBytes> {
    let key = RoundKey([seed; 32]);
    let starts = (0..).map(|walk| start_state(&key, walk));
    starts.filter(|state| share.line_of(state).is_ok()).take(count).map(|state| state_bytes(&state)).collect()
}

/// One step of `states` linked walks over the slots of a pass, which are resident.
///
/// # Panics
/// When the device gives anything else than the reference.
pub fn check_step(device: &mut dyn Device, pass: &Pass, share: &LinkedShare, states: usize) {
    let slots = naive::pass(pass.precision, &pass.key, pass.n, pass.offset, pass.count);
    let mut moved = states_over(share, states, pass.count as u8);
    let mut expected = moved.clone();
    for bytes in &mut expected {
        let mut state = state_from_bytes(bytes);
        let line = share.line_of(&state).unwrap();
        let first_byte = line.first_byte as usize;
        step(&mut state, slots[line.slot as usize][first_byte..].first_chunk().unwrap());
        *bytes = state_bytes(&state);
    }
    device.step_states(share, &mut moved).unwrap();
    assert!(moved == expected, "{states} states, {share:?}");
}

/// Single steps of walks over the slots of several devices: the most at once, few, none; those of other devices are
/// refused.
///
/// # Panics
/// When the device gives anything else.
pub fn steps_of_linked_walks_are_the_references(device: &mut dyn Device) {
    let alone = LinkedShare { n: 256, offset: 0, count: 3, total: 3 };
    check_refused(device.step_states(&alone, &mut [[0; LINE_BYTES]]));
    for (n, count, offset, behind) in [(256, 5, 4, 3), (256, 3, 0, 0), (1024, 3, 0, 5), (256, 4, 100, 0)] {
        let pass = pass(n, count, 3);
        let share = LinkedShare { n, offset, count, total: offset + count + behind };
        check_fill(device, &pass);
        for states in [MAX_STEPPED_STATES, 1, 2, 3, 127, 130, 0] {
            // As many as there may be once: a device may read them line by line.
            let states = if n == 256 && count == 5 { states } else { states.min(300) };
            check_step(device, &pass, &share, states);
        }
        let other = LinkedShare { offset: 0, count: offset, ..share };
        if offset > 0 {
            let mut states = states_over(&share, 130, 1);
            states[129] = states_over(&other, 1, 1)[0];
            check_refused(device.step_states(&share, &mut states));
        }
        let mut states = states_over(&share, 1, 1);
        for wrong in
            [LinkedShare { n: 300, ..share }, LinkedShare { count: 0, ..share }, LinkedShare { total: 2, ..share }]
        {
            check_refused(device.step_states(&wrong, &mut states));
        }
        // More slots than are resident.
        let more = LinkedShare { count: count + 1, total: count + 1, offset: 0, n };
        let beyond = LinkedShare { count: 1, total: count + 1, offset: count, n };
        check_refused(device.step_states(&more, &mut states_over(&beyond, 1, 1)));
        check_refused(device.step_states(&share, &mut vec![[0; LINE_BYTES]; MAX_STEPPED_STATES + 1]));
    }
    device.release();
    check_refused(device.step_states(&alone, &mut [[0; LINE_BYTES]]));
}

/// Subtrees that the device makes, larger ones, which the host merges, and reads that start and end anywhere.
///
/// # Panics
/// When the device gives anything else.
pub fn chaining_values_and_reads_are_the_references(device: &mut dyn Device) {
    for n in [256, 1024] {
        let pass = pass(n, 3, 5);
        let (_, mut reference) = expected(&pass);
        check_fill(device, &pass);
        let mut subtree_bytes = 1024;
        while subtree_bytes < pass.slot_bytes() {
            let values = device.chaining_values(2, subtree_bytes).unwrap();
            assert_eq!(values, reference.chaining_values(2, subtree_bytes).unwrap(), "{subtree_bytes}");
            subtree_bytes *= 2;
        }
        for (first, bytes) in [
            (5, pass.slot_bytes() - 5),
            (0, 1),
            (pass.slot_bytes() - 3, 3),
            (1021, 65_539.min(pass.slot_bytes() - 1021)),
        ] {
            let mut read = vec![0; bytes as usize];
            device.read(2, first, &mut read).unwrap();
            let mut whole = vec![0; read.len()];
            reference.read(2, first, &mut whole).unwrap();
            assert!(read == whole, "{bytes} bytes from {first}");
        }
    }
}

fn check_refused<T: std::fmt::Debug>(result: Result<T, DeviceError>) {
    assert!(matches!(result, Err(DeviceError::Unsupported(_))), "{result:?}");
}

/// The result of a call that is cancelled somewhere inside: after its first steps, long before its last.
fn cancelled_inside<T>(handle: &Handle, call: impl FnOnce() -> T) -> T {
    thread::scope(|scope| {
        scope.spawn(|| {
            while handle.done_steps() < 3 {
                thread::sleep(Duration::from_millis(1));
            }
            handle.cancel();
        });
        call()
    })
}

/// Cancels before the first step, in the middle of a pass, and before a round: no slot is resident after it, and the
/// device works on.
///
/// # Panics
/// When the device gives anything else.
pub fn a_cancelled_call_leaves_a_usable_device(device: &mut dyn Device) {
    let cancelled = Handle::default();
    cancelled.cancel();
    assert_eq!(device.fill(&pass(256, 3, 1), &cancelled), Err(DeviceError::Cancelled));
    let count = device.slots_that_fit(512).min(500);
    assert!(count >= 50, "{count} slots are too few to be cancelled in their midst");
    let handle = Handle::default();
    let result = cancelled_inside(&handle, || device.fill(&pass(512, count, 1), &handle));
    assert_eq!(result, Err(DeviceError::Cancelled));
    assert!(handle.done_steps() < u64::from(count));
    check_refused(device.read(0, 0, &mut [0]));
    check_refused(device.probe_round(&ROUND, &Handle::default()));
    let pass = pass(256, 4, 2);
    check_fill(device, &pass);
    assert_eq!(device.probe_round(&ROUND, &cancelled), Err(DeviceError::Cancelled));
    check_refused(device.probe_states());
    check_round(device, &pass, 64, 5);
}

/// Before a pass, outside of it, after one that failed, and after it was given up.
///
/// # Panics
/// When the device gives anything else.
pub fn what_is_not_resident_is_refused(device: &mut dyn Device) {
    let nothing_is_resident = |device: &mut dyn Device| {
        check_refused(device.read(0, 0, &mut [0; 64]));
        check_refused(device.probe_round(&ROUND, &Handle::default()));
        check_refused(device.probe_states());
        check_refused(device.chaining_values(0, 1024));
        check_refused(device.sweep_round(&SWEEP, &Handle::default()));
        check_refused(device.open_sums(&SWEEP, &[0], &Handle::default()));
    };
    nothing_is_resident(device);
    check_fill(device, &pass(256, 3, 1));
    check_refused(device.read(2, 65_536, &mut [0]));
    check_refused(device.read(2, u64::MAX, &mut [0]));
    for (slot, first_byte) in [(3, 0), (2, 65_536 - 63), (2, u64::MAX), (0, u64::MAX - 63)] {
        check_refused(device.read(slot, first_byte, &mut [0; 64]));
    }
    check_refused(device.chaining_values(3, 1024));
    check_refused(device.probe_states());
    check_refused(device.fill(&pass(256, 2, 1), &Handle::default()));
    nothing_is_resident(device);
    check_fill(device, &pass(256, 3, 1));
    device.release();
    nothing_is_resident(device);
}

/// Sizes, counts, subtrees and rounds outside WORK.md.
///
/// # Panics
/// When the device gives anything else.
pub fn arguments_that_break_the_rules_are_refused(device: &mut dyn Device) {
    for (n, count) in [(128, 3), (300, 3), (65_536, 3), (256, 2), (256, (1 << 20) + 1)] {
        check_refused(device.fill(&pass(n, count, 1), &Handle::default()));
    }
    check_fill(device, &pass(256, 3, 1));
    for (slot, bytes) in [(0, 65_536), (0, 1536), (2, 1536), (0, 512)] {
        check_refused(device.chaining_values(slot, bytes));
    }
    for (walks, steps) in [(32, 1), (96, 1), (1 << 23, 1), (64, 0), (64, 1025)] {
        check_refused(device.probe_round(&ProbeRound { walks, steps, ..ROUND }, &Handle::default()));
    }
    for (n, count) in [(256, 2), (256, 4), (512, 3), (0, 3), (256, 0), (300, 3), (65_536, 3), (u32::MAX, u32::MAX)] {
        check_refused(device.sweep_round(&SweepRound { n, count, ..SWEEP }, &Handle::default()));
        check_refused(device.open_sums(&SweepRound { n, count, ..SWEEP }, &[0], &Handle::default()));
    }
    device.sweep_round(&SWEEP, &Handle::default()).unwrap();
}

/// Every kernel gives the same pass; products alone leave it as it is.
///
/// # Panics
/// When the device gives anything else.
pub fn every_kernel_gives_the_same_bits(device: &mut dyn Device) {
    for precision in device.info().precisions {
        check_kernels(device, precision);
    }
    check_refused(device.choose_kernel(Precision::Int8, "abacus"));
    device.release();
    check_refused(device.time_products(1));
}

fn check_kernels(device: &mut dyn Device, precision: Precision) {
    let pass = pass_of(precision, 256, 6, 11);
    let expected = expected(&pass).0;
    for kernel in device.kernels(precision) {
        device.choose_kernel(precision, &kernel).unwrap();
        assert_eq!(device.kernels(precision)[0], kernel, "the one in use is the first");
        assert_eq!(device.fill(&pass, &Handle::default()).unwrap(), expected, "{kernel}");
        match device.time_products(2) {
            Ok(_) => {
                let slot = read_whole(device, &pass, 5);
                assert_eq!(Digest(blake3::hash(&slot).into()), expected[5], "{kernel}");
            }
            Err(error) => assert!(matches!(error, DeviceError::Unsupported(_)), "{error}"),
        }
    }
}

/// Bytes come over to the device and back, and the slots stay resident.
///
/// # Panics
/// When the device gives anything else.
pub fn copies_are_exact_and_leave_the_slots_alone(device: &mut dyn Device) {
    check_refused(device.copy_area());
    let pass = pass(256, 4, 12);
    check_fill(device, &pass);
    let sources = [
        CopySource::Keystream { key: [7; 32], bytes: 1 << 16 },
        CopySource::Bytes((0..4096_u32).map(|i| (i * 7) as u8).collect()),
        CopySource::Keystream { key: [8; 32], bytes: 1 << 17 },
    ];
    for source in sources {
        match device.test_copies(&source) {
            Ok(report) => assert_eq!(report.difference, None, "{} bytes", source.len()),
            Err(error) => assert!(matches!(error, DeviceError::Unsupported(_)), "{error}"),
        }
    }
    let slot = read_whole(device, &pass, 3);
    assert_eq!(Digest(blake3::hash(&slot).into()), expected(&pass).0[3]);
}

fn read_whole(device: &mut dyn Device, pass: &Pass, slot: u32) -> Vec<u8> {
    let mut bytes = vec![0; pass.slot_bytes() as usize];
    device.read(slot, 0, &mut bytes).unwrap();
    bytes
}
