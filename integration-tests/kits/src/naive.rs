//! The slow, obvious whole, which reads like WORK.md: the reference for the tests of every backend and every check. It
//! holds all slots of a device in host memory and uses one thread.

use assay_work::audit::{RangeRequest, sample_ranges};
use assay_work::bytes::{DeviceId, Digest, PassKey, ProbeKey, Root, RoundKey};
use assay_work::challenge::{Challenge, Share};
use assay_work::commitment::Evidence;
use assay_work::digest::{pass_root, slot_digest};
use assay_work::keys::{parents, pass_key};
use assay_work::leaf::leaf;
use assay_work::opening::{OpenedRange, Parents, PassOpenings, PassSample, SampleOpenings};
use assay_work::precision::Precision;
use assay_work::probe::{
    Answer, LINE_BYTES, Link, Probe, Sweep, SweepSample, link_digest, linked_probe_key, linked_round_key, position,
    probe_key, round_key_after, row_sum, start_state, state_bytes, step, sums_bytes, sweep_key, sweep_round_key_after,
    weights,
};
use assay_work::rule::{SlotRule, product_rows};
use assay_work::segment::{Opening, ProbeOpenings, Segment, SegmentOpenings, chunk_of};
use assay_work::sums::SweepOpenings;
use assay_work::tree::{CHUNK_BYTES, chaining_values, row_range_bytes, siblings};

/// The slots of a pass.
pub fn pass(precision: Precision, key: &PassKey, n: u32, offset: u32, count: u32) -> Vec<Vec<u8>> {
    let mut slots: Vec<Vec<u8>> = Vec::new();
    for u in 0..count {
        let mut slot = vec![0; n as usize * n as usize];
        if u < 2 {
            leaf(key, offset + u, 0, &mut slot);
        } else {
            let (earlier, previous) = parents(key, u);
            let factors = (&slots[earlier as usize][..], &slots[previous as usize][..]);
            product_rows(&SlotRule::new(precision, key, n, u), factors, 0, &mut slot);
        }
        slots.push(slot);
    }
    slots
}

/// The digests of slots.
pub fn digests(slots: &[Vec<u8>]) -> Vec<Digest> {
    slots.iter().map(|slot| slot_digest(slot)).collect()
}

/// The slots of one iteration of a share, after an iteration that ended in `previous_root`.
pub fn iteration(challenge: &Challenge, share: &Share, iteration: u32, previous_root: &Root) -> Vec<Vec<u8>> {
    let key = pass_key(challenge.work_key(), share.device_id, iteration, previous_root);
    pass(challenge.precision(), &key, challenge.n(), share.offset, share.count)
}

/// The roots of every iteration of a share, and the slots of the last.
pub fn share(challenge: &Challenge, share: &Share) -> (Vec<Root>, Vec<Vec<u8>>) {
    let (mut roots, mut slots) = (Vec::new(), Vec::new());
    let mut previous_root = Root::BEFORE_FIRST;
    for p in 0..challenge.iterations() {
        slots = iteration(challenge, share, p, &previous_root);
        previous_root = pass_root(&digests(&slots));
        roots.push(previous_root);
    }
    (roots, slots)
}

/// An honest miner's commitment, not signed.
pub fn evidence(challenge: &Challenge) -> Evidence {
    Evidence::assemble(challenge, challenge.shares().iter().map(|s| share(challenge, s).0).collect())
}

/// The state of one walk after one round, as it stands in `out[r]`.
///
/// # Panics
/// When `slots` are not n-by-n.
pub fn walk<S: AsRef<[u8]>>(slots: &[S], n: u32, key: &RoundKey, walk: u32, steps: u32) -> [u8; LINE_BYTES] {
    let mut state = start_state(key, walk);
    for _ in 0..steps {
        let (slot, line) = position(&state, slots.len() as u32, n);
        step(&mut state, &line_of(slots[slot as usize].as_ref(), line));
    }
    state_bytes(&state)
}

/// `out[r]` of a round over slots.
pub fn probe_round<S: AsRef<[u8]>>(slots: &[S], n: u32, key: &RoundKey, probe: &Probe) -> Vec<u8> {
    (0..probe.walks()).flat_map(|j| walk(slots, n, key, j, probe.steps())).collect()
}

/// The key of the probe of a device that holds these slots after its last iteration.
pub fn key_of_probe(challenge: &Challenge, asked: &Probe, device_id: DeviceId, slots: &[Vec<u8>]) -> ProbeKey {
    probe_key(asked, challenge.work_key(), device_id, &pass_root(&digests(slots)))
}

/// `out[0 … R-1]` of a probe over n-by-n slots, and their digests.
pub fn probe(slots: &[Vec<u8>], n: u32, key: &ProbeKey, asked: &Probe) -> (Vec<Vec<u8>>, Vec<Digest>) {
    let (mut outs, mut digests) = (Vec::new(), Vec::new());
    for round in 0..asked.rounds() {
        let out = probe_round(slots, n, &round_key_after(key, round, &digests), asked);
        digests.push(slot_digest(&out));
        outs.push(out);
    }
    (outs, digests)
}

