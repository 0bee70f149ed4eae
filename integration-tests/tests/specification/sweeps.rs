//! The sweep: the vectors, what a device sums and opens, and openings bent and checked.

use assay_device::open::{SweptDevice, open_sums};
use assay_device::{Device, Handle, SweepRound, SweepRounds};
use assay_kits::WorkedExample;
use assay_kits::naive;
use assay_kits::reference::ReferenceDevice;
use assay_work::commitment::commitment_message;
use assay_work::probe::{probe_message, sums_bytes, sweep_key, sweep_round_key_after, weights};
use assay_work::{
    Answer, Challenge, DeviceId, Evidence, FaultKind, FaultPlace, OpeningFault, ProbeKey, ProbeSeed, RoundKey,
    Signature, Sweep, SweepAudit, SweepCheck, SweepFile, SweepOpenings, SweepSample, UncheckedChallenge,
    UncheckedSweep, WorkKey, check_sweep_file,
};
use ed25519_dalek::{Signer, SigningKey};
use proptest::prelude::*;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::files::{checked, vector};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Worked {
    _comment: IgnoredAny,
    challenge: UncheckedChallenge,
    sweep: UncheckedSweep,
    answer: Answer,
    work_key: WorkKey,
    trace: Vec<TracedDevice>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TracedDevice {
    device_id: DeviceId,
    sweep_key: ProbeKey,
    rounds: Vec<TracedRound>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TracedRound {
    round_key: RoundKey,
    weights: Vec<i8>,
    sums: Vec<i32>,
    hashed_bytes: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Invalid {
    _comment: IgnoredAny,
    valid: SweepOfChallenge,
    cases: Vec<InvalidCase>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SweepOfChallenge {
    challenge: UncheckedChallenge,
    sweep: UncheckedSweep,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InvalidCase {
    expect: String,
    what: String,
    challenge: UncheckedChallenge,
    sweep: UncheckedSweep,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Judged {
    _comment: IgnoredAny,
    cases: Vec<JudgedCase>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct JudgedCase {
    expect: String,
    what: String,
    opening: SweepFile,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Signed {
    _comment: IgnoredAny,
    secret_key: ProbeSeed,
    challenge: UncheckedChallenge,
    evidence: Evidence,
    commitment_message: String,
    sweep: UncheckedSweep,
    answer: Answer,
    sweep_message: String,
}

fn sweep(rounds: u32) -> Sweep {
    Sweep::try_from(UncheckedSweep { seed: ProbeSeed([7; 32]), rounds }).unwrap()
}

fn code(file: &SweepFile) -> Result<(), &'static str> {
    check_sweep_file(file).map_err(|error| error.code())
}

/// Every value of the trace, and the answer made of them.
fn check_worked(name: &str) {
    let file: Worked = vector(name);
    let (challenge, asked) = (checked(&file.challenge), Sweep::try_from(file.sweep).unwrap());
    assert_eq!(*challenge.work_key(), file.work_key);
    assert_eq!(naive::sweep_answer(&challenge, &asked), file.answer);
    assert_eq!(file.answer.check(&challenge, asked), Ok(()));
    assert_eq!(file.trace.len(), challenge.shares().len());
    for (share, traced) in challenge.shares().iter().zip(&file.trace) {
        let (roots, slots) = naive::share(&challenge, share);
        let key = sweep_key(&asked, challenge.work_key(), share.device_id, roots.last().unwrap());
        assert_eq!((traced.device_id, traced.sweep_key), (share.device_id, key));
        let (sums, digests) = naive::sweep(&slots, challenge.n(), &key, &asked);
        assert_eq!(traced.rounds.len(), asked.rounds() as usize);
        for ((round, traced), sums) in (0..).zip(&traced.rounds).zip(&sums) {
            let round_key = sweep_round_key_after(&key, round, &digests);
            assert_eq!(traced.round_key, round_key);
            let first: Vec<_> = weights(&round_key, challenge.n())[..16].iter().map(|z| z.cast_signed()).collect();
            assert_eq!(traced.weights, first);
            let first: Vec<_> = sums.as_chunks::<4>().0[..4].iter().map(|sum| i32::from_le_bytes(*sum)).collect();
            assert_eq!((&traced.sums, traced.hashed_bytes), (&first, sums.len() as u64));
        }
    }
}

#[test]
pub(super) fn sweep_of_two_devices() {
    check_worked("sweep");
}

#[test]
pub(super) fn sweep_of_another_kind_of_work() {
    check_worked("sweep-k7");
}

#[test]
pub(super) fn the_rounds_of_a_sweep_have_a_range() {
    let file: Invalid = vector("invalid-sweeps");
    checked(&file.valid.challenge);
    assert!(Sweep::try_from(file.valid.sweep).is_ok());
    assert_eq!(file.cases.len(), 3);
    for case in &file.cases {
        checked(&case.challenge);
        let code = Sweep::try_from(case.sweep).map_err(|error| error.code());
        assert_eq!(code.unwrap_err(), case.expect, "{}", case.what);
    }
}

#[test]
pub(super) fn every_judged_sweep_is_accepted_or_refused_as_judged() {
    let file: Judged = vector("openings-sweep");
    assert_eq!(file.cases.len(), 18);
    for case in &file.cases {
        let found = code(&case.opening).err().unwrap_or("accepted");
        assert_eq!(found, case.expect, "{}", case.what);
    }
}

#[test]
pub(super) fn the_answer_to_a_sweep_is_signed_to_the_byte() {
    let file: Signed = vector("signed-sweep");
    let (challenge, asked) = (checked(&file.challenge), Sweep::try_from(file.sweep).unwrap());
    let secret = SigningKey::from_bytes(file.secret_key.as_bytes());
    let commitment = commitment_message(challenge.work_key(), &file.evidence.checksum);
    assert_eq!(hex::encode(&commitment), file.commitment_message);
    let message = probe_message(challenge.work_key(), &file.evidence.checksum, asked, &file.answer.checksum);
    assert_eq!((hex::encode(&message), message.len()), (file.sweep_message, 146));
    assert_eq!(Some(Signature(secret.sign(&message).to_bytes())), file.answer.signature);
    assert_eq!(naive::sweep_answer(&challenge, &asked), Answer { signature: None, ..file.answer });
}

/// A device that answered a sweep.
struct Swept {
    worked: WorkedExample,
    sweep: Sweep,
    key: ProbeKey,
    digests: Vec<assay_work::Digest>,
    samples: Vec<SweepSample>,
    honest: Vec<SweepOpenings>,
}

impl Swept {
    fn new(n: u32, count: u32, rounds: u32) -> Self {
        let (worked, sweep) = (WorkedExample::new(n, 1, count), sweep(rounds));
        let id = worked.share.device_id;
        let key = sweep_key(&sweep, worked.challenge.work_key(), id, &worked.last_root());
        let (sums, digests) = naive::sweep(&worked.slots, n, &key, &sweep);
        // In no order, one of them twice, all corners.
        let last = rounds - 1;
        let at = [(last, count - 1, n - 1), (0, 0, 0), (0, count - 1, 3), (0, 0, 0), (last, 1, n / 2), (last, 2, 17)];
        let samples: Vec<_> = at.into_iter().map(|(round, slot, row)| SweepSample { round, slot, row }).collect();
        let open = |sample: &SweepSample| naive::open_sum(&worked.slots, n, &sums[sample.round as usize], sample);
        let honest = samples.iter().map(open).collect();
        Self { worked, sweep, key, digests, samples, honest }
    }

    fn judge(&self, change: impl FnOnce(&mut Vec<SweepOpenings>)) -> Result<(), OpeningFault> {
        let (worked, mut given) = (&self.worked, self.honest.clone());
        change(&mut given);
        let id = worked.share.device_id;
        let audit =
            SweepAudit::new(&worked.challenge, &self.sweep, id, worked.last_root(), &self.digests, &self.samples);
        let mut check = SweepCheck::begin(&audit, worked.digests.clone())?;
        for sample in &given {
            check.check_shape(sample)?;
            check.sample(sample)?;
        }
        check.finish()
    }
}

fn sizes() -> [Swept; 4] {
    [Swept::new(256, 5, 3), Swept::new(512, 3, 2), Swept::new(1024, 3, 1), Swept::new(2048, 3, 2)]
}

#[test]
fn what_a_device_sums_and_opens_is_what_the_reference_does() {
    for swept in sizes() {
        let Swept { worked, sweep, key, digests, samples, honest } = &swept;
        let (n, count, handle) = (worked.challenge.n(), worked.share.count, Handle::default());
        let mut device = worked.device();
        let rounds = SweepRounds { key: *key, n, count, rounds: sweep.rounds() };
        assert_eq!(device.sweep_rounds(&rounds, &handle).unwrap(), *digests);
        let asked = SweptDevice { rounds, digests, slot_digests: &worked.digests };
        assert_eq!(open_sums(&mut device, &asked, samples, &handle).unwrap(), *honest);
        assert_eq!(swept.judge(|_| ()), Ok(()), "n = {n}");
    }
}

#[test]
fn a_sweep_of_other_slots_than_the_resident_ones_is_refused() {
    let swept = Swept::new(256, 4, 1);
    let mut device = swept.worked.device();
    let round = |n, count| SweepRound { key: RoundKey([1; 32]), n, count };
    assert!(device.sweep_round(&round(256, 4), &Handle::default()).is_ok());
    for (n, count) in [(512, 4), (256, 5), (256, 0), (0, 4), (255, 4)] {
        assert!(device.sweep_round(&round(n, count), &Handle::default()).is_err(), "{count} slots of {n}");
    }
    let mut empty = ReferenceDevice::new(swept.worked.share.device_id, "empty", 1 << 20);
    assert!(empty.sweep_round(&round(256, 4), &Handle::default()).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn one_flipped_bit_of_a_sweep_is_found(size in 0_usize..4, choice: (usize, usize, usize), what in 0_usize..6) {
        use std::sync::LazyLock;
        static SIZES: LazyLock<[Swept; 4]> = LazyLock::new(sizes);
        let swept = &SIZES[size];
        let (a, b, bit) = choice;
        let sample = a % swept.samples.len();
        let flip = |bytes: &mut [u8]| bytes[bit / 8 % bytes.len()] ^= 1 << (bit % 8);
        let judged = swept.judge(|given| {
            let SweepOpenings { sum, range, .. } = &mut given[sample];
            match what {
                0 => flip(&mut sum.bytes),
                1 => flip(&mut sum.siblings[b % 2].0),
                2 => sum.first_byte ^= 1 << (bit % 64),
                3 => flip(&mut range.bytes),
                4 => flip(&mut range.siblings[b % 4].0),
                _ => range.slot ^= 1 << (bit % 32),
            }
        });
        let kind = if matches!(what, 2 | 5) { FaultKind::Range } else { FaultKind::Path };
        let place = FaultPlace::Sample { sample };
        prop_assert_eq!(judged, Err(OpeningFault { kind, device_id: swept.worked.share.device_id, place }));
    }
}

/// Sums that are not those of the slots, hashed and answered as if they were: found in the sample that opens one.
#[test]
fn a_forged_sum_is_found() {
    let mut swept = Swept::new(256, 5, 2);
    let n = swept.worked.challenge.n();
    let (mut all, _) = naive::sweep(&swept.worked.slots, n, &swept.key, &swept.sweep);
    let last = swept.samples[0];
    all[1][last.sum_byte(n) as usize] ^= 1;
    swept.digests[1] = assay_work::digest::slot_digest(&all[1]);
    let open = |sample: &SweepSample| naive::open_sum(&swept.worked.slots, n, &all[sample.round as usize], sample);
    swept.honest = swept.samples.iter().map(open).collect();
    assert_eq!(swept.judge(|_| ()).map_err(|fault| fault.kind), Err(FaultKind::Sum));
    assert_eq!(sums_bytes(n, 5) as usize, all[1].len());
}

#[test]
fn only_the_samples_drawn_are_taken() {
    let swept = Swept::new(256, 5, 2);
    let kind = |change: fn(&mut Vec<SweepOpenings>)| swept.judge(change).map_err(|fault| fault.kind);
    assert_eq!(kind(|given| given.swap(0, 1)), Err(FaultKind::Rows), "another order");
    assert_eq!(kind(|given| given.truncate(3)), Err(FaultKind::Rows), "one left out");
    assert_eq!(kind(|given| given.push(given[0].clone())), Err(FaultKind::Rows), "one more");
    assert_eq!(kind(|given| given[0].sum.siblings.truncate(0)), Err(FaultKind::Siblings));
    assert_eq!(kind(|given| given[0].range.siblings.truncate(1)), Err(FaultKind::Siblings));
    assert_eq!(kind(|given| given[0].range.bytes.truncate(9)), Err(FaultKind::Range));
}

/// Each change comes on top of those before it, and is named first.
#[test]
fn faults_of_a_sweep_come_in_the_order_of_the_specification() {
    type Change = (fn(&mut SweepFile), &'static str);
    let file: Judged = vector("openings-sweep");
    let mut file = file.cases.into_iter().find(|case| case.expect == "accepted").unwrap().opening;
    let changes: [Change; 10] = [
        (|f| f.samples[2].range.bytes[0] ^= 1, "path"),
        (|f| f.samples[1].range.siblings.truncate(1), "siblings"),
        (|f| f.samples[1].sum.bytes[0] ^= 1, "path"),
        (|f| f.samples[0].sum.first_byte ^= 1024, "range"),
        (|f| f.samples[2].row ^= 1, "rows"),
        (|f| f.slot_digests[1].digests[0].0[0] ^= 1, "digests"),
        (|f| f.drawn[0].device_id = DeviceId([9; 16]), "binding"),
        (|f| f.answer.devices[1].digests.truncate(1), "binding"),
        (|f| f.sweep.rounds = 0, "rounds"),
        (|f| f.challenge.precision = 3, "precision"),
    ];
    assert_eq!(code(&file), Ok(()));
    for (index, (change, expected)) in changes.into_iter().enumerate() {
        change(&mut file);
        assert_eq!(code(&file), Err(expected), "change {index}");
    }
}

/// A checked challenge is enough to know what a sweep reads.
#[test]
fn a_sweep_reads_every_slot_in_every_round() {
    let file: Worked = vector("sweep");
    let challenge: Challenge = checked(&file.challenge);
    let asked = Sweep::try_from(file.sweep).unwrap();
    assert_eq!(asked.read_bytes(challenge.n(), challenge.shares()[0].count), 3 * 7 * 256 * 256);
}
