//! Linked probes over the stand-in driver: devices that map the memory of one another, and devices that cannot.

#![cfg(target_os = "linux")]

use assay_kits::naive;
use std::fs;
use std::thread;

use super::standin::{Scenario, all, id};
use assay_cuda::CudaDevice;
use assay_device::linked::{self, LinkedPart};
use assay_device::open::{LinkedPlan, LinkedSegment, OpenedLinkedProbe, join_segment};
use assay_device::run::ShareTask;
use assay_device::{Device, DeviceError, Handle, LinkedShare, PeerSlots};
use assay_kits::conformance::{check_fill, check_round, pass};
use assay_work::digest::slot_digest;
use assay_work::probe::LinkedSlots;
use assay_work::{Answer, Challenge, Digest, Probe, ProbeSeed, Segment, UncheckedChallenge, UncheckedProbe};

type Walked = Vec<Result<Vec<Digest>, DeviceError>>;

fn challenge(counts: &[u32]) -> Challenge {
    let counts = (0..).map(id).zip(counts.iter().copied());
    Challenge::try_from(UncheckedChallenge::unasked(256, 1, counts)).unwrap()
}

fn probe() -> Probe {
    Probe::try_from(UncheckedProbe { seed: ProbeSeed([5; 32]), walks: 128, steps: 7, rounds: 3, link: 1 }).unwrap()
}

