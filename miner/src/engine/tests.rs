//! A challenge with both probes on devices of tests: answers and openings equal the reference's and hold the
//! validator's checks, and each failure is reported with its cause.

use assay_kits::naive;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use assay_device::Device;
use assay_kits::FakeDevice;
use assay_kits::reference::ReferenceDevice;
use assay_protocol::message::OpenTarget;
use assay_work::opening::PassSample;
use assay_work::segment::{Segment, SegmentAudit, SegmentCheck, check_slot_digests};
use assay_work::{ProbeSeed, UncheckedChallenge, UncheckedProbe};

use super::*;

/// How long cancelled work may go on, with leave for a busy machine; a device promises 200 ms.
const STOP_LIMIT: Duration = Duration::from_millis(1000);

fn id(index: usize) -> DeviceId {
    DeviceId([index as u8 + 1; 16])
}

fn challenge(counts: &[u32], iterations: u32) -> Arc<Challenge> {
    let counts = (0..).map(id).zip(counts.iter().copied());
    let miner_key = identity().public_key();
    let unchecked = UncheckedChallenge { miner_key, ..UncheckedChallenge::unasked(256, iterations, counts) };
    Arc::new(Challenge::try_from(unchecked).unwrap())
}

fn probe(link: Link, walks: u32, steps: u32, rounds: u32) -> Probe {
    let seed = ProbeSeed([5 + link.code() as u8; 32]);
    Probe::try_from(UncheckedProbe { seed, walks, steps, rounds, link: link.code() }).unwrap()
}

fn identity() -> Identity {
    Identity::from_seed(&[7; 32])
}

fn device(index: usize, count: u32) -> ReferenceDevice {
    ReferenceDevice::new(id(index), "a device", u64::from(count) << 16)
}

fn engine(devices: Vec<Box<dyn Device>>) -> Engine {
    Engine::new(Host::new(devices), identity())
}

fn honest(counts: &[u32]) -> Engine {
    engine(counts.iter().enumerate().map(|(index, &count)| Box::new(device(index, count)) as Box<dyn Device>).collect())
}

/// Devices of which one does this before each of its reads, with the number of those before.
fn with_reads(
    counts: &[u32],
    at: usize,
    before: impl Fn(u32) -> Result<(), DeviceError> + Send + Sync + 'static,
) -> Engine {
    let before = Arc::new(before);
    let device = |(index, &count): (usize, &u32)| {
        let (reads, before) = (AtomicU32::new(0), before.clone());
        let read = move |inner: &mut ReferenceDevice, slot, first_byte, out: &mut [u8]| {
            if index == at {
                before(reads.fetch_add(1, Ordering::Relaxed))?;
            }
            inner.read(slot, first_byte, out)
        };
        Box::new(FakeDevice { read: Box::new(read), ..FakeDevice::new(device(index, count)) }) as Box<dyn Device>
    };
    engine(counts.iter().enumerate().map(device).collect())
}

/// The answer that messages carry.
fn answer_of(messages: &[MinerMessage]) -> Answer {
    let [MinerMessage::ProbeAnswer(signed), digests @ ..] = messages else { panic!("{messages:?}") };
    let device = |message: &MinerMessage| match message {
        MinerMessage::DeviceDigests(digests) => digests.answer.clone(),
        other => panic!("{other:?}"),
    };
    Answer { devices: digests.iter().map(device).collect(), checksum: signed.checksum, signature: None }
}

fn roots_of(messages: &[MinerMessage]) -> Vec<Root> {
    let last = |message: &MinerMessage| match message {
        MinerMessage::DeviceRoots(roots) => roots.evidence.roots.last().copied(),
        _ => None,
    };
    messages.iter().filter_map(last).collect()
}

