//! The linked probe on devices of tests: as the reference walks it, and given up in its midst.

use crate::naive;
use std::thread;
use std::time::Duration;

use assay_work::UncheckedProbe;
use assay_work::{ChallengeId, DeviceId, Nonce, Precision, ProbeSeed, PublicKey, Share, UncheckedChallenge};

use super::*;
use crate::reference::ReferenceDevice;
use crate::run::ShareTask;
use crate::{DeviceInfo, Pass, ProbeRound};

fn challenge(counts: &[u32]) -> Challenge {
    let mut offset = 0;
    let share = |(index, &count): (usize, &u32)| {
        let share = Share { device_id: DeviceId([index as u8 + 1; 16]), offset, count };
        offset += count;
        share
    };
    let unchecked = UncheckedChallenge {
        version: 1,
        challenge_id: ChallengeId([1; 16]),
        nonce: Nonce([2; 32]),
        validator_key: PublicKey([3; 32]),
        miner_key: PublicKey([4; 32]),
        precision: Precision::Int8.code(),
        n: 256,
        iterations: 1,
        shares: counts.iter().enumerate().map(share).collect(),
    };
    Challenge::try_from(unchecked).unwrap()
}

fn probe(walks: u32, steps: u32, rounds: u32) -> Probe {
    Probe::try_from(UncheckedProbe { seed: ProbeSeed([5; 32]), walks, steps, rounds, link: 1 }).unwrap()
}

/// Devices that hold the slots of the shares, and the roots of those.
fn filled(challenge: &Challenge) -> (Vec<ReferenceDevice>, Vec<Root>) {
    let fill = |task: ShareTask| {
        let mut device = ReferenceDevice::new(task.share.device_id, "reference", 1 << 22);
        let roots = task.run(&mut device, &Handle::default()).unwrap().roots;
        (device, *roots.last().unwrap())
    };
    ShareTask::of(challenge).into_iter().map(fill).unzip()
}

/// Walks on a thread for each device.
fn walk_all<D: Device>(
    devices: &mut [D],
    parts: Vec<LinkedPart>,
    handle: &Handle,
) -> Vec<Result<Vec<Digest>, DeviceError>> {
    thread::scope(|scope| {
        let walk = |(device, part): (_, LinkedPart)| {
            let device: &mut D = device;
            scope.spawn(move || part.walk(device, handle))
        };
        let threads: Vec<_> = devices.iter_mut().zip(parts).map(walk).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn devices_together_walk_as_the_reference() {
    for (counts, walks, steps, rounds) in
        [(&[3, 3][..], 64, 1, 1), (&[5, 3, 9], 128, 7, 3), (&[3, 4, 5, 6, 3, 4, 5, 3], 64, 3, 2), (&[3, 40], 64, 5, 4)]
    {
        let (challenge, probe) = (challenge(counts), probe(walks, steps, rounds));
        let (mut devices, roots) = filled(&challenge);
        let handle = Handle::default();
        let digests = walk_all(&mut devices, parts(&challenge, &probe, &roots).unwrap(), &handle);
        let digests = digests.into_iter().collect::<Result<Vec<_>, _>>().unwrap();
        let answer = assay_work::Answer::assemble(&challenge, probe, digests);
        assert_eq!(answer, naive::answer(&challenge, &probe), "{counts:?}");
        assert_eq!(handle.done_steps(), counts.len() as u64 * u64::from(rounds));
    }
}

/// More walks of a device than are stepped at once.
#[test]
fn many_walks_are_stepped_in_batches() {
    let (challenge, probe) = (challenge(&[3, 3]), probe(1 << 16, 2, 1));
    let (mut devices, roots) = filled(&challenge);
    let digests = walk_all(&mut devices, parts(&challenge, &probe, &roots).unwrap(), &Handle::default());
    let digests = digests.into_iter().collect::<Result<Vec<_>, _>>().unwrap();
    assert_eq!(assay_work::Answer::assemble(&challenge, probe, digests), naive::answer(&challenge, &probe));
}

/// A device whose every step takes a while, or fails after some.
struct Slow {
    inner: ReferenceDevice,
    steps_left: u32,
    pause: Duration,
}

impl Device for Slow {
    fn info(&self) -> DeviceInfo {
        self.inner.info()
    }

    fn slots_that_fit(&self, n: u32) -> u32 {
        self.inner.slots_that_fit(n)
    }

    fn fill(&mut self, pass: &Pass, handle: &Handle) -> Result<Vec<Digest>, DeviceError> {
        self.inner.fill(pass, handle)
    }

    fn probe_round(&mut self, round: &ProbeRound, handle: &Handle) -> Result<Digest, DeviceError> {
        self.inner.probe_round(round, handle)
    }

    fn step_states(&mut self, share: &LinkedShare, states: &mut [StateBytes]) -> Result<(), DeviceError> {
        thread::sleep(self.pause);
        let left = self.steps_left.checked_sub(1);
        self.steps_left = left.ok_or_else(|| DeviceError::Sick("gone in the middle of a round".into()))?;
        self.inner.step_states(share, states)
    }

    fn probe_states(&mut self) -> Result<Vec<u8>, DeviceError> {
        self.inner.probe_states()
    }

    fn read(&mut self, slot: u32, first_byte: u64, out: &mut [u8]) -> Result<(), DeviceError> {
        self.inner.read(slot, first_byte, out)
    }

    fn chaining_values(&mut self, slot: u32, subtree_bytes: u64) -> Result<Vec<[u8; 32]>, DeviceError> {
        self.inner.chaining_values(slot, subtree_bytes)
    }

    fn release(&mut self) {
        self.inner.release();
    }
}

fn slow(devices: Vec<ReferenceDevice>, steps_left: u32, pause: Duration) -> Vec<Slow> {
    // The last one fails, if any does.
    let last = devices.len() - 1;
    let slow = |(index, inner)| Slow { inner, steps_left: if index == last { steps_left } else { u32::MAX }, pause };
    devices.into_iter().enumerate().map(slow).collect()
}

#[test]
fn a_device_that_fails_in_the_middle_of_a_round_ends_the_probe_for_all() {
    let (challenge, probe) = (challenge(&[3, 4, 5]), probe(64, 8, 2));
    let (devices, roots) = filled(&challenge);
    let mut devices = slow(devices, 11, Duration::ZERO);
    let results = walk_all(&mut devices, parts(&challenge, &probe, &roots).unwrap(), &Handle::default());
    let sick = DeviceError::Sick("gone in the middle of a round".into());
    assert_eq!(results, [Err(DeviceError::Cancelled), Err(DeviceError::Cancelled), Err(sick)]);
}

#[test]
fn a_part_that_is_never_walked_ends_the_probe_for_all() {
    let (challenge, probe) = (challenge(&[3, 3, 3]), probe(64, 2, 2));
    let (mut devices, roots) = filled(&challenge);
    let mut parts = parts(&challenge, &probe, &roots).unwrap();
    // A device's thread that is gone takes its queued part with it.
    drop(parts.remove(1));
    devices.remove(1);
    let results = walk_all(&mut devices, parts, &Handle::default());
    assert_eq!(results, [Err(DeviceError::Cancelled), Err(DeviceError::Cancelled)]);
}

#[test]
fn a_cancelled_probe_ends_on_all_devices() {
    let (challenge, probe) = (challenge(&[3, 3]), probe(64, 1024, 65_536));
    let (devices, roots) = filled(&challenge);
    let mut devices = slow(devices, u32::MAX, Duration::from_millis(1));
    let (handle, parts) = (Handle::default(), parts(&challenge, &probe, &roots).unwrap());
    let results = thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(50));
            handle.cancel();
        });
        walk_all(&mut devices, parts, &handle)
    });
    // It would take days.
    assert_eq!(results, [Err(DeviceError::Cancelled), Err(DeviceError::Cancelled)]);
}

