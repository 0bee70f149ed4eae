//! What every backend's device must give: the reference's bits, whatever is asked.

use assay_device::open::{AuditedPass, ProbedDevice, open_samples, open_segments};
use assay_device::reference::ReferenceDevice;
use assay_device::{Device, Handle, Pass, ProbeRound};
use assay_work::keys::pass_key;
use assay_work::probe::probe_key;
use assay_work::{DeviceId, Digest, PassKey, RoundKey, Sample, Segment, reference};

use super::{Worked, probe};

pub fn pass(n: u32, count: u32, seed: u8) -> Pass {
    Pass { key: PassKey([seed; 32]), n, offset: u32::from(seed), count }
}

/// What a pass must give, and the device that shows it.
pub fn expected(pass: &Pass) -> (Vec<Digest>, ReferenceDevice) {
    let mut device = ReferenceDevice::new(DeviceId([9; 16]), "reference", pass.bytes());
    (device.fill(pass, &Handle::default()).unwrap(), device)
}

/// Fills on a device that must give the right digests.
pub fn check_fill(device: &mut dyn Device, pass: &Pass) {
    let handle = Handle::default();
    assert_eq!(device.fill(pass, &handle).unwrap(), expected(pass).0, "{pass:?}, {}", device.info().detail);
    assert_eq!(handle.done_steps(), u64::from(pass.count));
}

/// A round on a device in which `pass` is resident, against the walks of the specification.
pub fn check_round(device: &mut dyn Device, pass: &Pass, walks: u32, steps: u32) {
    let slots = reference::pass(&pass.key, pass.n, pass.offset, pass.count);
    let round = ProbeRound { key: RoundKey([steps as u8; 32]), walks, steps };
    let states: Vec<u8> =
        (0..walks).flat_map(|walk| reference::walk(&slots, pass.n, &round.key, walk, steps)).collect();
    let handle = Handle::default();
    let digest = device.probe_round(&round, &handle).unwrap();
    assert!(device.probe_states().unwrap() == states, "{walks} walks, {steps} steps, {pass:?}");
    assert_eq!((digest, handle.done_steps()), (Digest(blake3::hash(&states).into()), 1));
}

/// Passes and rounds of seeded shapes, one after another over memory that changes its use.
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

/// Openings of samples and of a probe's segments.
pub fn check_openings(device: &mut dyn Device) {
    for (n, count) in [(256, 6), (1024, 4)] {
        let worked = Worked::new(n, 1, count);
        let share = worked.share;
        let key = pass_key(worked.challenge.work_key(), share.device_id, 0, &worked.previous_root());
        let pass = Pass { key, n, offset: share.offset, count };
        assert_eq!(device.fill(&pass, &Handle::default()).unwrap(), worked.digests);
        let mut samples = vec![Sample::Leaf { slot: 0, row: 3 }, Sample::Leaf { slot: 1, row: n - 1 }];
        samples.extend((2..count).map(|slot| Sample::Product { slot, row: n - 1, column: 2 * slot, inner: slot }));
        let audited = AuditedPass {
            challenge: &worked.challenge,
            device_id: share.device_id,
            iteration: 0,
            previous_root: worked.previous_root(),
            root: worked.last_root(),
            slot_digests: &worked.digests,
        };
        let opened = open_samples(device, &audited, &samples, &Handle::default()).unwrap();
        assert_eq!(opened, reference::open_pass(&worked.challenge, &share, &worked.roots, 0, &samples));
        check_segments_of(&worked, device);
    }
}

fn check_segments_of(worked: &Worked, device: &mut dyn Device) {
    let (probe, id, n) = (probe(128, 9, 2), worked.share.device_id, worked.challenge.n());
    let key = probe_key(&probe, worked.challenge.work_key(), id, &worked.last_root());
    let (_, digests) = reference::probe(&worked.slots, n, &key, &probe);
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
    assert_eq!(opened, reference::open_probe(&worked.slots, n, &key, &probe, id, &segments));
}

/// Subtrees that the device makes, larger ones, which the host merges, and reads that start and end anywhere.
pub fn check_values_and_reads(device: &mut dyn Device, sizes: &[u32]) {
    for n in sizes {
        let pass = pass(*n, 3, 5);
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