/// Opens, and gives the parts of each item.
fn open(engine: &Engine, items: &[OpenItem]) -> Result<Vec<Vec<OpeningsPart>>, DeviceError> {
    let mut parts = vec![Vec::new(); items.len()];
    let mut last = 0;
    engine.open(ChallengeId([1; 16]), items.to_vec(), &Handle::default(), |chunk| {
        assert!(chunk.item == last || chunk.item == last + 1, "in the order of the items");
        last = chunk.item;
        parts[chunk.item as usize].push(chunk.part);
        true
    })?;
    Ok(parts)
}

fn linked_item(device: usize, segments: &[(u32, u32)]) -> OpenItem {
    let segments = segments.iter().map(|&(round, walk)| Segment { round, walk }).collect();
    OpenItem { device_id: id(device), what: OpenTarget::LinkedSegments(segments) }
}

fn own_item(device: usize, segments: &[(u32, u32)]) -> OpenItem {
    let segments = segments.iter().map(|&(round, walk)| Segment { round, walk }).collect();
    OpenItem { device_id: id(device), what: OpenTarget::Segments(segments) }
}

fn samples_item(device: usize, iteration: u32) -> OpenItem {
    let samples = vec![PassSample::Product { slot: 2, row: 9, column: 3, inner: 4 }];
    OpenItem { device_id: id(device), what: OpenTarget::Samples { iteration, samples } }
}

/// The digests that an item began with, and the segments behind them, up to its end.
fn split_item(parts: &[OpeningsPart]) -> (Vec<Digest>, Vec<&assay_work::SegmentOpenings>) {
    let (mut digests, mut segments) = (Vec::new(), Vec::new());
    let (end, parts) = parts.split_last().unwrap();
    assert_eq!(*end, OpeningsPart::End);
    for part in parts {
        match part {
            OpeningsPart::SlotDigests(more) if segments.is_empty() => digests.extend_from_slice(more),
            OpeningsPart::Segment(segment) => segments.push(segment),
            other => panic!("{other:?}"),
        }
    }
    (digests, segments)
}

/// Items of linked segments as the validator checks them.
fn check_linked(
    challenge: &Challenge,
    probe: &Probe,
    answer: &Answer,
    roots: &[Root],
    items: &[(&OpenItem, &Vec<OpeningsPart>)],
) {
    let mut all = Vec::new();
    for (place, (item, parts)) in items.iter().enumerate() {
        let OpenTarget::LinkedSegments(drawn) = &item.what else { panic!("{item:?}") };
        let (digests, segments) = split_item(parts);
        assert_eq!(digests.is_empty(), place > 0, "the first item alone has the digests, of all devices");
        all.extend(digests);
        let mut rest = &all[..];
        let lists = challenge.shares().iter().map(|share| {
            let (of_device, after) = rest.split_at(share.count as usize);
            rest = after;
            (share.device_id, of_device)
        });
        let checked = check_slot_digests(challenge, roots, lists.collect::<Vec<_>>()).unwrap();
        let audit = SegmentAudit::linked(challenge, probe, item.device_id, roots, answer, drawn);
        let mut check = SegmentCheck::linked(&audit, checked);
        segments.into_iter().for_each(|segment| check.segment(segment).unwrap());
        check.finish().unwrap();
    }
}

#[test]
fn each_device_is_finished_with_the_checksum_of_its_roots() {
    for counts in [&[3, 5][..], &[7]] {
        let (sender, finished) = mpsc::channel();
        let (challenge, engine) = (challenge(counts, 2), honest(counts));
        let finish = move |device, checksum| sender.send((device, checksum)).unwrap();
        let messages = engine.work(&challenge, &Handle::default(), finish).unwrap();
        let mut finished: Vec<_> = finished.iter().collect();
        finished.sort();
        let committed = messages.into_iter().filter_map(|message| match message {
            MinerMessage::DeviceRoots(DeviceRoots { evidence, .. }) => Some((evidence.device_id, evidence.checksum)),
            _ => None,
        });
        assert_eq!(finished, committed.collect::<Vec<_>>());
    }
}

