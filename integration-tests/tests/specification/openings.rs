//! Audits: the vectors of openings, and answers built, bent and checked.

use assay_kits::naive;
use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::files::{checked, vector, vector_object, vector_text};
use assay_device::open::{AuditedPass, SamplePlan, open_samples};
use assay_device::{Device, DeviceError, Handle};
use assay_kits::WorkedExample;
use assay_work::digest::{pass_root, slot_digest};
use assay_work::keys::{parents, pass_key};
use assay_work::{
    Audit, DeviceId, FaultKind, FaultPlace, JsonError, OpeningFault, PassCheck, PassOpenings, PassSample, Root,
    StandaloneError, UncheckedChallenge, check_pass_openings, check_standalone, from_json,
};
use proptest::prelude::*;
use serde::Deserialize;
use serde::de::IgnoredAny;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InvalidOpenings {
    _comment: IgnoredAny,
    valid: PassOpenings,
    cases: Vec<InvalidOpening>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InvalidOpening {
    expect: String,
    what: String,
    opening: PassOpenings,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct JudgedOpenings {
    _comment: IgnoredAny,
    cases: Vec<InvalidOpening>,
}

fn sizes() -> &'static [WorkedExample] {
    static SIZES: LazyLock<Vec<WorkedExample>> = LazyLock::new(|| {
        let counts = [(256, 3, 9), (512, 2, 6), (1024, 1, 4), (2048, 1, 4)];
        counts.into_iter().map(|(n, iterations, count)| WorkedExample::new(n, iterations, count)).collect()
    });
    &SIZES
}

/// Samples of every slot, with corners, and a row of each leaf.
fn samples_of(worked: &WorkedExample) -> Vec<PassSample> {
    let last = worked.challenge.n() - 1;
    let mut samples = vec![PassSample::Leaf { slot: 0, row: 3 }, PassSample::Leaf { slot: 1, row: last }];
    for slot in 2..worked.share.count {
        samples.push(PassSample::Product { slot, row: 0, column: last, inner: slot });
        samples.push(PassSample::Product { slot, row: last, column: 2 * slot, inner: 0 });
    }
    samples
}

fn audit<'a>(worked: &'a WorkedExample, samples: &'a [PassSample]) -> Audit<'a> {
    Audit::new(&worked.challenge, worked.share.device_id, worked.last_iteration(), &worked.roots, samples)
}

fn audited(worked: &WorkedExample) -> AuditedPass<'_> {
    AuditedPass {
        challenge: &worked.challenge,
        device_id: worked.share.device_id,
        iteration: worked.last_iteration(),
        previous_root: worked.previous_root(),
        root: worked.last_root(),
        slot_digests: &worked.digests,
    }
}

fn answer(worked: &WorkedExample, samples: &[PassSample]) -> PassOpenings {
    naive::open_pass(&worked.challenge, &worked.share, &worked.roots, worked.last_iteration(), samples)
}

/// An answer of a miner that changed its slots after the pass and committed to the changed ones.
fn forged(
    worked: &WorkedExample,
    samples: &[PassSample],
    forge: impl FnOnce(&mut [Vec<u8>]),
) -> (Vec<Root>, PassOpenings) {
    let mut slots = worked.slots.clone();
    forge(&mut slots);
    let mut roots = worked.roots.clone();
    let slot_digests = naive::digests(&slots);
    let root = pass_root(&slot_digests);
    *roots.last_mut().unwrap() = root;
    let n = worked.challenge.n();
    let key = key_of(worked);
    let samples =
        samples.iter().map(|s| naive::open_sample(worked.challenge.precision(), &slots, &key, n, s)).collect();
    (roots, PassOpenings { root, slot_digests, samples, ..audited(worked).header() })
}

fn key_of(worked: &WorkedExample) -> assay_work::PassKey {
    pass_key(worked.challenge.work_key(), worked.share.device_id, worked.last_iteration(), &worked.previous_root())
}

