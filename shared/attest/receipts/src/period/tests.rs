use serde_json::json;

use super::*;
use crate::tests::sample::{SampleDevice, edited, receipt};

const HOUR: u64 = 3600;
const START: u64 = 1_793_491_200; // 2026-11-01
const END: u64 = START + 3 * DAY_S;
const TWO: [SampleDevice; 2] = [(1, "H200", 140, 1500.0), (2, "H200", 141, 1510.0)];

fn report(receipts: Vec<Claims>) -> PeriodReport {
    PeriodReport::of(receipts, START, END)
}

#[test]
fn hours_are_proven_while_a_receipt_is_in_force() {
    // From 22:00 the day before, for a day; then nothing until the third day.
    let receipts = vec![
        receipt(1, 1, START - 2 * HOUR, "affirming", &TWO),
        receipt(2, 1, START + 10 * HOUR, "affirming", &TWO),
        receipt(3, 1, START + 60 * HOUR, "affirming", &TWO),
    ];
    let found = report(receipts.clone());
    assert_eq!((found.hours_proven, found.hours_without_proof), (34.0 + 12.0, 26.0));
    assert_eq!(found.days.iter().map(|day| day.hours).collect::<Vec<_>>(), [24.0, 10.0, 12.0]);
    assert_eq!(found.days_proven, 2, "none was issued on the second day");
    assert_eq!(found.days.iter().map(|day| day.receipt.as_deref()).collect::<Vec<_>>(), [Some("r2"), None, Some("r3")]);
    let gap = ProofGap { from_s: START + 34 * HOUR, until_s: START + 60 * HOUR, after: Some("r2".into()) };
    assert_eq!(found.longest_gap, Some(gap));
    assert_eq!(found.receipts, BTreeMap::from([("affirming".to_owned(), 2)]), "the first is of the month before");
    let shuffled = report([2, 0, 1, 1].map(|at| receipts[at].clone()).to_vec());
    assert_eq!(shuffled, found, "order and copies change nothing");
}

#[test]
fn proof_ends_with_a_verdict_against_the_host_and_not_with_one_about_nothing() {
    let first = receipt(1, 1, START, "affirming", &TWO);
    let reasons = json!([{ "code": "device_gone", "class": "short", "detail": "one is missing" }]);
    let fail = edited(2, 1, START + 6 * HOUR, "contraindicated", &TWO, |host| host["reasons"] = reasons);
    let found = report(vec![first.clone(), fail]);
    assert_eq!((found.hours_proven, found.days_proven), (6.0, 1));
    assert_eq!(found.unproven[0].reasons, ["short device_gone"]);
    assert_eq!((found.unproven[0].receipt.as_str(), found.unproven[0].status), ("r2", Tier::Contraindicated));
    let unclear = receipt(2, 1, START + 6 * HOUR, "none", &TWO);
    assert_eq!(report(vec![first.clone(), unclear]).hours_proven, 24.0);
    let warned = receipt(2, 1, START + 6 * HOUR, "warning", &TWO);
    assert_eq!(report(vec![first, warned]).hours_proven, 6.0, "a pass in another state ends what was affirmed");
}

#[test]
fn receipts_of_two_validators_overlap() {
    let mut short = receipt(2, 1, START + 2 * HOUR, "affirming", &TWO);
    short.exp = short.iat + HOUR;
    let found = report(vec![receipt(1, 1, START, "affirming", &TWO), short]);
    assert_eq!((found.hours_proven, found.days[0].hours, found.days[1].hours), (24.0, 24.0, 0.0));
    let gap = found.longest_gap.unwrap();
    assert_eq!((gap.from_s, gap.after.as_deref()), (START + 24 * HOUR, Some("r1")));
}

#[test]
fn capacity_is_the_least_and_the_median_with_the_receipts_that_state_them() {
    let with = |number: u32, bytes, tops| {
        receipt(number, 1, START + u64::from(number) * HOUR, "affirming", &[(1, "H200", bytes, tops)])
    };
    let found = report(vec![with(1, 140, 1500.0), with(2, 90, 1600.0), with(3, 141, 1400.0), with(4, 142, 1700.0)]);
    let stated = |value: u64, receipt: &str| Stated { value, receipt: receipt.to_owned() };
    let bytes = StatedRange { least: stated(90, "r2"), median: stated(140, "r1") };
    assert_eq!(found.bytes, Some(bytes.clone()));
    assert_eq!(found.rates.len(), 1);
    assert_eq!(found.rates[0].tops.least, Stated { value: 1400.0, receipt: "r3".to_owned() });
    assert_eq!(found.devices[0].bytes, Some(bytes));
    assert_eq!((found.devices[0].receipts, found.devices[0].last.receipt.as_str()), (4, "r4"));
}

