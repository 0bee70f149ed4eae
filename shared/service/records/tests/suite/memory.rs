//! The memory of a miner between its challenges.

use assay_policy::{DeviceRate, End, MAX_ENDS, MinerMemory};
use assay_protocol::verdict::ReasonCode;
use assay_records::{Actor, Conclusion, DeviceQuery, Records, RecordsError};
use assay_work::Precision;

use crate::examples::{THEN_MS, challenge, conclusion, connected, key, shown};
use crate::store::TestStore;

/// A conclusion whose challenge named positions, or did not.
fn ended(number: u32, miner: u8, codes: &[ReasonCode], is_named: bool) -> Conclusion {
    let mut concluded = conclusion(number, miner, codes, u64::from(number));
    if !is_named {
        concluded.verdict.mode = None;
    }
    concluded
}

async fn ends(records: &Records, miner: u8) -> Vec<End> {
    records.memory(&key(miner)).await.unwrap().ends.into_iter().map(|(end, _)| end).collect()
}

pub async fn what_a_verdict_shows_is_remembered_by_every_validator(store: &TestStore) {
    let records = store.open().await;
    assert_eq!(records.memory(&key(1)).await.unwrap(), MinerMemory::default());
    let [first, f16] = [Precision::Int8, Precision::F16].map(|kind| shown(1, kind, THEN_MS));
    let mut passed = conclusion(1, 1, &[], 0);
    let linked = DeviceRate { linked_bytes_per_s: 7.0, ..first.clone() };
    passed.shown = vec![linked.clone(), f16.clone(), shown(2, Precision::Int8, THEN_MS)];
    records.conclude(&passed).await.unwrap();
    // Less memory, another rate, no linked probe.
    let later = DeviceRate { bytes: 5, tops: 3.0, at_ms: THEN_MS + 1000, ..first };
    let mut again = conclusion(2, 1, &[ReasonCode::DeviceMissing], 1);
    again.shown = vec![later.clone()];
    records.conclude(&again).await.unwrap();

    // Read by another process.
    let other = store.open().await;
    let memory = other.memory(&key(1)).await.unwrap();
    assert_eq!(memory.lineage, [key(1)]);
    let merged = DeviceRate { bytes: linked.bytes, linked_bytes_per_s: 7.0, ..later };
    assert_eq!(memory.shown, [merged, f16, shown(2, Precision::Int8, THEN_MS)]);
    assert_eq!(memory.ends, [(End::Other, THEN_MS + 1000), (End::Other, THEN_MS)]);
    let actor = Actor { name: "ada".to_owned(), uid: None };
    assert_eq!(other.forget_devices(&key(1), &actor).await.unwrap(), 2);
    assert_eq!(records.memory(&key(1)).await.unwrap().shown, []);
    let actions = records.actions(Some(&key(1)), 0, 1).await.unwrap();
    assert_eq!((actions[0].action.as_str(), actions[0].detail.as_str()), ("forget", "2 devices"));
    assert!(records.forget_devices(&key(9), &actor).await.is_err());
}

/// A miner that declines, or leaves before positions are named, chooses nothing by it and displaces no other end.
pub async fn only_challenges_that_named_positions_count(store: &TestStore) {
    let records = store.open().await;
    for number in 1..=2 {
        records.conclude(&ended(number, 1, &[ReasonCode::Abandoned], true)).await.unwrap();
    }
    for (number, code) in (3..).zip([ReasonCode::StaleInventory, ReasonCode::NothingToChallenge].repeat(12)) {
        records.conclude(&ended(number, 1, &[code], false)).await.unwrap();
    }
    assert_eq!(ends(&records, 1).await, [End::Abandoned; 2]);
    records.conclude(&ended(50, 1, &[ReasonCode::AbandonedRepeatedly], true)).await.unwrap();
    records.conclude(&ended(51, 1, &[ReasonCode::NotReading], false)).await.unwrap();
    records.conclude(&ended(52, 1, &[ReasonCode::AbandonedRepeatedly], false)).await.unwrap();
    records.conclude(&ended(53, 1, &[ReasonCode::AuditElement], true)).await.unwrap();
    let expected = [End::Other, End::NotReading, End::NotReading, End::Abandoned, End::Abandoned, End::Abandoned];
    assert_eq!(ends(&records, 1).await, expected);
    for number in 60..90 {
        records.conclude(&ended(number, 1, &[], true)).await.unwrap();
    }
    assert_eq!(ends(&records, 1).await, [End::Other; MAX_ENDS as usize], "judged ones do push out");
}