fn judge_forged(
    worked: &WorkedExample,
    samples: &[PassSample],
    forge: impl FnOnce(&mut [Vec<u8>]),
) -> Result<(), OpeningFault> {
    let (roots, openings) = forged(worked, samples, forge);
    let (device_id, iteration) = (worked.share.device_id, worked.last_iteration());
    check_pass_openings(&Audit::new(&worked.challenge, device_id, iteration, &roots, samples), &openings)
}

fn fault(worked: &WorkedExample, kind: FaultKind, place: FaultPlace) -> Result<(), OpeningFault> {
    Err(OpeningFault { kind, device_id: worked.share.device_id, place })
}

#[test]
pub(super) fn openings_of_the_vectors_are_accepted_and_built_again() {
    for name in
        ["openings-n256", "openings-second-device", "openings-k2", "openings-k5", "openings-k6", "openings-n2048"]
    {
        let openings: PassOpenings = vector_object(name);
        check_standalone(&openings, None).unwrap();
        let samples: Vec<_> = openings.samples.iter().map(|s| s.sample).collect();
        check_standalone(&openings, Some(&samples)).unwrap();
        let challenge = checked(&openings.challenge);
        let share = *challenge.share(openings.device_id).unwrap();
        let (roots, _) = naive::share(&challenge, &share);
        let built = naive::open_pass(&challenge, &share, &roots, openings.iteration, &samples);
        assert_eq!(built, openings, "{name}");
    }
}

#[test]
fn openings_of_n2048_are_accepted() {
    check_standalone(&vector_object("openings-n2048"), None).unwrap();
}

#[test]
pub(super) fn every_invalid_answer_is_refused_for_its_reason() {
    let file: InvalidOpenings = vector("invalid-openings");
    check_standalone(&file.valid, None).unwrap();
    assert_eq!(file.cases.len(), 24);
    for case in &file.cases {
        let error = check_standalone(&case.opening, None).expect_err(&case.what);
        assert_eq!(error.code(), case.expect, "{}: {error}", case.what);
    }
}

/// Among them answers of kind 5 in which bits were cleared that no operand depends on: bytes are compared whole.
#[test]
pub(super) fn every_judged_answer_is_accepted_or_refused_as_judged() {
    let mut judged = BTreeMap::<_, u32>::new();
    let files = ["judged-openings", "openings-k7", "openings-k8"].map(vector::<JudgedOpenings>);
    for case in files.iter().flat_map(|file| &file.cases) {
        let found = check_standalone(&case.opening, None).map_err(|e| e.code());
        assert_eq!(found.err().unwrap_or("accepted"), case.expect, "{}", case.what);
        *judged.entry(case.opening.challenge.precision).or_default() += 1;
    }
    assert_eq!(judged.values().sum::<u32>(), 65);
    assert!(judged.keys().eq([1, 2, 5, 6, 7, 8].iter()), "{judged:?}");
}

/// The same answers before a validator, which takes only the commitment from them. A miner that forged slots committed
/// to another root, which has samples of its own.
#[test]
fn every_invalid_answer_is_refused_by_who_drew_the_samples() {
    let file: InvalidOpenings = vector("invalid-openings");
    let challenge = checked(&file.valid.challenge);
    let samples_in = |openings: &PassOpenings| openings.samples.iter().map(|s| s.sample).collect::<Vec<_>>();
    let judge = |openings: &PassOpenings| {
        let forged = openings.committed_roots != file.valid.committed_roots;
        let samples = samples_in(if forged { openings } else { &file.valid });
        let roots = &openings.committed_roots.as_ref().unwrap()[&file.valid.device_id];
        let audit = Audit::new(&challenge, file.valid.device_id, file.valid.iteration, roots, &samples);
        check_pass_openings(&audit, openings).map_err(|fault| fault.code())
    };
    assert_eq!(judge(&file.valid), Ok(()));
    for case in &file.cases {
        assert_eq!(judge(&case.opening), Err(case.expect.as_str()), "{}", case.what);
    }
}