#[test]
fn what_links_nothing_is_refused() {
    let plain = Probe::try_from(UncheckedProbe { link: 0, ..*probe(64, 1, 1).fields() }).unwrap();
    let (two, one) = (challenge(&[3, 3]), challenge(&[6]));
    for (challenge, probe, roots) in [(&two, plain, 2), (&one, probe(64, 1, 1), 1)] {
        let refused = parts(challenge, &probe, &vec![Root([0; 32]); roots]).unwrap_err();
        assert!(matches!(refused, DeviceError::Unsupported(_)), "{refused}");
    }
}

#[test]
fn walks_leave_most_of_the_hosts_memory_to_the_devices() {
    assert_eq!(check_memory(1 << 18, (8 * WALK_BYTES) << 18), Ok(()));
    let busy = DeviceError::Busy { needed_bytes: WALK_BYTES << 18, free_bytes: (WALK_BYTES << 18) - 1 };
    assert_eq!(check_memory(1 << 18, ((8 * WALK_BYTES) << 18) - 1), Err(busy));
}

#[test]
fn a_device_refuses_the_lines_of_others() {
    let challenge = challenge(&[3, 5]);
    let (mut devices, _) = filled(&challenge);
    let own = LinkedShare { n: 256, offset: 3, count: 5, total: 8 };
    // All words zero: the first line of the first slot.
    let refused = devices[1].step_states(&own, &mut [[0; LINE_BYTES]]).unwrap_err();
    assert!(matches!(refused, DeviceError::Unsupported(_)), "{refused}");
    assert_eq!(devices[0].step_states(&LinkedShare { offset: 0, count: 3, ..own }, &mut [[0; LINE_BYTES]]), Ok(()));
    let wrong = [
        LinkedShare { n: 300, ..own },
        LinkedShare { count: 0, ..own },
        LinkedShare { offset: 4, ..own },
        LinkedShare { total: u32::MAX, ..own },
        LinkedShare { offset: u32::MAX, ..own },
    ];
    for share in wrong {
        assert!(devices[1].step_states(&share, &mut []).is_err(), "{share:?}");
    }
    let mut many = vec![[0; LINE_BYTES]; MAX_STEPPED_STATES + 1];
    assert!(devices[0].step_states(&LinkedShare { offset: 0, count: 3, ..own }, &mut many).is_err());
}