/// Fills all devices with their shares, and walks the probe on a thread for each.
fn walk(devices: &mut [CudaDevice], challenge: &Challenge) -> Walked {
    let fill = |(task, device): (ShareTask, &mut CudaDevice)| task.run(device, &Handle::default()).unwrap().roots;
    let roots = ShareTask::of(challenge).into_iter().zip(&mut *devices).map(fill);
    let roots: Vec<_> = roots.map(|roots| *roots.last().unwrap()).collect();
    let parts = linked::parts(challenge, &probe(), &roots).unwrap();
    let handle = Handle::default();
    thread::scope(|scope| {
        let walk = |(device, part): (_, LinkedPart)| {
            let (device, handle): (&mut CudaDevice, _) = (device, &handle);
            scope.spawn(move || part.walk(device, handle))
        };
        let threads: Vec<_> = devices.iter_mut().zip(parts).map(walk).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn expect_reference(walked: Walked, challenge: &Challenge) {
    let digests = walked.into_iter().collect::<Result<Vec<_>, _>>().unwrap();
    assert_eq!(Answer::assemble(challenge, probe(), digests), naive::answer(challenge, &probe()));
}

/// Opens a segment of each round and device, after the probe, and expects the reference's openings.
fn open(devices: &mut [CudaDevice], challenge: &Challenge) {
    let (probe, shares) = (probe(), challenge.shares());
    let (roots, slots): (Vec<_>, Vec<_>) = shares.iter().map(|share| naive::share(challenge, share)).unzip();
    let roots: Vec<_> = roots.iter().map(|roots| *roots.last().unwrap()).collect();
    let answer = naive::answer(challenge, &probe);
    let of_round = |round| (0..shares.len()).map(move |device| (device, Segment { round, walk: 9 * round + 1 }));
    let segments: Vec<_> = (0..probe.rounds()).flat_map(of_round).collect();
    let drawn: Vec<_> = segments.iter().map(|&(device, segment)| LinkedSegment { device, segment }).collect();
    let opened = thread::scope(|scope| {
        let open = |((device, part), slots): ((_, LinkedPart), &Vec<Vec<u8>>)| {
            let (device, slot_digests): (&mut CudaDevice, _) = (device, naive::digests(slots));
            let (answer, drawn) = (&answer, &drawn);
            scope.spawn(move || {
                let probed = OpenedLinkedProbe { n: 256, probe: &probe, answer, slot_digests: &slot_digests };
                let plan = LinkedPlan::new(device, part, &probed, drawn, &Handle::default()).unwrap();
                (0..plan.len()).map(|index| plan.piece(device, index).unwrap()).collect::<Vec<_>>()
            })
        };
        let parts = linked::parts(challenge, &probe, &roots).unwrap();
        let threads: Vec<_> = devices.iter_mut().zip(parts).zip(&slots).map(open).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    for (index, (device, segment)) in segments.into_iter().enumerate() {
        let pieces = opened.iter().map(|of_device| of_device[index].clone()).collect();
        let joined = join_segment(&LinkedSlots::new(challenge), segment, pieces).unwrap();
        let expected = naive::open_linked_probe(challenge, &slots, &probe, device, &[segment]);
        assert_eq!([joined], *expected.segments, "{segment:?} of device {device}");
    }
}

/// How often a kernel was launched, by the log of the stand-in of this process.
fn launches(kernel: &str) -> usize {
    let log = fs::read_to_string(std::env::var_os("ASSAY_STANDIN_LOG").unwrap()).unwrap();
    log.lines().filter(|line| line.starts_with(&format!("launch {kernel} "))).count()
}

#[test]
fn devices_that_reach_one_another_walk_over_the_slots_of_all() {
    let test = "devices_that_reach_one_another_walk_over_the_slots_of_all";
    for counts in [&[3, 3][..], &[17, 3, 7], &[3, 4, 5, 6, 3, 4, 5, 3]] {
        let log = tempfile::NamedTempFile::new().unwrap();
        let scenario = Scenario::new(test, counts.len().to_string()).with("DEVICES", counts.len().to_string());
        scenario.with("PEERS", "2").with("LOG", log.path()).run(|| {
            let (mut devices, challenge) = (all(), challenge(counts));
            // Twice: mappings are released.
            for _ in 0..2 {
                expect_reference(walk(&mut devices, &challenge), &challenge);
            }
            // Three rounds and the test before them.
            let walked = launches("assay_linked_probe");
            assert!(walked >= 2 * 4 * counts.len());
            // To open them each round is walked the same way once more, not by exchange.
            open(&mut devices, &challenge);
            assert!(launches("assay_linked_probe") >= walked + 4 * counts.len());
            // The slots are the device's own all the while.
            for (device, share) in devices.iter_mut().zip(challenge.shares()) {
                let pass = pass(256, share.count, 9);
                check_fill(device, &pass);
                check_round(device, &pass, 64, 5);
            }
        });
    }
}

/// None walks over the others' slots where one cannot.
#[test]
fn devices_of_which_one_reaches_no_other_exchange_states() {
    let test = "devices_of_which_one_reaches_no_other_exchange_states";
    // The last one maps them and reads something else: it is found before the first round.
    for (peers, tested) in [("0", 0), ("2,0,2", 0), ("2,1,2", 0), ("1", 0), ("2,3,2", 3)] {
        let log = tempfile::NamedTempFile::new().unwrap();
        let scenario = Scenario::new(test, peers).with("DEVICES", "3").with("PEERS", peers);
        scenario.with("LOG", log.path()).run(|| {
            let (mut devices, challenge) = (all(), challenge(&[5, 3, 4]));
            expect_reference(walk(&mut devices, &challenge), &challenge);
            // A launch makes a step at least, fewer than are left on a slow machine. With three rounds more, each of
            // two launches at least, there would be 24.
            assert!(launches("assay_linked_probe") <= probe().steps() as usize * tested, "{peers}");
            assert_eq!(launches("assay_linked_probe") > 0, tested > 0, "{peers}");
            assert!(launches("assay_step") > 0);
            open(&mut devices, &challenge);
            assert!(launches("assay_linked_probe") <= 2 * probe().steps() as usize * tested, "{peers}");
            assert!(devices.iter().all(|device| device.fault().is_none()));
        });
    }
}

/// A driver that fails at any call on the way gives up mapping, or the device.
#[test]
fn what_fails_on_the_way_ends_in_the_exchange_or_in_a_sick_device() {
    let test = "what_fails_on_the_way_ends_in_the_exchange_or_in_a_sick_device";
    for (fault, is_sick) in [
        ("cuMemImportFromShareableHandle@0:1:999", false),
        // The first is tried out at the start, the second are the slots.
        ("cuMemAddressReserve@0:3:2", false),
        ("cuMemMap@0:3:1", false),
        ("cuMemSetAccess@0:3:801", false),
        ("cuMemCreate@0:2:801", false),
        ("cuMemExportToShareableHandle@0:1:999", false),
        ("cuMemExportToShareableHandle@0:2:999", true),
        ("cuMemImportFromShareableHandle@0:1:sticky700", true),
        ("assay_linked_probe@0:4:sticky700", true),
        ("assay_linked_probe@0:1:hang", true),
    ] {
        let log = tempfile::NamedTempFile::new().unwrap();
        let scenario = Scenario::new(test, fault).with("DEVICES", "2").with("PEERS", "2").with("FAULT", fault);
        scenario.with("LOG", log.path()).run(|| {
            let (mut devices, challenge) = (all(), challenge(&[3, 4]));
            let walked = walk(&mut devices, &challenge);
            if is_sick {
                assert!(matches!(walked[0], Err(DeviceError::Sick(_))), "{walked:?}");
                assert_eq!(walked[1], Err(DeviceError::Cancelled));
            } else {
                expect_reference(walked, &challenge);
                assert_eq!(launches("assay_linked_probe"), 0);
            }
        });
    }
}

/// Memory that others may map is taken and given back as any other.
#[test]
fn slots_that_can_be_shared_are_taken_and_given_back() {
    let test = "slots_that_can_be_shared_are_taken_and_given_back";
    let settings =
        |name: &str| Scenario::new(test, name).with("DEVICES", "1").with("PEERS", "2").with("MEMORY_MIB", "40");
    settings("taken").run(|| {
        let mut device = all().remove(0);
        let (free, fits) = (device.info().free_bytes, device.slots_that_fit(256));
        for _ in 0..3 {
            check_fill(&mut device, &pass(256, fits, 3));
            assert_eq!((device.info().free_bytes, device.slots_that_fit(256)), (free, fits));
            device.release();
            assert_eq!((device.info().free_bytes, device.slots_that_fit(256)), (free, fits));
        }
    });
    settings("missing").with("FAULT", "cuMemCreate:2:2").run(|| {
        let mut device = all().remove(0);
        let pass = pass(256, 5, 3);
        assert!(matches!(device.fill(&pass, &Handle::default()), Err(DeviceError::Busy { .. })));
        check_fill(&mut device, &pass);
    });
}

/// A driver that says it shares memory and refuses at any call of it gives plain memory: the device works as any other.
#[test]
fn a_driver_that_refuses_shared_memory_gives_plain_memory() {
    let test = "a_driver_that_refuses_shared_memory_gives_plain_memory";
    let refused = |call: &str| (call.to_owned(), false);
    let calls = ["cuMemGetAllocationGranularity", "cuMemCreate", "cuMemAddressReserve", "cuMemMap", "cuMemSetAccess"];
    // At the start, with the slots, and always.
    let faults =
        calls.iter().flat_map(|call| [":1:801", ":2:1", ":1+:999"].map(|when| refused(&format!("{call}{when}"))));
    let exports = ["cuMemExportToShareableHandle:1:801", "cuMemExportToShareableHandle:1+:1"].map(refused);
    // Memory that is full for a moment refuses nothing.
    let full = ("cuMemCreate:1:2".to_owned(), true);
    for (fault, shares) in faults.chain(exports).chain([full]) {
        Scenario::new(test, &fault).with("DEVICES", "1").with("PEERS", "2").with("FAULT", &fault).run(|| {
            let mut device = all().remove(0);
            for count in [3, 9] {
                let pass = pass(256, count, 9);
                check_fill(&mut device, &pass);
                check_round(&mut device, &pass, 64, 5);
                assert_eq!(device.share_slots().unwrap().is_some(), shares, "{fault}");
            }
            assert_eq!(device.fault(), None, "{fault}");
        });
    }
}

#[test]
fn devices_that_make_up_no_probe_are_refused() {
    let test = "devices_that_make_up_no_probe_are_refused";
    Scenario::new(test, "two").with("DEVICES", "2").with("PEERS", "2").run(|| {
        let mut devices = all();
        let mut second = devices.pop().unwrap();
        let mut first = devices.pop().unwrap();
        assert!(matches!(first.share_slots(), Err(DeviceError::Unsupported(_))), "nothing is resident");
        for device in [&mut first, &mut second] {
            check_fill(device, &pass(256, 4, 1));
        }
        let round = assay_device::ProbeRound { key: assay_work::RoundKey([1; 32]), walks: 64, steps: 1 };
        let unmapped = first.linked_round(&round, &Handle::default());
        assert!(matches!(unmapped, Err(DeviceError::Unsupported(_))), "{unmapped:?}");
        let mut slots = || second.share_slots().unwrap();
        let share = |offset, count, total| LinkedShare { n: 256, offset, count, total };
        let mut check = |shares: [(LinkedShare, bool); 2]| {
            let mut peers = Vec::new();
            for (share, is_own) in shares {
                peers.push(PeerSlots { share, slots: if is_own { None } else { slots() } });
            }
            first.map_peers(&peers)
        };
        let wrong = [
            // No own slots, and twice the own.
            [(share(0, 4, 8), false), (share(4, 4, 8), false)],
            [(share(0, 4, 8), true), (share(4, 4, 8), true)],
            // A gap, another total, another size, more than there are.
            [(share(0, 4, 9), true), (share(5, 4, 9), false)],
            [(share(0, 4, 9), true), (share(4, 4, 9), false)],
            [(share(0, 4, 8), true), (LinkedShare { n: 512, ..share(4, 4, 8) }, false)],
            [(share(0, 5, 9), true), (share(5, 4, 9), false)],
            [(share(0, 4, 4096), true), (share(4, 4092, 4096), false)],
        ];
        for shares in wrong {
            let refused = check(shares);
            assert!(matches!(refused, Err(DeviceError::Unsupported(_))), "{shares:?}: {refused:?}");
        }
        assert_eq!(check([(share(0, 4, 8), true), (share(4, 4, 8), false)]), Ok(true));
        assert!(matches!(first.probe_states(), Err(DeviceError::Unsupported(_))), "no round was walked");
        let digest = first.linked_round(&round, &Handle::default()).unwrap();
        let states = first.probe_states().unwrap();
        assert_eq!((states.len(), slot_digest(&states)), (64 * 64, digest));
        first.unmap_peers();
        assert!(matches!(first.linked_round(&round, &Handle::default()), Err(DeviceError::Unsupported(_))));
    });
}