#[test]
fn what_a_device_opens_is_what_the_reference_opens_and_passes() {
    for worked in sizes() {
        let samples = samples_of(worked);
        let handle = Handle::default();
        let opened = open_samples(&mut worked.device(), &audited(worked), &samples, &handle).unwrap();
        assert_eq!(opened, answer(worked, &samples), "n = {}", worked.challenge.n());
        assert_eq!(check_pass_openings(&audit(worked, &samples), &opened), Ok(()));
        let text = serde_json::to_string(&opened).unwrap();
        assert_eq!(from_json::<PassOpenings>(&text).unwrap(), opened);
    }
}

#[test]
fn samples_can_be_opened_and_checked_one_by_one() {
    let worked = &sizes()[0];
    let samples = samples_of(worked);
    let mut device = worked.device();
    let plan = SamplePlan::new(&mut device, &audited(worked), &samples, &Handle::default()).unwrap();
    let audit = audit(worked, &samples);
    let mut check = PassCheck::begin(&audit, worked.digests.clone()).unwrap();
    for index in 0..plan.len() {
        check.sample(&plan.open(&mut device, index).unwrap());
    }
    assert_eq!(check.finish(), Ok(()));
}

/// Every answer here has one flipped bit; a hash or a comparison must refuse it.
fn flipped(
    worked: &WorkedExample,
    choice: (usize, usize, usize),
    what: usize,
) -> (PassOpenings, FaultKind, FaultPlace) {
    let mut given = answer_once(worked).clone();
    let (a, b, bit) = choice;
    let sample = a % given.samples.len();
    let opening = b % given.samples[sample].openings.len();
    let opened = &mut given.samples[sample].openings[opening];
    let place = FaultPlace::Opening { sample, opening };
    let flip = |bytes: &mut [u8]| bytes[bit / 8 % bytes.len()] ^= 1 << (bit % 8);
    match what {
        0 => flip(&mut opened.bytes),
        1 => {
            let at = b % opened.siblings.len();
            flip(&mut opened.siblings[at].0);
        }
        2 => {
            let at = a % given.slot_digests.len();
            flip(&mut given.slot_digests[at].0);
            return (given, FaultKind::Digests, FaultPlace::Answer);
        }
        3 => {
            flip(&mut given.root.0);
            return (given, FaultKind::Binding, FaultPlace::Answer);
        }
        4 => {
            flip(&mut given.previous_root.0);
            return (given, FaultKind::Binding, FaultPlace::Answer);
        }
        5 => {
            opened.first_byte ^= 1 << (bit % 64);
            return (given, FaultKind::Range, place);
        }
        _ => {
            opened.slot ^= 1 << (bit % 32);
            return (given, FaultKind::Rows, place);
        }
    }
    (given, FaultKind::Path, place)
}