/// The slots of all devices as one memory.
fn linked_slots(slots: &[Vec<Vec<u8>>]) -> Vec<&[u8]> {
    slots.iter().flatten().map(Vec::as_slice).collect()
}

/// The keys of a linked probe, of every device in the order of the shares, which hold these slots after their last
/// iteration.
pub fn linked_keys(challenge: &Challenge, asked: &Probe, slots: &[Vec<Vec<u8>>]) -> Vec<ProbeKey> {
    let roots: Vec<_> = slots.iter().map(|slots| pass_root(&digests(slots))).collect();
    let key = |share: &Share| linked_probe_key(asked, challenge.work_key(), share.device_id, &roots);
    challenge.shares().iter().map(key).collect()
}

/// `out[0 … R-1]` of every device of a linked probe over the n-by-n slots of all devices, in the order of the shares, and
/// their digests.
pub fn linked_probe(
    slots: &[Vec<Vec<u8>>],
    n: u32,
    keys: &[ProbeKey],
    asked: &Probe,
) -> (Vec<Vec<Vec<u8>>>, Vec<Vec<Digest>>) {
    let all = linked_slots(slots);
    let (mut outs, mut digests) = (vec![Vec::new(); keys.len()], vec![Vec::new(); keys.len()]);
    let mut before = Digest::BEFORE_FIRST;
    for round in 0..asked.rounds() {
        for (device, key) in keys.iter().enumerate() {
            let out = probe_round(&all, n, &linked_round_key(key, round, &before), asked);
            digests[device].push(slot_digest(&out));
            outs[device].push(out);
        }
        before = link_digest(digests.iter().map(|of_device| &of_device[round as usize]));
    }
    (outs, digests)
}

/// An honest miner's answer to a probe of either link, not signed; computes every share again.
pub fn answer(challenge: &Challenge, asked: &Probe) -> Answer {
    if asked.link() == Link::All {
        let slots: Vec<_> = challenge.shares().iter().map(|s| share(challenge, s).1).collect();
        let keys = linked_keys(challenge, asked, &slots);
        return Answer::assemble(challenge, asked, linked_probe(&slots, challenge.n(), &keys, asked).1);
    }
    let of_share = |s: &Share| {
        let slots = share(challenge, s).1;
        probe(&slots, challenge.n(), &key_of_probe(challenge, asked, s.device_id, &slots), asked).1
    };
    Answer::assemble(challenge, asked, challenge.shares().iter().map(of_share).collect())
}

/// `sums[r]` of a round over n-by-n slots.
pub fn sweep_round<S: AsRef<[u8]>>(slots: &[S], n: u32, key: &RoundKey) -> Vec<u8> {
    let weights = weights(key, n);
    let rows = slots.iter().flat_map(|slot| slot.as_ref().chunks_exact(n as usize));
    let mut sums: Vec<u8> = rows.flat_map(|row| row_sum(row, &weights).to_le_bytes()).collect();
    sums.resize(sums_bytes(n, slots.len() as u32) as usize, 0);
    sums
}

/// `sums[0 … R-1]` of a sweep over n-by-n slots, and their digests.
pub fn sweep(slots: &[Vec<u8>], n: u32, key: &ProbeKey, asked: &Sweep) -> (Vec<Vec<u8>>, Vec<Digest>) {
    let (mut all, mut digests) = (Vec::new(), Vec::new());
    for round in 0..asked.rounds() {
        let sums = sweep_round(slots, n, &sweep_round_key_after(key, round, &digests));
        digests.push(slot_digest(&sums));
        all.push(sums);
    }
    (all, digests)
}

/// An honest miner's answer to a sweep, not signed; computes every share again.
pub fn sweep_answer(challenge: &Challenge, asked: &Sweep) -> Answer {
    let of_share = |s: &Share| {
        let (roots, slots) = share(challenge, s);
        let last_root = roots.last().copied().unwrap_or(Root::BEFORE_FIRST);
        let key = sweep_key(asked, challenge.work_key(), s.device_id, &last_root);
        sweep(&slots, challenge.n(), &key, asked).1
    };
    Answer::assemble(challenge, asked, challenge.shares().iter().map(of_share).collect())
}

/// Opens a sample of a sweep over n-by-n slots; `sums` are those of its round.
pub fn open_sum(slots: &[Vec<u8>], n: u32, sums: &[u8], sample: &SweepSample) -> SweepOpenings {
    let (row_byte, range) = (u64::from(sample.row) * u64::from(n), row_range_bytes(n));
    SweepOpenings {
        sample: *sample,
        sum: open(sums, chunk_of(sample.sum_byte(n)), CHUNK_BYTES),
        range: opened(sample.slot, open(&slots[sample.slot as usize], row_byte / range * range, range)),
    }
}

