use super::*;
use assay_protocol::message::{DeviceClaim, MATRIX_SIZES};
use assay_protocol::verdict::{DeviceWork, Reason, Work, outcome_of};
use assay_work::ChallengeId;

const KEY: PublicKey = PublicKey([7; 32]);
const OTHER: PublicKey = PublicKey([8; 32]);

/// A verdict at n = 256 over devices with 6 slots each.
fn verdict(key: PublicKey, ids: &[u8], codes: &[ReasonCode]) -> Verdict {
    let reasons: Vec<_> = codes.iter().map(|code| Reason::new(*code, "")).collect();
    let device = |id: &u8| DeviceWork {
        device_id: DeviceId([*id; 16]),
        name: format!("device {id}"),
        work: Work { matrices: 6, multiply_accumulates: u128::MAX, ..Work::default() },
        claimed_telemetry: None,
        hiding: None,
        rates: Vec::new(),
    };
    Verdict {
        challenge_id: ChallengeId([1; 16]),
        miner_key: key,
        validator_key: OTHER,
        outcome: outcome_of(&reasons),
        reasons,
        precision: assay_work::Precision::Int8,
        mode: None,
        n: 256,
        iterations: 1,
        iterations_checked: 1,
        devices: ids.iter().map(device).collect(),
        whole: Work::default(),
        work_bounds: Vec::new(),
        iteration_bounds: Vec::new(),
        probe_bounds: Vec::new(),
        round_trip_ms: None,
        handover_ms: None,
        roots_ms: None,
        digests_ms: None,
        not_challenged: Vec::new(),
        missing_devices: Vec::new(),
        new_devices: Vec::new(),
        link: None,
        receipt: None,
        abandoned_recently: 0,
        recent_challenges: 1,
        unix_seconds: 0,
    }
}

fn inventory(ids: &[u8]) -> Inventory {
    let device = |id: &u8| DeviceClaim {
        id: DeviceId([*id; 16]),
        name: format!("device {id}"),
        backend: "cpu".into(),
        detail: String::new(),
        total_bytes: 1 << 20,
        free_bytes: 1 << 20,
        slots: MATRIX_SIZES.map(|_| 1),
        precisions: vec![assay_work::Precision::Int8],
        claimed_hardware: None,
    };
    Inventory { devices: ids.iter().map(device).collect(), ..Inventory::default() }
}

/// Which devices are missing and which are new when these took part, of these that are listed.
fn difference(known: &KnownDevices, took_part: &[u8], listed: &[u8], least_slots: u64) -> (Vec<u8>, Vec<u8>) {
    let inventory = inventory(listed);
    let attendance = Attendance { inventory: &inventory, least_bytes: least_slots << 16 };
    let found = Difference::of(&known.of_key(KEY), |id| took_part.contains(&id.0[0]), attendance);
    let ids = |devices: Vec<NamedDevice>| devices.iter().map(|device| device.device_id.0[0]).collect();
    (ids(found.missing), ids(found.new))
}

#[test]
fn nothing_is_missing_or_new_of_a_key_that_showed_nothing() {
    let known = KnownDevices::default();
    assert_eq!(difference(&known, &[1, 2], &[1, 2], 3), (vec![], vec![]));
    known.learn(&verdict(OTHER, &[3], &[]), 0);
    assert_eq!(difference(&known, &[1, 2], &[1, 2], 3), (vec![], vec![]));
}

#[test]
fn a_device_that_was_shown_is_missed_until_it_is_forgotten() {
    let known = KnownDevices::default();
    known.learn(&verdict(KEY, &[1, 2], &[]), 0);
    assert_eq!(difference(&known, &[1, 2], &[1, 2], 3), (vec![], vec![]));
    assert_eq!(difference(&known, &[1], &[1], 3), (vec![2], vec![]));
    // A new id for an old card: one device is missing, one is new.
    assert_eq!(difference(&known, &[1, 3], &[1, 3], 3), (vec![2], vec![3]));
    known.learn(&verdict(KEY, &[1, 3], &[ReasonCode::DeviceMissing]), 0);
    assert_eq!(difference(&known, &[1, 3], &[1, 3], 3), (vec![2], vec![]), "it stays missing");
    assert_eq!(known.missing(KEY, &inventory(&[1])).len(), 2);
    assert_eq!((known.forget(KEY), known.forget(KEY)), (3, 0));
    assert_eq!(difference(&known, &[1], &[1], 3), (vec![], vec![]));
}

