//! The vectors of WORK.md: challenges, splits, evidence with every value on the way, signatures, probes.

use crate::files::{checked, vector};
use assay_device::{Device, Handle, Pass, ProbeRound};
use assay_kits::naive;
use assay_kits::previous_root;
use assay_kits::reference::ReferenceDevice;
use assay_work::commitment::commitment_message;
use assay_work::digest::pass_root;
use assay_work::keys::{parents, pass_key};
use assay_work::leaf::leaf;
use assay_work::probe::{
    LINE_BYTES, LinkedSlots, linked_probe_key, linked_round_key, position, probe_key, probe_message, round_key_after,
    start_state, state_bytes, step,
};
use assay_work::{
    Answer, Challenge, DeviceId, Digest, Evidence, Link, PassKey, Probe, ProbeKey, Root, RoundKey, Share, Signature,
    UncheckedChallenge, UncheckedProbe, Weight, WorkKey, split,
};
use ed25519_dalek::{Signer, SigningKey, VerifyingKey};
use serde::Deserialize;
use serde::de::IgnoredAny;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InvalidChallenges {
    _comment: IgnoredAny,
    valid: UncheckedChallenge,
    cases: Vec<InvalidChallenge>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InvalidChallenge {
    expect: String,
    challenge: UncheckedChallenge,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InvalidProbes {
    _comment: IgnoredAny,
    valid: ProbeOfChallenge,
    cases: Vec<InvalidProbe>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProbeOfChallenge {
    challenge: UncheckedChallenge,
    probe: UncheckedProbe,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InvalidProbe {
    expect: String,
    what: String,
    challenge: UncheckedChallenge,
    probe: UncheckedProbe,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Splits {
    _comment: IgnoredAny,
    cases: Vec<Split>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Split {
    total: u32,
    weights: Vec<Weight>,
    shares: Vec<Share>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Worked {
    _comment: IgnoredAny,
    challenge: UncheckedChallenge,
    evidence: Evidence,
    trace: Trace,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Trace {
    work_key: WorkKey,
    passes: Vec<TracedPass>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TracedPass {
    device_id: DeviceId,
    iteration: u32,
    pass_key: PassKey,
    root: Root,
    earlier_parents: Vec<u32>,
    slot_digests: Vec<Digest>,
    slots_head: Vec<DeviceId>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Signed {
    _comment: IgnoredAny,
    secret_key: Digest,
    challenge: UncheckedChallenge,
    evidence: Evidence,
    commitment_message: String,
    probe: UncheckedProbe,
    answer: Answer,
    probe_message: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Probed {
    _comment: IgnoredAny,
    challenge: UncheckedChallenge,
    work_key: WorkKey,
    probe: UncheckedProbe,
    answer: Answer,
    segments: Vec<TracedSegment>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Linked {
    _comment: IgnoredAny,
    challenge: UncheckedChallenge,
    work_key: WorkKey,
    probe: UncheckedProbe,
    answer: Answer,
    link_digests: Vec<Digest>,
    segments: Vec<TracedSegment>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TracedSegment {
    device_id: DeviceId,
    round: u32,
    walk: u32,
    root: Root,
    probe_key: ProbeKey,
    round_key: RoundKey,
    before: Signature,
    reads: Vec<TracedRead>,
    after: Signature,
}

/// The 64 bytes of a line or a state have the length of a signature, whose hex form is borrowed.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TracedRead {
    slot: u32,
    line: u32,
    bytes: Signature,
}

#[test]
pub(super) fn every_broken_rule_of_a_challenge_is_named() {
    let file: InvalidChallenges = vector("invalid-challenges");
    checked(&file.valid);
    assert_eq!(file.cases.len(), 33);
    for (i, case) in file.cases.into_iter().enumerate() {
        let error = Challenge::try_from(case.challenge).expect_err(&case.expect);
        assert_eq!(error.code(), case.expect, "case {i}: {error}");
    }
}

#[test]
pub(super) fn the_first_wrong_field_of_a_probe_is_named() {
    let file: InvalidProbes = vector("invalid-probes");
    let code = |challenge: &UncheckedChallenge, probe: UncheckedProbe| {
        let devices = checked(challenge).shares().len();
        Probe::try_from(probe).and_then(|probe| probe.check_devices(devices)).map_err(|e| e.code())
    };
    let ProbeOfChallenge { challenge, probe } = file.valid;
    assert_eq!(Probe::try_from(probe).unwrap().link(), Link::All);
    assert_eq!(code(&challenge, probe), Ok(()));
    assert_eq!(code(&challenge, UncheckedProbe { link: 0, ..probe }), Ok(()));
    assert_eq!(file.cases.len(), 17);
    for case in &file.cases {
        assert_eq!(code(&case.challenge, case.probe), Err(case.expect.as_str()), "{}", case.what);
    }
}

#[test]
pub(super) fn matrices_are_split_as_written() {
    let file: Splits = vector("split");
    assert_eq!(file.cases.len(), 9);
    for (i, mut case) in file.cases.into_iter().enumerate() {
        assert_eq!(split(case.total, &case.weights).unwrap(), case.shares, "case {i}");
        case.weights.reverse();
        assert_eq!(split(case.total, &case.weights).unwrap(), case.shares, "case {i}, reversed");
    }
}

/// Every value of the trace, from the keys to the roots, and the evidence made of them.
fn check_worked(name: &str) {
    let file: Worked = vector(name);
    let challenge = checked(&file.challenge);
    assert_eq!(*challenge.work_key(), file.trace.work_key);
    let mut passes = file.trace.passes.iter();
    let mut roots = Vec::new();
    for share in challenge.shares() {
        let mut of_share = Vec::new();
        for iteration in 0..challenge.iterations() {
            let traced = passes.next().unwrap();
            assert_eq!((traced.device_id, traced.iteration), (share.device_id, iteration));
            check_pass(&challenge, share, &previous_root(&of_share, iteration), traced);
            of_share.push(traced.root);
        }
        roots.push(of_share);
    }
    assert!(passes.next().is_none());
    assert_eq!(Evidence::assemble(&challenge, roots), file.evidence);
    file.evidence.check(&challenge).unwrap();
}

fn check_pass(challenge: &Challenge, share: &Share, previous: &Root, traced: &TracedPass) {
    let key = pass_key(challenge.work_key(), share.device_id, traced.iteration, previous);
    assert_eq!(key, traced.pass_key);
    let earlier: Vec<u32> = (2..share.count).map(|u| parents(&key, u).0).collect();
    assert_eq!(earlier, traced.earlier_parents);
    assert!((2..share.count).all(|u| parents(&key, u).1 == u - 1));
    let slots = naive::pass(challenge.precision(), &key, challenge.n(), share.offset, share.count);
    for (u, slot) in slots.iter().enumerate() {
        assert_eq!(slot[..16], traced.slots_head[u].0, "the first bytes of slot {u}");
    }
    assert_eq!(naive::digests(&slots), traced.slot_digests);
    assert_eq!(pass_root(&traced.slot_digests), traced.root);
    let mut row = vec![0; challenge.n() as usize];
    leaf(&key, share.offset + 1, u64::from(challenge.n()), &mut row);
    assert_eq!(row, slots[1][row.len()..2 * row.len()], "row 1 of leaf 1 alone");
}

#[test]
pub(super) fn one_device() {
    check_worked("one-device");
}

#[test]
pub(super) fn smallest() {
    check_worked("smallest");
}

#[test]
pub(super) fn two_devices_three_iterations() {
    check_worked("two-devices-three-iterations");
}

#[test]
pub(super) fn uneven_devices() {
    check_worked("uneven-devices");
}

#[test]
pub(super) fn n1024() {
    check_worked("n1024");
}

#[test]
pub(super) fn n2048() {
    check_worked("n2048");
}

#[test]
pub(super) fn k2_one_device() {
    check_worked("k2-one-device");
}

#[test]
pub(super) fn k5_one_device() {
    check_worked("k5-one-device");
}

#[test]
pub(super) fn k6_one_device() {
    check_worked("k6-one-device");
}

#[test]
pub(super) fn k7() {
    check_worked("k7");
}

#[test]
pub(super) fn k7_n1024() {
    check_worked("k7-n1024");
}

#[test]
pub(super) fn k8() {
    check_worked("k8");
}

#[test]
pub(super) fn k8_n256() {
    check_worked("k8-n256");
}

#[test]
pub(super) fn k2_three_devices_two_iterations() {
    check_worked("k2-three-devices-two-iterations");
}

#[test]
fn evidence_is_that_of_the_whole_reference() {
    for name in ["one-device", "smallest", "two-devices-three-iterations"] {
        let file: Worked = vector(name);
        assert_eq!(naive::evidence(&checked(&file.challenge)), file.evidence, "{name}");
    }
}

fn assert_signed(key: &VerifyingKey, message: &[u8], signature: Option<Signature>) {
    let signature = ed25519_dalek::Signature::from_bytes(signature.unwrap().as_bytes());
    key.verify_strict(message, &signature).unwrap();
    for changed in [0, message.len() - 1] {
        let mut message = message.to_vec();
        message[changed] ^= 1;
        assert!(key.verify_strict(&message, &signature).is_err(), "byte {changed} counts");
    }
}

#[test]
pub(super) fn commitment_and_answer_are_signed_to_the_byte() {
    check_signed("signed", 154);
}

#[test]
pub(super) fn a_linked_answer_is_signed_under_a_name_of_its_own() {
    check_signed("signed-linked", 161);
}

fn check_signed(name: &str, probe_message_bytes: usize) {
    let file: Signed = vector(name);
    let challenge = checked(&file.challenge);
    let probe = Probe::try_from(file.probe).unwrap();
    let secret = SigningKey::from_bytes(file.secret_key.as_bytes());
    assert_eq!(secret.verifying_key().as_bytes(), file.challenge.miner_key.as_bytes());
    file.evidence.check(&challenge).unwrap();
    file.answer.check(&challenge, probe).unwrap();

    let key = *challenge.work_key();
    let commitment = commitment_message(&key, &file.evidence.checksum);
    assert_eq!(hex::encode(&commitment), file.commitment_message);
    let answer = probe_message(&key, &file.evidence.checksum, probe, &file.answer.checksum);
    assert_eq!((hex::encode(&answer), answer.len()), (file.probe_message, probe_message_bytes));

    // Ed25519 is deterministic: signing again gives the same bytes.
    assert_eq!(Some(Signature(secret.sign(&commitment).to_bytes())), file.evidence.signature);
    assert_eq!(Some(Signature(secret.sign(&answer).to_bytes())), file.answer.signature);
    assert_signed(&secret.verifying_key(), &commitment, file.evidence.signature);
    assert_signed(&secret.verifying_key(), &answer, file.answer.signature);

    let unsigned = Evidence { signature: None, ..file.evidence };
    assert_eq!(naive::evidence(&challenge), unsigned);
    assert_eq!(naive::answer(&challenge, &probe), Answer { signature: None, ..file.answer });
}

/// The answer over every device, then each segment of the vector step by step.
fn check_probed(name: &str) {
    let file: Probed = vector(name);
    let challenge = checked(&file.challenge);
    let probe = Probe::try_from(file.probe).unwrap();
    assert_eq!(*challenge.work_key(), file.work_key);
    file.answer.check(&challenge, probe).unwrap();
    let mut digests = Vec::new();
    for share in challenge.shares() {
        let (roots, slots) = naive::share(&challenge, share);
        let key = naive::key_of_probe(&challenge, &probe, share.device_id, &slots);
        let (outs, of_share) = naive::probe(&slots, challenge.n(), &key, &probe);
        for segment in file.segments.iter().filter(|s| s.device_id == share.device_id) {
            assert_eq!(roots.last(), Some(&segment.root));
            check_segment(&file, &probe, &slots, &of_share, segment);
            let state = segment.walk as usize * LINE_BYTES;
            assert_eq!(outs[segment.round as usize][state..state + LINE_BYTES], segment.after.0);
        }
        digests.push(of_share);
    }
    assert_eq!(Answer::assemble(&challenge, probe, digests), file.answer);
    let devices: Vec<_> = challenge.shares().iter().map(|s| s.device_id).collect();
    assert!(file.segments.iter().all(|s| devices.contains(&s.device_id)));
}

fn check_segment(file: &Probed, probe: &Probe, slots: &[Vec<u8>], digests: &[Digest], traced: &TracedSegment) {
    let key = probe_key(probe, &file.work_key, traced.device_id, &traced.root);
    assert_eq!(key, traced.probe_key);
    let round_key = round_key_after(&key, traced.round, digests);
    assert_eq!(round_key, traced.round_key);
    let mut state = start_state(&round_key, traced.walk);
    assert_eq!(state_bytes(&state), traced.before.0);
    assert_eq!(traced.reads.len(), probe.steps() as usize);
    for (t, read) in traced.reads.iter().enumerate() {
        assert_eq!(position(&state, slots.len() as u32, file.challenge.n), (read.slot, read.line), "step {t}");
        let line = read.line as usize * LINE_BYTES;
        assert_eq!(slots[read.slot as usize][line..line + LINE_BYTES], read.bytes.0, "step {t}");
        step(&mut state, &read.bytes.0);
    }
    assert_eq!(state_bytes(&state), traced.after.0);
}

/// The keys, the digest of every round over all devices, the answer, then each segment of the vector step by step over the
/// slots of all devices.
fn check_linked_probed(name: &str) {
    let file: Linked = vector(name);
    let (challenge, probe) = (checked(&file.challenge), Probe::try_from(file.probe).unwrap());
    probe.check_devices(challenge.shares().len()).unwrap();
    assert_eq!(*challenge.work_key(), file.work_key);
    file.answer.check(&challenge, probe).unwrap();
    let of_shares: Vec<_> = challenge.shares().iter().map(|share| naive::share(&challenge, share)).collect();
    let (roots, slots): (Vec<_>, Vec<_>) = of_shares.into_iter().unzip();
    let last_roots: Vec<_> = roots.iter().map(|roots| *roots.last().unwrap()).collect();
    let keys = naive::linked_keys(&challenge, &probe, &slots);
    let (outs, digests) = naive::linked_probe(&slots, challenge.n(), &keys, &probe);
    assert_eq!(Answer::assemble(&challenge, probe, digests), file.answer);
    let after = (1..=probe.rounds()).map(|round| file.answer.link_digest_before(round));
    assert_eq!(after.collect::<Vec<_>>(), file.link_digests);
    for segment in &file.segments {
        let device = challenge.shares().iter().position(|share| share.device_id == segment.device_id).unwrap();
        assert_eq!(last_roots[device], segment.root);
        let key = linked_probe_key(&probe, &file.work_key, segment.device_id, &last_roots);
        assert_eq!((key, keys[device]), (segment.probe_key, key));
        let before = match segment.round {
            0 => Digest::BEFORE_FIRST,
            round => file.link_digests[round as usize - 1],
        };
        assert_eq!(linked_round_key(&key, segment.round, &before), segment.round_key);
        check_linked_segment(&challenge, &probe, &slots, segment);
        let state = segment.walk as usize * LINE_BYTES;
        assert_eq!(outs[device][segment.round as usize][state..state + LINE_BYTES], segment.after.0);
    }
}

fn check_linked_segment(challenge: &Challenge, probe: &Probe, slots: &[Vec<Vec<u8>>], traced: &TracedSegment) {
    let linked = LinkedSlots::new(challenge);
    let mut state = start_state(&traced.round_key, traced.walk);
    assert_eq!(state_bytes(&state), traced.before.0);
    assert_eq!(traced.reads.len(), probe.steps() as usize);
    for (t, read) in traced.reads.iter().enumerate() {
        assert_eq!(linked.position(&state), (read.slot, read.line), "step {t}");
        let (place, line) = (linked.place(read.slot), read.line as usize * LINE_BYTES);
        assert_eq!(slots[place.share][place.slot as usize][line..line + LINE_BYTES], read.bytes.0, "step {t}");
        step(&mut state, &read.bytes.0);
    }
    assert_eq!(state_bytes(&state), traced.after.0);
}

#[test]
pub(super) fn linked_probe() {
    check_linked_probed("linked-probe");
}

#[test]
pub(super) fn linked_probe_of_another_kind_of_work() {
    check_linked_probed("linked-probe-k6");
}

#[test]
pub(super) fn probe() {
    check_probed("probe");
}

#[test]
pub(super) fn probe_n1024() {
    check_probed("probe-n1024");
}

#[test]
pub(super) fn probe_w64() {
    check_probed("probe-w64");
}

/// The device that everything else is tested with goes the same way.
#[test]
fn the_reference_device_gives_the_same() {
    let file: Probed = vector("probe");
    let challenge = checked(&file.challenge);
    let probe = Probe::try_from(file.probe).unwrap();
    let evidence = naive::evidence(&challenge);
    for (share, answer) in challenge.shares().iter().zip(&file.answer.devices) {
        let bytes = u64::from(share.count) * challenge.slot_bytes();
        let mut device = ReferenceDevice::new(share.device_id, "reference", bytes);
        assert_eq!(device.slots_that_fit(challenge.n()), share.count);
        let handle = Handle::default();
        let mut roots = Vec::new();
        for iteration in 0..challenge.iterations() {
            let previous = previous_root(&roots, iteration);
            let key = pass_key(&file.work_key, share.device_id, iteration, &previous);
            let pass = Pass {
                precision: challenge.precision(),
                key,
                n: challenge.n(),
                offset: share.offset,
                count: share.count,
            };
            roots.push(pass_root(&device.fill(&pass, &handle).unwrap()));
        }
        assert_eq!(roots, evidence.device(share.device_id).unwrap().roots);
        let key = probe_key(&probe, &file.work_key, share.device_id, roots.last().unwrap());
        let mut digests = Vec::new();
        for round in 0..probe.rounds() {
            let key = round_key_after(&key, round, &digests);
            let round = ProbeRound { key, walks: probe.walks(), steps: probe.steps() };
            digests.push(device.probe_round(&round, &handle).unwrap());
        }
        assert_eq!(digests, answer.digests);
        assert_eq!(handle.done_steps(), u64::from(share.count * challenge.iterations() + probe.rounds()));
    }
}