#[test]
fn both_probes_of_uneven_devices_are_the_references_and_open_as_checked() {
    for counts in [&[3, 5][..], &[5, 3, 9], &[3, 4, 5, 6, 3, 4, 5, 3]] {
        let (challenge, engine) = (challenge(counts, 2), honest(counts));
        let (own, linked) = (probe(Link::Own, 64, 3, 2), probe(Link::All, 128, 5, 3));
        let handle = Handle::default();
        let roots = roots_of(&engine.work(&challenge, &handle, |_, _| ()).unwrap());
        let of_own = engine.probe(challenge.id(), own, &handle, |_, _| ()).unwrap();
        assert_eq!(answer_of(&of_own), naive::answer(&challenge, &own), "{counts:?}");
        let of_linked = engine.probe(challenge.id(), linked, &handle, |_, _| ()).unwrap();
        let answer = answer_of(&of_linked);
        assert_eq!(answer, naive::answer(&challenge, &linked), "{counts:?}");
        let MinerMessage::ProbeAnswer(signed) = &of_linked[0] else { panic!() };
        let committed = engine.held(challenge.id()).unwrap().evidence.checksum;
        let message = probe_message(challenge.work_key(), &committed, linked, &signed.checksum);
        assert_eq!(signed.signature, identity().sign(&message));
        // Linked items between items of an earlier iteration, of the other probe and of the last iteration, not in the
        // order of the devices, one of them twice, and one without an item of its own.
        let last = counts.len() - 1;
        let items = [
            samples_item(0, 0),
            own_item(last, &[(1, 63)]),
            linked_item(last, &[(2, 127), (0, 5), (2, 0)]),
            linked_item(0, &[(0, 5)]),
            linked_item(last, &[(1, 64), (2, 127)]),
            samples_item(last, 0),
            own_item(0, &[(0, 0), (1, 1)]),
            samples_item(last, 1),
        ];
        let parts = open(&engine, &items).unwrap();
        let of_items: Vec<_> = items.iter().zip(&parts).collect();
        check_linked(&challenge, &linked, &answer, &roots, &of_items[2..5]);
        for (item, parts) in of_items.iter().filter(|(item, _)| !is_linked(item)) {
            let count = counts[usize::from(item.device_id.0[0]) - 1] as usize;
            assert!(matches!(&parts[0], OpeningsPart::SlotDigests(digests) if digests.len() == count), "{item:?}");
            assert_eq!(parts.last(), Some(&OpeningsPart::End));
        }
        // Again, alone, and with nothing but an empty item.
        let again = [linked_item(1, &[(1, 1)])];
        check_linked(&challenge, &linked, &answer, &roots, &[(&again[0], &open(&engine, &again).unwrap()[0])]);
        let empty = [linked_item(1, &[])];
        check_linked(&challenge, &linked, &answer, &roots, &[(&empty[0], &open(&engine, &empty).unwrap()[0])]);
    }
}

/// More segments than a device may be ahead of the connection, read slowly: nothing waits for anything for ever.
#[test]
fn many_segments_are_streamed() {
    let counts = [3, 4];
    let (challenge, engine) = (challenge(&counts, 1), honest(&counts));
    let (linked, handle) = (probe(Link::All, 64, 2, 4), Handle::default());
    let roots = roots_of(&engine.work(&challenge, &handle, |_, _| ()).unwrap());
    let answer = answer_of(&engine.probe(challenge.id(), linked, &handle, |_, _| ()).unwrap());
    let all: Vec<_> = (0..4).flat_map(|round| (0..16).map(move |walk| (round, walk))).collect();
    let items = [linked_item(1, &all), linked_item(0, &all)];
    let parts = open(&engine, &items).unwrap();
    check_linked(&challenge, &linked, &answer, &roots, &items.iter().zip(&parts).collect::<Vec<_>>());
}

