use serde_json::json;

use super::*;
use crate::tests::sample::{SampleDevice, edited, receipt};

const RULES: ComparisonRules =
    ComparisonRules { by_model: false, rate_tolerance: 0.15, memory_tolerance: 0.05, least_seconds: 2.0 };
const TWO: [SampleDevice; 2] = [(1, "H200", 140_000, 1500.0), (2, "H200", 141_000, 1510.0)];

fn result(before: &Claims, after: &Claims) -> ComparisonResult {
    compare(before, after, &RULES).unwrap().result
}

/// The items of the rows that are worse, with their devices' first digits.
fn worse(before: &Claims, after: &Claims, rules: &ComparisonRules) -> Vec<(ComparedItem, String)> {
    let compared = compare(before, after, rules).unwrap();
    let rows = compared.rows.into_iter().filter(|row| row.result == ComparisonResult::Worse);
    rows.map(|row| (row.item, row.device.unwrap_or_default().chars().take(9).collect())).collect()
}

#[test]
fn the_same_host_is_the_same_and_a_better_one_too() {
    let before = receipt(1, 1, 1000, "affirming", &TWO);
    assert_eq!(result(&before, &receipt(2, 1, 2000, "affirming", &TWO)), ComparisonResult::Same);
    let more = [TWO[0], (2, "H200", 150_000, 1900.0), (3, "H200", 150_000, 1900.0)];
    assert_eq!(result(&before, &receipt(2, 1, 2000, "affirming", &more)), ComparisonResult::Same);
    for nothing in ["contraindicated", "none"] {
        let nothing = receipt(0, 1, 900, nothing, &TWO);
        assert_eq!(result(&nothing, &before), ComparisonResult::Undecided, "there is nothing to compare with");
    }
}

#[test]
fn what_is_gone_or_fell_is_worse_and_named() {
    let before = receipt(1, 1, 1000, "affirming", &TWO);
    let after = |devices: &[SampleDevice]| receipt(2, 1, 2000, "affirming", devices);
    for (devices, items) in [
        (vec![TWO[0]], vec![(ComparedItem::Device, "device-02")]),
        (vec![TWO[0], (2, "H100", 141_000, 1510.0)], vec![(ComparedItem::Model, "device-02")]),
        (vec![(1, "H200", 132_000, 1500.0), TWO[1]], vec![(ComparedItem::MemoryBytes, "device-01")]),
        (
            vec![(1, "H200", 140_000, 1200.0), TWO[1]],
            vec![(ComparedItem::Tops, "device-01"), (ComparedItem::ProbeGbPerS, "device-01")],
        ),
        // Within the tolerances.
        (vec![(1, "H200", 134_000, 1290.0), TWO[1]], vec![]),
    ] {
        let items: Vec<_> = items.into_iter().map(|(item, device)| (item, device.to_owned())).collect();
        assert_eq!(worse(&before, &after(&devices), &RULES), items, "{devices:?}");
    }
    let strict = ComparisonRules { rate_tolerance: 0.01, ..RULES };
    assert_eq!(worse(&before, &after(&[(1, "H200", 140_000, 1470.0), TWO[1]]), &strict).len(), 2);
    let hasty = ComparisonRules { least_seconds: 3.5, ..RULES };
    let slow = after(&[(1, "H200", 140_000, 100.0), TWO[1]]);
    assert_eq!(compare(&before, &slow, &hasty).unwrap().result, ComparisonResult::Undecided, "it took 3 s before");
}

#[test]
fn a_share_that_may_be_hidden_is_no_missing_memory() {
    let share = |number, iat, bytes, share: f64| {
        let mut receipt = receipt(number, 1, iat, "affirming", &[(1, "H200", bytes, 1500.0)]);
        for device in receipt.submods.devices.values_mut() {
            device.ear_verifier_claims.hidden_share_at_most = Some(share);
        }
        receipt
    };
    let before = share(1, 1000, 90_000, 0.1);
    for (after, expected) in [
        (share(2, 2000, 87_000, 0.13), ComparisonResult::Same),
        (share(2, 2000, 50_000, 0.5), ComparisonResult::Undecided),
        (share(2, 2000, 0, 1.0), ComparisonResult::Undecided),
        (share(2, 2000, 45_000, 0.1), ComparisonResult::Worse),
    ] {
        assert_eq!(result(&before, &after), expected, "{after:?}");
    }
}