pub async fn the_memory_of_keys_that_turn_out_one_miners_is_joined(store: &TestStore) {
    let records = store.open().await;
    for (number, miner) in [(1, 1), (2, 5), (3, 1)] {
        records.connected(&connected(number, &[miner], &[miner], THEN_MS)).await.unwrap();
        records.conclude(&ended(number, miner, &[ReasonCode::Abandoned], true)).await.unwrap();
    }
    for (number, miner) in [(4, 1), (5, 5)] {
        let mut passed = conclusion(number, miner, &[], u64::from(number));
        passed.shown = vec![shown(1, Precision::Int8, THEN_MS), shown(miner, Precision::F16, THEN_MS)];
        records.conclude(&passed).await.unwrap();
    }
    records.conclude(&conclusion(6, 5, &[ReasonCode::AuditElement], 6)).await.unwrap();
    let joined = records.connected(&connected(7, &[1, 5], &[1], THEN_MS)).await.unwrap();
    assert_eq!((joined.id, joined.state.as_str()), (key(1), "failed"), "no fail is shed by joining");
    // Regression test: the last verdict of the older key hid a newer fail.
    let last = records.miner(&key(1)).await.unwrap().unwrap().last_verdict.unwrap();
    assert_eq!((last.challenge, last.outcome.as_str()), (challenge(6), "fail"));
    let [own, other] = [records.memory(&key(1)).await.unwrap(), records.memory(&key(5)).await.unwrap()];
    assert_eq!((&own.ends, &own.shown), (&other.ends, &other.shown));
    assert_eq!((&own.lineage[..], &other.lineage[..]), (&[key(1), key(5)][..], &[key(5), key(1)][..]), "its own first");
    assert_eq!(own.ends.iter().filter(|(end, _)| *end == End::Abandoned).count(), 3);
    let kinds: Vec<_> = own.shown.iter().map(|shown| (shown.device_id.as_str(), shown.precision)).collect();
    let [one, five] = [1, 5].map(crate::examples::device_id);
    assert_eq!(kinds, [(&*one, Precision::Int8), (&*one, Precision::F16), (&*five, Precision::F16)]);
}

/// Regression test: a miner made up a key before its own, and was approved with it under none of its expectations.
pub async fn an_unknown_key_before_a_known_one_stays_out(store: &TestStore) {
    let records = store.open().await;
    records.connected(&connected(1, &[5], &[5], THEN_MS)).await.unwrap();
    let same = records.connected(&connected(2, &[1, 5, 6], &[5], THEN_MS)).await.unwrap();
    assert_eq!((same.id, same.keys), (key(5), vec![key(5), key(6)]));
    let other = records.connected(&connected(3, &[1], &[1], THEN_MS)).await.unwrap();
    assert_eq!(other.id, key(1));
}

/// Regression test: a miner had as many keys as it made up, and each look-up of it read them all.
pub async fn the_keys_of_a_miner_are_bounded(store: &TestStore) {
    let records = store.open().await;
    for fresh in 2..=64 {
        records.connected(&connected(1, &[1, fresh], &[1], THEN_MS)).await.unwrap();
    }
    let refused = records.connected(&connected(2, &[1, 65], &[1], THEN_MS)).await.unwrap_err();
    assert!(matches!(refused, RecordsError::TooMany { max: 64, .. }), "{refused}");
    assert!(records.miner(&key(65)).await.unwrap().is_none());
    assert_eq!(records.connected(&connected(3, &[1, 64], &[1], THEN_MS)).await.unwrap().keys.len(), 64);
}

/// Regression test: a key under which devices showed less, before one of more, made the validators forget the rest.
pub async fn a_joined_key_sheds_nothing_that_devices_showed(store: &TestStore) {
    let records = store.open().await;
    let less = DeviceRate { bytes: 0, linked_bytes_per_s: 0.0, tops: 1.0, ..shown(5, Precision::Int8, THEN_MS + 1000) };
    let more = DeviceRate { bytes: 80, linked_bytes_per_s: 7.0, tops: 2.0, ..shown(5, Precision::Int8, THEN_MS) };
    for (miner, shown, codes, second) in [(1, &less, &[ReasonCode::AuditElement][..], 1), (5, &more, &[], 0)] {
        records.connected(&connected(miner, &[miner as u8], &[5], THEN_MS)).await.unwrap();
        let mut concluded = conclusion(miner, miner as u8, codes, second);
        concluded.shown = vec![shown.clone()];
        records.conclude(&concluded).await.unwrap();
    }
    let last_pass = async |miner| {
        let query = DeviceQuery { miner: Some(key(miner)), ..DeviceQuery::default() };
        records.devices(&query).await.unwrap()[0].last_pass_ms
    };
    let passed = last_pass(5).await;
    assert!(passed.is_some());
    assert_eq!(last_pass(1).await, None);
    records.connected(&connected(7, &[1, 5], &[5], THEN_MS)).await.unwrap();
    let joined = DeviceRate { bytes: 80, linked_bytes_per_s: 7.0, ..less };
    assert_eq!(records.memory(&key(1)).await.unwrap().shown, [joined]);
    assert_eq!(last_pass(1).await, passed);
}

/// The statements of the migration, over rows as a release before it wrote them.
pub async fn a_store_of_before_is_remembered(store: &TestStore) {
    let records = store.open().await;
    records.connected(&connected(1, &[1], &[1], THEN_MS)).await.unwrap();
    let codes = [&[][..], &[ReasonCode::Abandoned], &[ReasonCode::MinerBusy]];
    for (number, codes) in (1..).zip(codes) {
        let is_named = codes != [ReasonCode::MinerBusy];
        records.conclude(&Conclusion { shown: Vec::new(), ..ended(number, 1, codes, is_named) }).await.unwrap();
    }
    let now = records.memory(&key(1)).await.unwrap();
    let sql = include_str!("../../migrations/0004_memory.sql");
    let statements = sql.split(';').filter(|sql| sql.contains("UPDATE verdicts") || sql.contains("INSERT INTO"));
    store.sql("UPDATE verdicts SET ended = NULL").await;
    for statement in statements {
        store.sql(statement).await;
    }
    let before = records.memory(&key(1)).await.unwrap();
    assert_eq!(before.ends, now.ends);
    let [device] = &before.shown[..] else { panic!("{before:?}") };
    assert_eq!((device.bytes, device.at_ms), (100 << 26, THEN_MS + 1000));
    assert!((device.macs_per_s - 1234.5678901234567 * 5e11).abs() < 1e6, "{device:?}");
}
