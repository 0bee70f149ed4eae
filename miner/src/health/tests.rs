use serde_json::json;

use super::*;

const NOW: u64 = 1_000_000;

fn device(free_bytes: u64, fault: Option<&str>) -> FoundDevice {
    FoundDevice { name: "H200".into(), device_id: "ab".into(), free_bytes, fault: fault.map(str::to_owned) }
}

fn verdict(outcome: &str, age_s: u64) -> VerdictStatus {
    let reasons = if outcome == "pass" { json!([]) } else { json!([{ "code": "c", "class": "d", "detail": "e" }]) };
    let verdict =
        json!({ "challenge_id": "a", "at": NOW - age_s, "outcome": outcome, "tops": 1.0, "reasons": reasons });
    serde_json::from_value(verdict).unwrap()
}

/// A miner that runs, is connected, has two devices and passed a minute ago.
fn healthy() -> HealthFacts {
    let mut status =
        MinerStatus { written: NOW - 5, last_verdict: Some(verdict("pass", 60)), ..MinerStatus::default() };
    status.connection.connected_since = Some(NOW - 100);
    HealthFacts {
        miner: Some(7),
        status: Some(status),
        touched: Some(NOW - 5),
        devices: Some(vec![device(1 << 30, None), device(1 << 30, None)]),
    }
}

fn all() -> HealthRequirements {
    HealthRequirements {
        devices: Some(2),
        min_memory: Some(Size { bytes: 2 << 30 }),
        running: true,
        connected: true,
        verdict_within: Some("24h".parse().unwrap()),
    }
}

/// The problems after one change of a healthy miner, with all expectations.
fn problems(change: impl FnOnce(&mut HealthFacts)) -> Vec<String> {
    let mut found = healthy();
    change(&mut found);
    let health = found.judge(&all(), NOW);
    assert_eq!(health.healthy, health.problems.is_empty());
    assert_eq!(health.line().lines().count(), 1, "{}", health.line());
    health.problems
}

#[test]
fn a_healthy_miner_is_told_in_a_line() {
    let line = healthy().judge(&all(), NOW).line();
    assert_eq!(line, "OK: 2 devices, 2048 MiB free, connected, last verdict pass, 60 s ago");
}

#[test]
fn each_expectation_that_is_missed_is_named() {
    let change = |found: &mut HealthFacts, change: &dyn Fn(&mut MinerStatus)| change(found.status.as_mut().unwrap());
    assert_eq!(problems(|_| {}), Vec::<String>::new());
    assert_eq!(problems(|found| found.devices = Some(vec![device(4 << 30, None)])), ["1 of 2 devices"]);
    assert_eq!(
        problems(|found| found.devices = Some(vec![device(1 << 30, None), device(1, None)])),
        ["1024 MiB of 2GiB of memory are free"]
    );
    assert_eq!(
        problems(|found| found.devices.as_mut().unwrap().push(device(9, Some("lost\nits worker")))),
        [r#"device ab ("H200"): "lost its worker""#]
    );
    assert_eq!(problems(|found| found.devices = None), ["the devices are not open yet"]);
    assert_eq!(
        problems(|found| {
            change(found, &|status| status.written = NOW - 300);
            found.touched = Some(NOW - 300);
        }),
        ["the miner, process 7, hangs, or its disk takes no writes: its status is 5 min old"]
    );
    let verdicts =
        |given: Option<VerdictStatus>| problems(|found| change(found, &|status| status.last_verdict = given.clone()));
    assert_eq!(verdicts(None), ["no verdict is known, within 1d or ever"]);
    assert_eq!(verdicts(Some(verdict("pass", 90_000))), ["last verdict pass, 25 h ago: older than 1d"]);
    assert_eq!(verdicts(Some(verdict("inconclusive", 9))), [r#"last verdict inconclusive ("c"), 9 s ago"#]);
    assert_eq!(verdicts(Some(verdict("fail", 9))), [r#"last verdict fail ("c"), 9 s ago"#]);
}

#[test]
fn without_expectations_only_what_is_broken_is_a_problem() {
    let judge = |found: &HealthFacts| found.judge(&HealthRequirements::default(), NOW);
    let mut found = healthy();
    found.status = None;
    found.miner = None;
    assert_eq!(judge(&found).line(), "OK: no miner runs, 2 devices, 2048 MiB free");
    // Expected of it all the same.
    let missed = found.judge(&all(), NOW).problems;
    let none = "no miner runs";
    assert_eq!(missed, [none, "no session with a validator", "no verdict is known, within 1d or ever"]);
    found.devices = Some(vec![device(1 << 30, None)]);
    let missed = found.judge(&HealthRequirements { running: true, ..HealthRequirements::default() }, NOW).line();
    assert_eq!(missed, "FAIL: no miner runs (1 device, 1024 MiB free)");
    let mut found = healthy();
    found.status.as_mut().unwrap().last_verdict = Some(verdict("inconclusive", 9));
    assert!(judge(&found).healthy);
    found.status.as_mut().unwrap().last_verdict = Some(verdict("fail", 9));
    assert!(!judge(&found).healthy, "a host that failed is not as it should be");
    found.devices = None;
    found.status = None;
    assert_eq!(
        judge(&found).problems,
        ["the miner, process 7, has written no status yet", "the devices are not open yet"]
    );
    // Regression test: its line said UNKNOWN, and its code FAIL.
    let health = judge(&found);
    assert!(!health.is_known && health.line().starts_with("UNKNOWN: the miner, process 7"), "{}", health.line());
    // Devices that open say nothing, beside a miner that hangs they do.
    let mut opening = HealthFacts { devices: None, ..healthy() };
    assert!(judge(&opening).line().starts_with("UNKNOWN: the devices are not open yet"), "{}", judge(&opening).line());
    opening.status.as_mut().unwrap().written = NOW - 3600;
    opening.touched = None;
    assert!(judge(&opening).line().starts_with("FAIL: the miner, process 7, hangs"), "{}", judge(&opening).line());
    let alone = HealthFacts { miner: None, ..HealthFacts::default() };
    let opened = HealthFacts { devices: Some(vec![device(1, Some("lost"))]), ..alone };
    let line = opened.judge(&HealthRequirements { running: true, ..HealthRequirements::default() }, NOW).line();
    assert!(line.starts_with("FAIL: no miner runs"), "{line}");
}

#[test]
fn what_an_ended_miner_wrote_is_no_connection() {
    let found = HealthFacts { miner: None, ..healthy() };
    assert_eq!(found.judge(&all(), NOW).problems, ["no miner runs", "no session with a validator"]);
}

/// On a full disk the last status may be of another time.
#[test]
fn a_miner_that_cannot_write_its_status_is_unknown() {
    let mut found = healthy();
    found.status.as_mut().unwrap().written = NOW - 300;
    let health = found.judge(&all(), NOW);
    assert_eq!((health.healthy, health.is_known), (false, false));
    let line = health.line();
    let why = "UNKNOWN: the miner, process 7, cannot write its status, which is 5 min old: the disk may be full (";
    assert!(line.starts_with(why), "{line}");
    found.touched = None;
    let health = found.judge(&all(), NOW);
    assert!(health.is_known && health.line().starts_with("FAIL: the miner, process 7, hangs"), "{}", health.line());
}
