//! Sweeps on a GPU backend's device, against the reference.

use assay_device::{Device, DeviceError, Handle, ProbeRound, SweepRound, SweepRounds};
use assay_kits::conformance::pass;
use assay_kits::naive;
use assay_work::probe::{Sweep, UncheckedSweep, sums_bytes, weights};
use assay_work::tree::CHUNK_BYTES;
use assay_work::{Digest, ProbeKey, ProbeSeed, RoundKey};

const PROBE: ProbeRound = ProbeRound { key: RoundKey([4; 32]), walks: 512, steps: 3 };

/// Rounds over slots of several sizes, whose sums fill their string or do not, in memory where longer sums and states
/// were before.
///
/// # Panics
/// When the device gives anything else than the reference.
pub fn sweeps_are_the_references(device: &mut dyn Device) {
    for (n, count) in [(2048, 3), (512, 16), (256, 3), (256, 4), (1024, 3), (512, 5)] {
        let slots = filled(device, n, count);
        let probed = device.probe_round(&PROBE, &Handle::default()).unwrap();
        for seed in [1, 2] {
            check_sweep(device, &slots, &SweepRound { key: RoundKey([seed; 32]), n, count });
            refused(device.probe_states());
        }
        assert_eq!(device.probe_round(&PROBE, &Handle::default()), Ok(probed), "n = {n}: the slots are as before");
    }
}

/// All rounds, each after the digest of the one before, and the chunks of sums that are opened.
///
/// # Panics
/// When the device gives anything else than the reference.
pub fn rounds_of_a_sweep_follow_one_another(device: &mut dyn Device) {
    let (n, count, rounds) = (256, 5, 3);
    let slots = filled(device, n, count);
    let (key, handle) = (ProbeKey([6; 32]), Handle::default());
    let asked = Sweep::try_from(UncheckedSweep { seed: ProbeSeed([1; 32]), rounds }).unwrap();
    let (sums, digests) = naive::sweep(&slots, n, &key, &asked);
    let sweep = SweepRounds { key, n, count, rounds };
    assert_eq!(device.sweep_rounds(&sweep, &handle), Ok(digests.clone()));
    assert_eq!(handle.done_steps(), u64::from(rounds));
    let opened = device.open_sums(&sweep.round(2, &digests[1]), &[0, 4 * CHUNK_BYTES], &handle).unwrap();
    let chunks: Vec<_> = opened.iter().map(|opening| &opening.bytes[..]).collect();
    let chunk = |at: usize| &sums[2][at * CHUNK_BYTES as usize..][..CHUNK_BYTES as usize];
    assert_eq!(chunks, [chunk(0), chunk(4)]);
}

/// Other slots than the resident ones, none at all, and a round that is cancelled; slots stay, states do not.
///
/// # Panics
/// When the device gives anything else.
pub fn sweeps_of_other_slots_are_refused(device: &mut dyn Device) {
    let round = SweepRound { key: RoundKey([3; 32]), n: 256, count: 3 };
    refused(device.sweep_round(&round, &Handle::default()));
    let slots = filled(device, 256, 3);
    for other in [SweepRound { n: 512, ..round }, SweepRound { count: 2, ..round }, SweepRound { count: 4, ..round }] {
        device.probe_round(&PROBE, &Handle::default()).unwrap();
        refused(device.sweep_sums(&other, &Handle::default()));
        refused(device.probe_states());
    }
    let cancelled = Handle::default();
    cancelled.cancel();
    assert_eq!(device.sweep_round(&round, &cancelled), Err(DeviceError::Cancelled));
    check_sweep(device, &slots, &round);
    device.release();
    refused(device.sweep_sums(&round, &Handle::default()));
}

/// Fills, and reads the slots back.
///
/// # Panics
/// When the device does not.
pub fn filled(device: &mut dyn Device, n: u32, count: u32) -> Vec<Vec<u8>> {
    let pass = pass(n, count, count as u8);
    device.fill(&pass, &Handle::default()).unwrap();
    let mut read = |slot| {
        let mut bytes = vec![0; pass.slot_bytes() as usize];
        device.read(slot, 0, &mut bytes).unwrap();
        bytes
    };
    (0..count).map(&mut read).collect()
}

/// A round against the reference.
///
/// # Panics
/// When the device gives anything else.
pub fn check_sweep(device: &mut dyn Device, slots: &[Vec<u8>], round: &SweepRound) {
    let SweepRound { key, n, count } = *round;
    assert!(weights(&key, n).iter().any(|weight| *weight >= 0x80), "weights of both signs");
    let sums = naive::sweep_round(slots, n, &key);
    assert_eq!(sums.len() as u64, sums_bytes(n, count));
    let handle = Handle::default();
    assert!(device.sweep_sums(round, &handle).unwrap() == sums, "{round:?}");
    assert_eq!(handle.done_steps(), 0, "sums alone are no step");
    assert_eq!(device.sweep_round(round, &handle), Ok(Digest(blake3::hash(&sums).into())), "{round:?}");
    assert_eq!(handle.done_steps(), 1);
}

fn refused<T: std::fmt::Debug>(result: Result<T, DeviceError>) {
    assert!(matches!(result, Err(DeviceError::Unsupported(_))), "{result:?}");
}