fn answer_once(worked: &WorkedExample) -> &'static PassOpenings {
    static ANSWERS: LazyLock<Vec<PassOpenings>> =
        LazyLock::new(|| sizes().iter().map(|w| answer(w, &samples_of(w))).collect());
    ANSWERS.iter().find(|a| a.challenge.n == worked.challenge.n()).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn one_flipped_bit_is_found(size in 0_usize..4, choice: (usize, usize, usize), what in 0_usize..7) {
        let worked = &sizes()[size % sizes().len()];
        let (given, kind, place) = flipped(worked, choice, what);
        let samples = samples_of(worked);
        prop_assert_eq!(check_pass_openings(&audit(worked, &samples), &given), fault(worked, kind, place));
    }

    /// One wrong byte of a slot, hashed and committed to as if it were right: found exactly when it is looked at.
    #[test]
    fn a_forged_element_is_found_where_it_is_sampled(
        slot in 2_u32..9, row in 0_u32..256, column in 0_u32..256, inner in 0_u32..256, by in 1_u8..,
    ) {
        let worked = &sizes()[0];
        let (earlier, previous) = parents(&key_of(worked), slot);
        let sample = [PassSample::Product { slot, row, column, inner }];
        let forge = |u: u32, a: u32, b: u32| judge_forged(worked, &sample, |slots: &mut [Vec<u8>]| {
            let byte = &mut slots[u as usize][(a * 256 + b) as usize];
            *byte = byte.wrapping_add(by);
        });
        let found = |kind, opening| fault(worked, kind, FaultPlace::Opening { sample: 0, opening });
        prop_assert_eq!(forge(slot, row, column), found(FaultKind::Element, 0));
        prop_assert_eq!(forge(slot, row, (column + 1) % 256), Ok(()), "another element of the row");
        prop_assert_eq!(forge(slot, (row + 1) % 256, column), Ok(()), "another row, which the range may hold");
        let in_factor = |u: u32| if u < 2 { FaultKind::Leaf } else { FaultKind::Element };
        // A factor goes into the sampled sum as well, unless the other factor is zero: then it is found itself.
        let kind = forge(earlier, row, inner).unwrap_err().kind;
        prop_assert_eq!(kind, in_factor(earlier));
        let kind = forge(previous, column, inner).unwrap_err().kind;
        prop_assert_eq!(kind, in_factor(previous));
    }

    #[test]
    fn a_forged_leaf_is_found_in_the_row_asked_for_only(row in 0_u32..256, column in 0_u32..256, slot in 0_u32..2) {
        let worked = &sizes()[0];
        let sample = [PassSample::Leaf { slot, row }];
        let forge = |a: u32| judge_forged(worked, &sample, |slots: &mut [Vec<u8>]| {
            slots[slot as usize][(a * 256 + column) as usize] ^= 0x40;
        });
        let place = FaultPlace::Opening { sample: 0, opening: 0 };
        prop_assert_eq!(forge(row), fault(worked, FaultKind::Leaf, place));
        // The range of 1024 bytes holds three other rows: they were not asked for.
        prop_assert_eq!(forge(row ^ 1), Ok(()));
    }
}

/// A fault of a kind named earlier in WORK.md comes first, in any sample; within a kind, the first sample.
#[test]
fn the_first_fault_is_that_of_the_table_over_all_samples() {
    let worked = &sizes()[0];
    let samples = samples_of(worked);
    let (roots, mut given) = forged(worked, &samples, |slots| {
        slots[0].fill(0);
        slots[2].fill(0);
    });
    let (device_id, iteration) = (worked.share.device_id, worked.last_iteration());
    let audit = Audit::new(&worked.challenge, device_id, iteration, &roots, &samples);
    let judge = |given: &PassOpenings| check_pass_openings(&audit, given);
    let opening = |sample, opening| FaultPlace::Opening { sample, opening };
    // Sample 0 is a row of leaf 0; each change below is of a kind named before, in a sample after.
    assert_eq!(judge(&given), fault(worked, FaultKind::Leaf, opening(0, 0)));
    given.samples[1].openings[0].siblings[2].0[5] ^= 1;
    assert_eq!(judge(&given), fault(worked, FaultKind::Path, opening(1, 0)));
    given.samples[4].openings[1].siblings.pop();
    given.samples[3].openings[2].siblings.pop();
    assert_eq!(judge(&given), fault(worked, FaultKind::Siblings, opening(3, 2)));
    given.samples[5].openings[1].bytes.pop();
    assert_eq!(judge(&given), fault(worked, FaultKind::Range, opening(5, 1)));
    given.samples[6].openings.pop();
    assert_eq!(judge(&given), fault(worked, FaultKind::Rows, FaultPlace::Sample { sample: 6 }));
    given.slot_digests[8].0[0] ^= 1;
    assert_eq!(judge(&given), fault(worked, FaultKind::Digests, FaultPlace::Answer));
    given.iteration = 0;
    assert_eq!(judge(&given), fault(worked, FaultKind::Binding, FaultPlace::Answer));
}

