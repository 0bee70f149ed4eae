//! How often a lie is caught: as often as WORK.md's bounds say, over seeds that are fixed.

use assay_integration_tests::audited::Audited;
use assay_integration_tests::dishonest::WorkLie;
use assay_judge::entropy::SeededEntropy;
use assay_judge::verify::draw;
use assay_protocol::verdict::ReasonCode;
use assay_work::bounds::pass_log2;
use assay_work::opening::PassSample;

/// Two of forty slots, in mid-chain: 5 %.
const ZERO_SLOTS: &[u32] = &[13, 27];
/// Count of seeds, and of samples for each: few enough that some lies are not caught.
const SEEDS: u64 = 400;
const SAMPLES: u32 = 8;
/// A count of catches this far off is hardly an accident: 6 in 100,000.
const DEVIATIONS: f64 = 4.0;

/// Draws for many seeds, and requires that as many of them catch the lie as `touched`, the probability that one
/// sample touches a wrong element, says.
fn caught_as_often_as_said(audited: &mut Audited, touched: f64) {
    let caught = (0..SEEDS)
        .filter(|seed| {
            let samples = draw::samples(256, audited.count(), SAMPLES, &mut SeededEntropy::new(*seed)).unwrap();
            let result = audited.check(samples);
            if let Err(reason) = &result {
                assert_eq!(reason.code, ReasonCode::AuditElement, "{reason:?}");
            }
            result.is_err()
        })
        .count();
    let probability = 1.0 - pass_log2(touched, SAMPLES.into()).exp2();
    let expected = SEEDS as f64 * probability;
    let deviation = (expected * (1.0 - probability)).sqrt();
    let off = (caught as f64 - expected) / deviation;
    assert!(off.abs() < DEVIATIONS, "{caught} of {SEEDS} caught, {expected:.1} ± {deviation:.1} expected");
    assert!(deviation > 3.0, "some pass and some do not, or this shows nothing");
}

#[test]
fn slots_of_zeros() {
    let mut audited = Audited::new(40, Some(WorkLie::ZeroSlots(ZERO_SLOTS)));
    let touched = audited.touched();
    // Each slot is met as itself, by the next one, and as the earlier parent of some.
    assert!((0.05..0.4).contains(&touched), "{touched}");
    caught_as_often_as_said(&mut audited, touched);
}

#[test]
fn a_twentieth_of_the_elements() {
    let mut audited = Audited::new(12, Some(WorkLie::SkipElements));
    let touched = audited.touched();
    // Three elements of each sample, of products mostly: 1 - 0.95³.
    assert!((0.10..0.143).contains(&touched), "{touched}");
    caught_as_often_as_said(&mut audited, touched);
}

#[test]
fn no_seed_blames_the_honest() {
    let mut audited = Audited::new(12, None);
    assert_eq!(audited.touched(), 0.0);
    for seed in 0..100 {
        let samples = draw::samples(256, 12, SAMPLES, &mut SeededEntropy::new(seed)).unwrap();
        audited.check(samples).unwrap();
    }
}

/// A wrong slot is seen by a sample of itself, of the product after it, and of one that it is the earlier parent of;
/// by no other.
#[test]
fn one_sample_sees_a_wrong_slot_in_each_of_three_places() {
    let zero = 5;
    let mut audited = Audited::new(24, Some(WorkLie::ZeroSlots(&[5])));
    let child = (7..24).find(|u| audited.parents(*u).0 == zero).expect("with this challenge one has it so");
    let far = (7..24).find(|u| audited.parents(*u).0 != zero).expect("most do not");
    // An element of the slot that ought not to be zero.
    let (a, b) = audited.wrong_element(zero);
    let other = 200;
    let product = |slot, row, column, inner| PassSample::Product { slot, row, column, inner };
    for (what, sample) in [
        ("the slot itself", product(zero, a, b, other)),
        ("its earlier one", product(child, a, other, b)),
        ("its previous one", product(zero + 1, other, a, b)),
    ] {
        let reason = audited.check(vec![sample]).expect_err(what);
        assert_eq!(reason.code, ReasonCode::AuditElement, "{what}: {reason:?}");
    }
    audited.check(vec![product(far, a, other, b)]).expect("it does not touch it");
    let mut honest = Audited::new(24, None);
    honest.check(vec![product(zero, a, b, other), product(child, a, other, b)]).expect("an honest slot passes");
}