#[test]
fn challenges_that_ask_for_less_are_no_less_capacity() {
    let mut light = receipt(2, 1, START + 2 * HOUR, "affirming", &[(1, "H200", 14, 900.0)]);
    light.submods.host.ear_appraisal_policy_ids = vec!["default:1".to_owned()];
    let found = report(vec![receipt(1, 1, START + HOUR, "affirming", &[(1, "H200", 140, 1500.0)]), light]);
    let least = Stated { value: 140, receipt: "r1".to_owned() };
    assert_eq!(found.bytes.unwrap().least, least);
    assert_eq!(found.devices[0].bytes.as_ref().unwrap().least, least);
    assert_eq!(found.days[0].least_bytes, Some(least));
    assert_eq!((found.rates[0].tops.least.value, found.devices[0].receipts), (1500.0, 2));
}

/// Regression test: a host that listed one more device, without memory, on its weak days left them out.
#[test]
fn a_device_that_takes_no_part_hides_no_weak_day() {
    let ids = json!(["02".repeat(16)]);
    let weak =
        edited(2, 1, START + 2 * HOUR, "affirming", &[(1, "H200", 14, 1500.0)], |host| host["not_challenged"] = ids);
    let found = report(vec![receipt(1, 1, START + HOUR, "affirming", &[(1, "H200", 140, 1500.0)]), weak]);
    assert_eq!(found.bytes.unwrap().least, Stated { value: 14, receipt: "r2".to_owned() });
    // One that does not compute a kind hides nothing.
    let ids = json!(["02".repeat(16)]);
    let fp8 = edited(2, 1, START + 2 * HOUR, "affirming", &[(1, "H200", 14, 1500.0)], |host| {
        host["not_challenged"] = ids;
        host["precision"] = json!(Precision::Fp8.code());
    });
    let found = report(vec![receipt(1, 1, START + HOUR, "affirming", &[(1, "H200", 140, 1500.0)]), fp8]);
    assert_eq!(found.bytes.unwrap().least, Stated { value: 140, receipt: "r1".to_owned() });
}

#[test]
fn changes_of_keys_models_and_devices_are_told_once_each() {
    let at = |number: u32| START + u64::from(number) * HOUR;
    let kinds = |found: &PeriodReport| {
        let changes = found.changes.iter().map(|change| format!("{} {}", change.receipt, change.what));
        changes.collect::<Vec<_>>()
    };
    // Device 2 is missed by the third receipt: the second did not ask for it.
    let ids = json!(["02".repeat(16)]);
    let found = report(vec![
        receipt(1, 1, at(1), "affirming", &TWO),
        edited(2, 1, at(2), "affirming", &TWO[..1], |host| host["not_challenged"] = ids),
        receipt(3, 1, at(3), "affirming", &TWO[..1]),
        receipt(4, 1, at(4), "affirming", &TWO[..1]),
        receipt(5, 1, at(5), "affirming", &[(1, "H100", 80, 1500.0), TWO[1]]),
        receipt(6, 2, at(6), "affirming", &[(1, "H100", 80, 1500.0), TWO[1]]),
    ]);
    let swapped = [receipt(1, 1, START - HOUR, "affirming", &TWO), receipt(2, 2, START + HOUR, "warning", &TWO)];
    assert_eq!(kinds(&report(swapped.to_vec())), ["r2 key"], "since the last one before the period");
    assert_eq!(kinds(&found), ["r3 device_gone", "r5 model", "r5 device_new", "r6 key"]);
    assert_eq!(found.keys.iter().map(|key| key.receipt.as_str()).collect::<Vec<_>>(), ["r1", "r6"]);
}

#[test]
fn lists_are_bounded_and_say_what_is_left_out() {
    let many = (0..250_u32).map(|number| receipt(number, 1, START + u64::from(number), "contraindicated", &TWO));
    let found = report(many.collect());
    assert_eq!((found.unproven.len(), found.unproven_left_out, found.hours_proven), (200, 50, 0.0));
    assert_eq!((found.bytes, found.longest_gap.unwrap().after), (None, None));
}