#[test]
fn only_the_samples_drawn_are_an_answer() {
    let worked = &sizes()[0];
    let samples = samples_of(worked);
    let honest = answer_once(worked);
    let judge = |change: &dyn Fn(&mut PassOpenings)| {
        let mut given = honest.clone();
        change(&mut given);
        check_pass_openings(&audit(worked, &samples), &given)
    };
    let rows = |sample| fault(worked, FaultKind::Rows, FaultPlace::Sample { sample });
    assert_eq!(judge(&|_| ()), Ok(()));
    assert_eq!(judge(&|given| given.samples.swap(0, 1)), rows(0));
    assert_eq!(judge(&|given| given.samples[3] = given.samples[2].clone()), rows(3));
    assert_eq!(judge(&|given| given.samples.truncate(5)), rows(5));
    let also_bent = |given: &mut PassOpenings| {
        given.samples.truncate(5);
        given.samples[1].openings[0].bytes[0] ^= 1;
    };
    assert_eq!(judge(&also_bent), rows(5), "a sample left out is named before a path that leads elsewhere");
    assert_eq!(judge(&|given| given.samples.push(given.samples[0].clone())), rows(samples.len()));
    assert_eq!(judge(&|given| given.samples[2].parents.as_mut().unwrap().earlier += 1), rows(2));
    assert_eq!(judge(&|given| given.samples[0].parents = given.samples[2].parents), rows(0));
    assert_eq!(judge(&|given| given.samples[2].parents = None), Ok(()), "they need not be named");
    let other = |given: &mut PassOpenings| given.challenge.nonce.0[0] ^= 1;
    assert_eq!(judge(&other), fault(worked, FaultKind::Binding, FaultPlace::Answer));
}

/// An answer cannot bring a commitment of its own before a validator that has one.
#[test]
fn the_answers_own_commitment_is_not_looked_at() {
    let worked = &sizes()[0];
    let samples = samples_of(worked);
    let (roots, mut given) = forged(worked, &samples, |slots| slots[3].fill(0));
    given.committed_roots = Some(BTreeMap::from([(worked.share.device_id, roots)]));
    let judged = check_pass_openings(&audit(worked, &samples), &given);
    assert_eq!(judged, fault(worked, FaultKind::Binding, FaultPlace::Answer));
}

#[test]
fn what_stands_alone_must_agree_with_itself() {
    let file: InvalidOpenings = vector("invalid-openings");
    let code = |change: &dyn Fn(&mut PassOpenings)| {
        let mut given = file.valid.clone();
        change(&mut given);
        check_standalone(&given, None).map_err(|e| e.code())
    };
    assert_eq!(code(&|given| given.committed_roots = None), Ok(()));
    let first = |given: &mut PassOpenings| {
        given.committed_roots = None;
        given.iteration = 0;
    };
    assert_eq!(code(&first), Err("binding"), "the first iteration follows nothing");
    assert_eq!(code(&|given| given.iteration = 2), Err("binding"));
    let id = file.valid.device_id;
    assert_eq!(code(&|given| drop(given.committed_roots.as_mut().unwrap().remove(&id))), Err("binding"));
    assert_eq!(
        code(&|given| given.committed_roots.as_mut().unwrap().get_mut(&id).unwrap().push(given.root)),
        Err("binding")
    );
    let roots_of = |given: &mut PassOpenings, change: fn(&mut BTreeMap<DeviceId, Vec<Root>>, DeviceId)| {
        let other = given.challenge.shares[0].device_id;
        change(given.committed_roots.as_mut().unwrap(), other);
    };
    assert_eq!(code(&|given| roots_of(given, |roots, other| drop(roots.remove(&other)))), Err("binding"));
    assert_eq!(
        code(&|given| roots_of(given, |roots, other| roots.get_mut(&other).unwrap().truncate(1))),
        Err("binding")
    );
    let stranger = |given: &mut PassOpenings| {
        roots_of(given, |roots, other| drop(roots.insert(DeviceId([0xEE; 16]), roots[&other].clone())));
    };
    assert_eq!(code(&stranger), Err("binding"), "a device that is not in the challenge");
    assert_eq!(code(&|given| given.challenge.n = 300), Err("n"));
    assert_eq!(code(&|given| given.samples[0].sample = PassSample::Leaf { slot: 0, row: 256 }), Err("rows"));
    let outside = [PassSample::Product { slot: 6, row: 0, column: 0, inner: 0 }, file.valid.samples[1].sample];
    let error = check_standalone(&file.valid, Some(&outside)).unwrap_err();
    assert!(matches!(error, StandaloneError::Fault(fault) if fault.kind == FaultKind::Rows));
}