/// A validator that takes nothing has a device read little: neither many items nor one large item are read ahead of it.
#[test]
fn a_device_reads_a_few_parts_ahead_of_the_connection() {
    let reads = Arc::new(AtomicU32::new(0));
    let seen = reads.clone();
    let engine = with_reads(&[4], 0, move |number| {
        seen.store(number + 1, Ordering::Relaxed);
        Ok(())
    });
    let (challenge, handle) = (challenge(&[4], 1), Handle::default());
    engine.work(&challenge, &handle, |_, _| ()).unwrap();
    engine.probe(challenge.id(), probe(Link::Own, 64, 8, 4), &handle, |_, _| ()).unwrap();
    let segments: Vec<_> = (0..4).flat_map(|round| (0..64).map(move |walk| (round, walk))).collect();
    let many: Vec<_> = segments.iter().map(|&segment| own_item(0, &[segment])).collect();
    for items in [many, vec![own_item(0, &segments)]] {
        let before = reads.load(Ordering::Relaxed);
        let read = || reads.load(Ordering::Relaxed) - before;
        let mut blocked = u32::MAX;
        let opened = engine.open(challenge.id(), items.clone(), &Handle::default(), |_| {
            while std::mem::replace(&mut blocked, read()) != read() {
                thread::sleep(Duration::from_millis(300));
            }
            false
        });
        assert_eq!(opened, Err(DeviceError::Cancelled));
        let before = reads.load(Ordering::Relaxed);
        open(&engine, &items).unwrap();
        let all = reads.load(Ordering::Relaxed) - before;
        assert!(blocked < all / 10, "{blocked} of {all} reads before anything was taken");
    }
}

/// Regression test: an item of 65,536 samples, which one message may ask for, was planned at once: 1.5 GB of ranges.
#[test]
fn samples_are_planned_a_few_at_a_time() {
    let engine = honest(&[4]);
    let (challenge, handle) = (challenge(&[4], 1), Handle::default());
    engine.work(&challenge, &handle, |_, _| ()).unwrap();
    let sample = |slot| PassSample::Product { slot, row: 9, column: 3, inner: 4 };
    let mut samples = vec![sample(2); MAX_PLANNED_SAMPLES];
    samples.push(sample(4));
    let item = OpenItem { device_id: id(0), what: OpenTarget::Samples { iteration: 0, samples } };
    let mut opened = 0;
    let failed = engine.open(challenge.id(), vec![item], &handle, |part| {
        opened += usize::from(matches!(part.part, OpeningsPart::Sample(_)));
        true
    });
    assert!(matches!(&failed, Err(DeviceError::Unsupported(why)) if why.contains("has no sample")), "{failed:?}");
    assert_eq!(opened, MAX_PLANNED_SAMPLES, "those before are opened before it is planned");
}

#[test]
fn a_device_that_fails_in_a_linked_probe_is_the_one_to_blame() {
    let counts = [3, 4, 5];
    let sick = DeviceError::Sick("gone".into());
    for failing in 0..3 {
        let why = sick.clone();
        // 3 times 64 walks make 1536 steps a round, some 400 to 600 of them on each device.
        let engine = with_reads(&counts, failing, move |reads| if reads < 900 { Ok(()) } else { Err(why.clone()) });
        let (challenge, handle) = (challenge(&counts, 1), Handle::default());
        engine.work(&challenge, &handle, |_, _| ()).unwrap();
        assert_eq!(
            engine.probe(challenge.id(), probe(Link::All, 64, 8, 9), &handle, |_, _| ()),
            Err(sick.clone()),
            "{failing}"
        );
        // Nothing was answered that could be opened.
        assert!(matches!(open(&engine, &[linked_item(0, &[(0, 0)])]), Err(DeviceError::Unsupported(_))));
    }
}

/// A panic takes the job with it, and the part of the probe: the others must not wait for it.
#[test]
fn a_device_whose_job_panics_ends_the_probe_for_all() {
    let engine = with_reads(&[3, 4], 1, |reads| if reads < 100 { Ok(()) } else { panic!("as the test wants it") });
    let (challenge, handle) = (challenge(&[3, 4], 1), Handle::default());
    engine.work(&challenge, &handle, |_, _| ()).unwrap();
    let failed = engine.probe(challenge.id(), probe(Link::All, 64, 8, 9), &handle, |_, _| ()).unwrap_err();
    assert!(matches!(&failed, DeviceError::Sick(why) if why.contains("thread failed")), "{failed}");
}