/// Opens an aligned range of a string.
pub fn open(data: &[u8], first_byte: u64, len: u64) -> Opening {
    let bytes = data[first_byte as usize..][..len as usize].to_vec();
    Opening { first_byte, bytes, siblings: siblings(&chaining_values(data, len), (first_byte / len) as usize) }
}

/// Opens one sample of a pass, from WORK.md's list.
pub fn open_sample(
    precision: Precision,
    slots: &[Vec<u8>],
    key: &PassKey,
    n: u32,
    sample: &PassSample,
) -> SampleOpenings {
    let ranges = sample_ranges(precision, key, n, sample);
    let open =
        |range: &RangeRequest| opened(range.slot, open(&slots[range.slot as usize], range.first_byte, range.len));
    let parents = match *sample {
        PassSample::Leaf { .. } => None,
        PassSample::Product { slot, .. } => {
            let (earlier, previous) = parents(key, slot);
            Some(Parents { earlier, previous })
        }
    };
    SampleOpenings { sample: *sample, parents, openings: ranges.iter().map(open).collect() }
}

/// Opens samples of an iteration of a share whose roots are known.
///
/// # Panics
/// When a root is missing.
pub fn open_pass(
    challenge: &Challenge,
    share: &Share,
    roots: &[Root],
    iteration: u32,
    samples: &[PassSample],
) -> PassOpenings {
    let p = iteration as usize;
    let previous_root = if p == 0 { Root::BEFORE_FIRST } else { roots[p - 1] };
    let slots = self::iteration(challenge, share, iteration, &previous_root);
    let key = pass_key(challenge.work_key(), share.device_id, iteration, &previous_root);
    PassOpenings {
        challenge: challenge.fields().clone(),
        device_id: share.device_id,
        iteration,
        previous_root,
        root: roots[p],
        slot_digests: digests(&slots),
        samples: samples.iter().map(|s| open_sample(challenge.precision(), &slots, &key, challenge.n(), s)).collect(),
        committed_roots: None,
    }
}

/// Opens segments of a device's probe over n-by-n slots.
pub fn open_probe(
    slots: &[Vec<u8>],
    n: u32,
    key: &ProbeKey,
    asked: &Probe,
    device_id: DeviceId,
    segments: &[Segment],
) -> ProbeOpenings {
    let (outs, round_digests) = probe(slots, n, key, asked);
    let open = |segment: &Segment| {
        let round_key = round_key_after(key, segment.round, &round_digests);
        open_segment(slots, n, &outs[segment.round as usize], &round_key, asked, segment)
    };
    ProbeOpenings { device_id, slot_digests: digests(slots), segments: segments.iter().map(open).collect() }
}

/// Opens segments of one device's part of a linked probe over the n-by-n slots of all devices, in the order of the
/// shares; `device` is its place in that order.
///
/// # Panics
/// When the challenge has no such share.
pub fn open_linked_probe(
    challenge: &Challenge,
    slots: &[Vec<Vec<u8>>],
    asked: &Probe,
    device: usize,
    segments: &[Segment],
) -> ProbeOpenings {
    let (n, keys, all) = (challenge.n(), linked_keys(challenge, asked, slots), linked_slots(slots));
    let (outs, round_digests) = linked_probe(slots, n, &keys, asked);
    let answer = Answer::assemble(challenge, asked, round_digests);
    let open = |segment: &Segment| {
        let round_key = linked_round_key(&keys[device], segment.round, &answer.link_digest_before(segment.round));
        open_segment(&all, n, &outs[device][segment.round as usize], &round_key, asked, segment)
    };
    let device_id = challenge.shares()[device].device_id;
    let slot_digests = digests(&slots[device]);
    ProbeOpenings { device_id, slot_digests, segments: segments.iter().map(open).collect() }
}

/// Opens a segment of a round that starts from this key and ends in `out`.
fn open_segment<S: AsRef<[u8]>>(
    slots: &[S],
    n: u32,
    out: &[u8],
    round_key: &RoundKey,
    asked: &Probe,
    segment: &Segment,
) -> SegmentOpenings {
    let mut state = start_state(round_key, segment.walk);
    let lines = (0..asked.steps()).map(|_| {
        let (slot, line) = position(&state, slots.len() as u32, n);
        let data = slots[slot as usize].as_ref();
        step(&mut state, &line_of(data, line));
        opened(slot, open(data, chunk_of(u64::from(line) * LINE_BYTES as u64), CHUNK_BYTES))
    });
    let lines = lines.collect();
    let state = open(out, chunk_of(segment.state_byte()), CHUNK_BYTES);
    SegmentOpenings { round: segment.round, walk: segment.walk, state, lines }
}

fn line_of(slot: &[u8], line: u32) -> [u8; LINE_BYTES] {
    let mut bytes = [0; LINE_BYTES];
    bytes.copy_from_slice(&slot[line as usize * LINE_BYTES..][..LINE_BYTES]);
    bytes
}

fn opened(slot: u32, opening: Opening) -> OpenedRange {
    let Opening { first_byte, bytes, siblings } = opening;
    OpenedRange { slot, first_byte, bytes, siblings }
}