#[test]
fn only_work_that_held_makes_a_device_known() {
    let known = KnownDevices::default();
    for code in [ReasonCode::AuditElement, ReasonCode::ResidencyShare, ReasonCode::Disconnected] {
        known.learn(&verdict(KEY, &[1, 2], &[code]), 0);
        known.learn(&verdict(KEY, &[1, 2], &[ReasonCode::DeviceMissing, code]), 0);
    }
    assert_eq!(known.forget(KEY), 0);
    known.learn(&verdict(KEY, &[1], &[ReasonCode::ExpectationMissed, ReasonCode::DeviceGone]), 0);
    assert_eq!(known.forget(KEY), 1);
}

/// Listing a dead card without memory does not hide it; a challenge that is too large for a card does not accuse it.
#[test]
fn a_device_that_is_listed_with_less_memory_than_it_showed_is_missing() {
    let known = KnownDevices::default();
    known.learn(&verdict(KEY, &[1, 2], &[]), 0);
    assert_eq!(difference(&known, &[1], &[1, 2], 6), (vec![2], vec![]), "it showed 6 slots");
    assert_eq!(difference(&known, &[1], &[1, 2], 7), (vec![], vec![]), "it never showed 7");
    assert_eq!(difference(&known, &[1], &[1], 7), (vec![2], vec![]), "it is not even listed");
    // A share can be smaller than what a device must have to get one.
    known.learn(&verdict(KEY, &[1, 2], &[]), 7 << 16);
    assert_eq!(difference(&known, &[1], &[1, 2], 7), (vec![2], vec![]));
}

/// A host cannot push a device out by showing many others.
#[test]
fn a_key_with_as_many_devices_as_may_be_learns_no_more() {
    let known = KnownDevices::default();
    known.learn(&verdict(KEY, &[200], &[]), 0);
    for id in 0..100 {
        known.learn(&verdict(KEY, &[id], &[]), 0);
    }
    assert_eq!(difference(&known, &[99], &[99], 3).1, [99], "beyond the bound: new each time");
    assert!(difference(&known, &[99], &[99], 3).0.contains(&200));
    assert_eq!(known.forget(KEY), MAX_DEVICES);
}

#[test]
fn the_key_whose_last_pass_is_longest_ago_makes_room() {
    let known = KnownDevices::default();
    let ids: Vec<u8> = (0..64).collect();
    let key = |number: usize| {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&number.to_le_bytes());
        PublicKey(key)
    };
    let most = MAX_KNOWN / 64;
    for number in 0..most {
        known.learn(&verdict(key(number), &ids, &[]), 0);
    }
    known.learn(&verdict(key(0), &ids, &[]), 0);
    known.learn(&verdict(key(most), &[1], &[]), 0);
    assert_eq!([0, 1, 2, most].map(|number| known.forget(key(number))), [64, 0, 64, 1]);
}

#[test]
fn a_verdict_log_brings_the_devices_back() {
    let known = KnownDevices::default();
    let lines = [
        crate::validator::line(&verdict(KEY, &[1, 2], &[])),
        crate::validator::line(&verdict(KEY, &[3], &[ReasonCode::AuditElement])),
        crate::validator::line(&verdict(KEY, &[4], &[ReasonCode::DeviceMissing])),
        b"{\"of\":\"another version\"}\n\nno JSON\n".to_vec(),
        crate::validator::line(&verdict(OTHER, &[5], &[])),
    ];
    assert_eq!(known.read_back(&lines.concat()), ReadBack { lines: 3, devices: 4, keys: 2 });
    assert_eq!(difference(&known, &[1], &[1, 2], 6), (vec![2, 4], vec![]));
    // What was forgotten stays so, and what is noted is all that is known.
    let mut noted = lines.concat();
    noted.extend(note(KEY, &BTreeMap::new(), 0));
    let fresh = KnownDevices::default();
    assert_eq!(fresh.read_back(&noted), ReadBack { lines: 4, devices: 1, keys: 1 });
    let notes = known.notes(0).concat();
    let again = KnownDevices::default();
    assert_eq!(again.read_back(&notes), ReadBack { lines: 2, devices: 4, keys: 2 });
    assert_eq!(again.notes(0).concat(), notes);
}