/// Wherever a device fails while linked segments are opened, its error is reported, and not that of a device that
/// stopped for it: also where items of other devices come first and take longer.
#[test]
fn a_device_that_fails_in_an_opening_is_the_one_to_blame() {
    let counts = [3, 4, 5];
    let (linked, sick) = (probe(Link::All, 64, 4, 2), DeviceError::Sick("gone".into()));
    let items = [
        samples_item(0, 0),
        samples_item(1, 0),
        linked_item(0, &[(0, 5), (1, 6)]),
        linked_item(2, &[(1, 63), (0, 0), (1, 1), (1, 2), (1, 3), (1, 4), (1, 5)]),
        samples_item(0, 1),
    ];
    let fail_after = |allowed: u32| {
        let broken = Arc::new(AtomicU32::new(u32::MAX));
        let (left, why) = (broken.clone(), sick.clone());
        let engine = with_reads(&counts, 2, move |_| {
            let before = left.load(Ordering::Relaxed);
            left.store(before.saturating_sub(1), Ordering::Relaxed);
            if before == 0 { Err(why.clone()) } else { Ok(()) }
        });
        let (challenge, handle) = (challenge(&counts, 2), Handle::default());
        engine.work(&challenge, &handle, |_, _| ()).unwrap();
        engine.probe(challenge.id(), linked, &handle, |_, _| ()).unwrap();
        broken.store(allowed, Ordering::Relaxed);
        (open(&engine, &items), broken.load(Ordering::Relaxed))
    };
    // How many reads there are without a failure.
    let (opened, left) = fail_after(u32::MAX);
    assert!(opened.is_ok());
    let reads = u32::MAX - left;
    // In the first round walked again, in the second one, while lines are looked for, and while they are read.
    for allowed in [0, reads / 4, reads * 3 / 4, reads - 20, reads - 8, reads - 1] {
        assert_eq!(fail_after(allowed).0, Err(sick.clone()), "after {allowed} of {reads} reads");
    }
}

/// Memory that changed after the work is found here, and not by the device: it is to be tested before it works again.
#[test]
fn a_device_whose_slots_changed_is_distrusted() {
    let (told, distrusted) = mpsc::channel();
    let flips = Arc::new(AtomicU32::new(0));
    let flipped = flips.clone();
    let read = move |inner: &mut ReferenceDevice, slot, first_byte, out: &mut [u8]| {
        inner.read(slot, first_byte, out)?;
        out[0] ^= flipped.load(Ordering::Relaxed) as u8;
        Ok(())
    };
    let distrust = Box::new(move |_: &mut _, why: &DeviceError| told.send(why.clone()).unwrap());
    let fake = FakeDevice { read: Box::new(read), distrust, ..FakeDevice::new(device(0, 4)) };
    let engine = engine(vec![Box::new(fake)]);
    let (challenge, handle) = (challenge(&[4], 1), Handle::default());
    engine.work(&challenge, &handle, |_, _| ()).unwrap();
    engine.probe(challenge.id(), probe(Link::Own, 64, 8, 4), &handle, |_, _| ()).unwrap();
    assert!(open(&engine, &[own_item(0, &[(1, 3)])]).is_ok() && distrusted.try_recv().is_err());
    flips.store(1, Ordering::Relaxed);
    let failed = open(&engine, &[own_item(0, &[(1, 3)])]).unwrap_err();
    assert!(matches!(failed, DeviceError::Sick(_)), "{failed}");
    assert_eq!(distrusted.try_recv(), Ok(failed));
}