#[test]
fn reasons_are_the_hosts_by_their_class_and_old_ones_are_nothing_new() {
    let before = receipt(1, 1, 1000, "affirming", &TWO);
    let with = |number, status, class: &str| {
        let reasons = json!([{ "code": "device_sick", "class": class, "detail": "it fell off the bus" }]);
        edited(number, 1, 2000, status, &TWO, |host| host["reasons"] = reasons)
    };
    for class in ["forged", "late", "evasive", "short", "sick"] {
        assert_eq!(result(&before, &with(2, "none", class)), ComparisonResult::Worse, "{class}");
    }
    for class in ["busy", "network", "ours", "of a later version"] {
        assert_eq!(result(&before, &with(2, "none", class)), ComparisonResult::Undecided, "{class}");
    }
    let (earlier, later) = (with(2, "contraindicated", "short"), with(3, "contraindicated", "short"));
    assert_eq!(result(&before, &earlier), ComparisonResult::Worse);
    assert!(worse(&earlier, &later, &RULES).is_empty());
    assert_eq!(result(&earlier, &later), ComparisonResult::Undecided, "neither shows anything");
    let cut = edited(2, 1, 2000, "affirming", &TWO, |host| host["findings_left_out"] = json!(1));
    assert_eq!(result(&before, &cut), ComparisonResult::Undecided, "not all of it is there");
}

#[test]
fn a_finding_counts_where_it_is_enforced() {
    let before = receipt(1, 1, 1000, "affirming", &TWO);
    for (enforced, expected) in [(true, ComparisonResult::Worse), (false, ComparisonResult::Same)] {
        let findings = json!([{ "code": "too_slow", "enforced": enforced, "detail": "half of its model" }]);
        let after = edited(2, 1, 2000, "affirming", &TWO, |host| host["findings"] = findings);
        assert_eq!(result(&before, &after), expected);
    }
}

#[test]
fn a_device_that_was_not_asked_decides_nothing() {
    let before = receipt(1, 1, 1000, "affirming", &TWO);
    let ids = json!(["02".repeat(16)]);
    let after = edited(2, 1, 2000, "affirming", &TWO[..1], |host| host["not_challenged"] = ids);
    assert_eq!(result(&before, &after), ComparisonResult::Undecided);
}

#[test]
fn a_challenge_that_was_not_made_names_no_device_and_blames_nobody() {
    let before = receipt(1, 1, 1000, "affirming", &TWO);
    let reasons = json!([{ "code": "disconnected", "class": "network", "detail": "the stream broke" }]);
    let after = edited(2, 1, 2000, "none", &[], |host| host["reasons"] = reasons);
    assert_eq!(result(&before, &after), ComparisonResult::Undecided);
    let missing = json!(["02".repeat(16)]);
    let after = edited(2, 1, 2000, "none", &[], |host| host["missing_devices"] = missing);
    assert_eq!(worse(&before, &after, &RULES), [(ComparedItem::Device, "device-02".to_owned())]);
}

#[test]
fn other_work_is_no_measure() {
    let before = receipt(1, 1, 1000, "affirming", &TWO);
    let less = [(1, "H200", 14_000, 140.0), (2, "H200", 14_000, 150.0)];
    assert_eq!(result(&before, &receipt(2, 1, 2000, "affirming", &less)), ComparisonResult::Worse);
    for (field, value) in [("n", json!(4096)), ("precision", json!(2))] {
        let after = edited(2, 1, 2000, "affirming", &less, |host| host[field] = value);
        assert_eq!(result(&before, &after), ComparisonResult::Undecided, "{field}");
    }
    // A light challenge after a heavy one.
    let mut light = receipt(2, 1, 2000, "affirming", &less);
    light.submods.host.ear_appraisal_policy_ids = vec!["default:1".to_owned()];
    assert_eq!(result(&before, &light), ComparisonResult::Undecided);
    assert_eq!(result(&light, &receipt(3, 1, 3000, "affirming", &TWO)), ComparisonResult::Same);
}

#[test]
fn hosts_without_a_common_key_are_compared_by_model_when_asked() {
    let before = receipt(1, 1, 1000, "affirming", &TWO);
    let others = [(7, "H200", 141_000, 1510.0), (8, "H200", 90_000, 1500.0)];
    let after = receipt(2, 2, 2000, "affirming", &others);
    let refused = ComparisonError::OtherMiner { before: before.sub, after: after.sub };
    assert_eq!(compare(&before, &after, &RULES), Err(refused));
    let rules = ComparisonRules { by_model: true, ..RULES };
    assert_eq!(worse(&before, &after, &rules), [(ComparedItem::MemoryBytes, "device-08".to_owned())]);
    assert!(!compare(&before, &after, &rules).unwrap().same_key);
    let other_model = receipt(3, 2, 2000, "affirming", &[(7, "H200", 141_000, 1510.0), (8, "A100", 141_000, 1500.0)]);
    assert_eq!(worse(&before, &other_model, &rules), [(ComparedItem::Device, "device-01".to_owned())]);
}

#[test]
fn the_earlier_one_comes_first() {
    let [one, two] = [1000, 2000].map(|at| receipt(1, 1, at, "affirming", &TWO));
    assert_eq!(compare(&two, &one, &RULES), Err(ComparisonError::Order));
}