#[test]
fn fields_of_openings_are_named() {
    let compact: serde_json::Value = serde_json::from_str(&vector_text("openings-n256")).unwrap();
    let text = compact.to_string();
    let error = |from: &str, to: &str| {
        assert!(text.contains(from), "{from}");
        from_json::<PassOpenings>(&text.replacen(from, to, 1)).unwrap_err().to_string()
    };
    let cases = [
        (error(r#""column":"#, r#""colum":"#), "unknown field `colum`"),
        (error(r#""row":3,"#, r#""row":3,"column":1,"#), "samples[0]: unknown field `column`"),
        (error(r#""row":3,"slot":0"#, r#""row":3,"slot":2"#), "samples[0]: missing field `column`"),
        (error(r#""previous":"#, r#""_":"#), "unknown field `_`"),
        (error(r#""iteration":1"#, r#""iteration":-1"#), "iteration: invalid value"),
        (error(r#""bytes":""#, r#""bytes":"0"#), "samples[0].openings[0].bytes: expected"),
        (error(r#""siblings":[""#, r#""siblings":["00"#), "samples[0].openings[0].siblings[0]: expected 64"),
        (error(r#""root":"#, r#""committed_roots":null,"root":"#), "committed_roots: invalid type"),
    ];
    for (found, expected) in cases {
        assert!(found.contains(expected), "{found:?} does not say {expected:?}");
    }
    assert!(matches!(from_json::<UncheckedChallenge>(&text), Err(JsonError::Field { .. })));
}

#[test]
fn a_device_that_no_longer_holds_the_pass_is_found_sick() {
    let worked = &sizes()[0];
    let samples = samples_of(worked);
    let mut digests = worked.digests.clone();
    digests[4] = slot_digest(b"another");
    let pass = AuditedPass { slot_digests: &digests, ..audited(worked) };
    let error = open_samples(&mut worked.device(), &pass, &samples, &Handle::default()).unwrap_err();
    assert_eq!(error, DeviceError::Sick("slot 4 no longer hashes to its digest".into()));
}

#[test]
fn openings_that_cannot_be_built_are_errors() {
    let worked = &sizes()[0];
    let handle = Handle::default();
    let mut device = worked.device();
    for sample in [
        PassSample::Leaf { slot: 0, row: 256 },
        PassSample::Leaf { slot: 2, row: 0 },
        PassSample::Product { slot: 1, row: 0, column: 0, inner: 0 },
        PassSample::Product { slot: 9, row: 0, column: 0, inner: 0 },
        PassSample::Product { slot: 2, row: 0, column: 256, inner: 0 },
        PassSample::Product { slot: 2, row: 0, column: 0, inner: 256 },
    ] {
        let error = open_samples(&mut device, &audited(worked), &[sample], &handle).unwrap_err();
        assert!(matches!(error, DeviceError::Unsupported(_)), "{sample:?}: {error}");
    }
    handle.cancel();
    let error = open_samples(&mut device, &audited(worked), &samples_of(worked), &handle).unwrap_err();
    assert_eq!(error, DeviceError::Cancelled);
    device.release();
    let error = open_samples(&mut device, &audited(worked), &samples_of(worked), &Handle::default()).unwrap_err();
    assert!(matches!(error, DeviceError::Unsupported(_)), "{error}");
}