#[test]
fn a_cancelled_linked_probe_ends_at_once_on_all_devices() {
    let engine = with_reads(&[3, 4], 0, |_| {
        thread::sleep(Duration::from_micros(200));
        Ok(())
    });
    let (challenge, handle) = (challenge(&[3, 4], 1), Handle::default());
    engine.work(&challenge, &handle, |_, _| ()).unwrap();
    let cancel = handle.clone();
    let canceller = thread::spawn(move || {
        thread::sleep(Duration::from_millis(100));
        cancel.cancel();
        Instant::now()
    });
    // It would take hours.
    let cancelled = engine.probe(challenge.id(), probe(Link::All, 64, 1024, 65_536), &handle, |_, _| ());
    let took = canceller.join().unwrap().elapsed();
    assert_eq!(cancelled, Err(DeviceError::Cancelled));
    assert!(took < STOP_LIMIT, "{took:?}");
}

/// The receiver of the openings is gone: every device stops, and no device is left waiting for the others.
#[test]
fn openings_that_nobody_takes_end() {
    let (challenge, engine) = (challenge(&[3, 4], 1), honest(&[3, 4]));
    let handle = Handle::default();
    engine.work(&challenge, &handle, |_, _| ()).unwrap();
    engine.probe(challenge.id(), probe(Link::All, 64, 4, 2), &handle, |_, _| ()).unwrap();
    let all: Vec<_> = (0..64).map(|walk| (1, walk)).collect();
    for taken in [0, 1, 5] {
        let (mut chunks, handle) = (0, Handle::default());
        let opened = engine.open(challenge.id(), vec![linked_item(0, &all), own_item(1, &[])], &handle, |_| {
            chunks += 1;
            chunks <= taken
        });
        assert_eq!((opened, handle.is_cancelled()), (Err(DeviceError::Cancelled), true), "{taken}");
    }
    assert!(open(&engine, &[linked_item(0, &all)]).is_ok(), "the devices are free again");
}

#[test]
fn what_was_not_answered_or_stands_apart_is_refused() {
    let (challenge, engine) = (challenge(&[3, 4], 1), honest(&[3, 4]));
    let handle = Handle::default();
    engine.work(&challenge, &handle, |_, _| ()).unwrap();
    engine.probe(challenge.id(), probe(Link::Own, 64, 1, 1), &handle, |_, _| ()).unwrap();
    let refused = |items: &[OpenItem]| match open(&engine, items) {
        Err(DeviceError::Unsupported(why)) => why,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(&[linked_item(0, &[(0, 0)])]), "no linked probe was answered");
    engine.probe(challenge.id(), probe(Link::All, 64, 1, 1), &handle, |_, _| ()).unwrap();
    let apart = [linked_item(0, &[(0, 0)]), own_item(0, &[(0, 0)]), linked_item(1, &[(0, 0)])];
    assert!(refused(&apart).contains("stand together"));
    assert!(refused(&[linked_item(2, &[(0, 0)])]).contains("no share for device"));
    for (round, walk) in [(1, 0), (0, 64)] {
        assert!(refused(&[linked_item(1, &[(0, 0), (round, walk)])]).contains("no segment"));
    }
    assert!(open(&engine, &[own_item(0, &[(0, 0)]), linked_item(0, &[(0, 0)])]).is_ok(), "both are held");
}

#[test]
fn a_host_of_two_devices_offers_linked_probes() {
    for (counts, max_link) in [(&[][..], Link::Own), (&[3], Link::Own), (&[3, 4], Link::All), (&[3; 8], Link::All)] {
        assert_eq!(honest(counts).inventory(0).unwrap().max_link, max_link, "{counts:?}");
    }
}

/// Limits may change while the devices are asked: the count is that of the limits which the inventory shows.
#[test]
fn an_inventory_comes_with_the_changes_that_it_shows() {
    let limits = SharedLimits::default();
    let engine = honest(&[8]).limited_by(limits.clone());
    let asked = engine.ask();
    limits.set(Limits { max_memory_percent: 50, ..Limits::default() });
    let (inventory, changes) = engine.described(asked, 0).unwrap();
    assert_eq!(inventory.devices[0].free_bytes, 4 << 16);
    assert_eq!((changes, engine.changes()), (1, 1));
}
