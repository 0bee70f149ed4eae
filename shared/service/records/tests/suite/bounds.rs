//! Bounds of the rows of miners that cost nothing to make up.

use std::time::Duration;

use assay_protocol::verdict::{Outcome, ReasonCode};
use assay_records::{Approval, DeviceQuery, EventKind, EventRecord, ListedDevice, RoundRecord, STRANGER_AGE_MS};
use sqlx::Row;
use tokio::runtime::Handle;

use crate::examples::{THEN_MS, challenge, conclusion, connected, invited, key, round, status_change};
use crate::store::TestStore;

fn made_up(number: u32) -> Vec<ListedDevice> {
    let device =
        |place: u32| ListedDevice { device_id: format!("{number:024x}{place:08x}"), ..ListedDevice::default() };
    (0..64).map(device).collect()
}

pub async fn devices_that_are_made_up_are_bounded(store: &TestStore) {
    let records = store.open().await;
    let session = records.connected(&connected(1, &[1], &[1], THEN_MS)).await.map(|_| format!("{:032x}", 1)).unwrap();
    records.conclude(&conclusion(1, 1, &[], 0)).await.unwrap();
    for number in 0..100 {
        let at_ms = THEN_MS + 1000 + i64::from(number);
        records.devices_changed(&key(1), &session, &made_up(number), at_ms).await.unwrap();
    }
    let all = DeviceQuery { gone: true, ..DeviceQuery::default() };
    let devices = records.devices(&all).await.unwrap();
    assert_eq!(devices.len(), 256);
    assert_eq!(devices.iter().filter(|device| device.gone_ms.is_none()).count(), 64, "those that it lists");
    assert!(devices.iter().any(|device| device.last_pass_ms.is_some()), "and the one that showed work");
    let events = store.rows_of("device_events").await;
    assert!((4096..4096 + 128).contains(&events), "{events}");
    let newest = records.device_events(Some(&key(1)), None, 1).await.unwrap();
    assert_eq!(newest[0].at_ms, THEN_MS + 1099);
}

pub async fn sessions_of_a_miner_are_bounded(store: &TestStore) {
    let records = store.open().await;
    records.connected(&connected(1, &[1], &[], THEN_MS)).await.unwrap();
    store
        .sql(
            "WITH RECURSIVE t(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM t WHERE i < 5000) \
             INSERT INTO sessions SELECT 'old' || CAST(i AS TEXT), s.miner, s.key, s.validator, s.instance, s.address, \
             s.software, s.inventory, i, i, 'gone' FROM sessions s, t RETURNING 1",
        )
        .await;
    records.connected(&connected(2, &[1], &[], THEN_MS + 1)).await.unwrap();
    assert_eq!(store.rows_of("sessions").await, 4096);
    assert_eq!(store.sql("SELECT COUNT(*) FROM sessions WHERE disconnected_ms IS NULL").await[0].get::<i64, _>(0), 2);
}

pub async fn strangers_are_removed_with_all_that_is_known_of_them(store: &TestStore) {
    let records = store.open().await;
    let come = async |number: u8, at_ms: i64| {
        let session = connected(u32::from(number), &[number], &[number], at_ms);
        records.connected(&session).await.unwrap();
        records.disconnected(&session.session, at_ms + 1, "gone").await.unwrap();
    };
    for number in 1..=6 {
        come(number, THEN_MS + i64::from(number)).await;
        // The fourth shows work, the others do not.
        let codes: &[ReasonCode] = if number == 4 { &[] } else { &[ReasonCode::AuditElement] };
        records.conclude(&conclusion(u32::from(number), number, codes, 0)).await.unwrap();
    }
    let approved = status_change("approve", Approval::Approved);
    records.change_miner(&key(5), &approved, &assay_records::Actor::validator()).await.unwrap();
    records.connected(&connected(66, &[6], &[6], THEN_MS + 10)).await.unwrap();
    let remove = async |most: i64| records.remove_strangers(most, THEN_MS + 20).await.unwrap();
    assert_eq!(remove(1).await.miners, 0, "the log lacks their verdicts");
    records.note_logged(0, &[3, 4, 5, 6, 2, 1].map(challenge)).await.unwrap();
    assert_eq!(remove(2).await.evidence.len(), 1, "of the second, which nothing names any more");
    assert!(records.verdict(&challenge(1)).await.unwrap().is_some(), "the log ends with it");
    records.conclude(&conclusion(7, 6, &[], 0)).await.unwrap();
    records.note_logged(6, &[challenge(7)]).await.unwrap();
    assert_eq!(remove(1).await.evidence.len(), 1);
    let miners = records.miners(&Default::default()).await.unwrap();
    let left: Vec<_> = miners.iter().map(|miner| miner.id.clone()).collect();
    assert_eq!(left, [3, 4, 5, 6].map(key), "the newest stranger, and those that are none or are connected");
    for number in [1, 2] {
        assert!(records.verdict(&challenge(number)).await.unwrap().is_none());
    }
    assert_eq!(remove(1).await.miners, 0);
    assert_eq!(records.remove_strangers(1, THEN_MS + STRANGER_AGE_MS + 10_000).await.unwrap().miners, 1, "it is old");
}

/// Regression test: a decision that was being made, and that the check before the removal could not see, was removed.
pub async fn a_stranger_stays_that_is_being_decided_about(store: &TestStore) {
    let TestStore::Postgres(database) = store else { return };
    let records = store.open().await;
    let session = connected(1, &[1], &[1], THEN_MS);
    records.connected(&session).await.unwrap();
    records.disconnected(&session.session, THEN_MS + 1, "gone").await.unwrap();
    std::thread::scope(|threads| {
        let decides = "BEGIN; UPDATE miners SET status = 'approved'; SELECT pg_sleep(10); COMMIT";
        let deciding = threads.spawn(|| database.sql(decides));
        let sleeps = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'";
        while database.sql(sleeps).is_empty() {
            assert!(!deciding.is_finished(), "it was not seen");
        }
        let removed =
            tokio::task::block_in_place(|| Handle::current().block_on(records.remove_strangers(0, THEN_MS + 20)));
        assert_eq!(removed.unwrap().miners, 0);
    });
    assert_eq!(database.sql("SELECT status FROM miners"), "approved");
}

pub async fn work_that_held_makes_no_stranger_whatever_the_outcome(store: &TestStore) {
    let records = store.open().await;
    // Each of these is inconclusive; the work of the second one held.
    for (number, code) in [(1, ReasonCode::Disconnected), (2, ReasonCode::DeviceDisputed)] {
        let session = connected(u32::from(number), &[number], &[number], THEN_MS);
        records.connected(&session).await.unwrap();
        records.disconnected(&session.session, THEN_MS + 1, "gone").await.unwrap();
        let concluded = conclusion(u32::from(number), number, &[code], 0);
        assert_eq!(concluded.verdict.outcome, Outcome::Inconclusive);
        records.conclude(&concluded).await.unwrap();
    }
    records.note_logged(0, &[1, 2].map(challenge)).await.unwrap();
    assert_eq!(records.remove_strangers(0, THEN_MS + 20).await.unwrap().miners, 1);
    assert!(records.verdict(&challenge(1)).await.unwrap().is_none());
    assert!(records.verdict(&challenge(2)).await.unwrap().is_some());
    assert_eq!(records.note_logged(0, &[1, 2, 3].map(challenge)).await.unwrap(), 2, "without a verdict here");
}

pub async fn evidence_of_strangers_is_told_from_that_of_others(store: &TestStore) {
    let records = store.open().await;
    for number in 1..=3 {
        records.connected(&connected(number, &[number as u8], &[number as u8], THEN_MS)).await.unwrap();
        records
            .conclude(&conclusion(number, number as u8, &[ReasonCode::AuditElement], u64::from(number)))
            .await
            .unwrap();
    }
    records.conclude(&conclusion(4, 3, &[], 4)).await.unwrap();
    let shares = records.evidence_shares().await.unwrap();
    let shares: Vec<_> = shares.iter().map(|share| (&*share.digest, &*share.miner, share.is_stranger)).collect();
    let (digests, miners) =
        ([1, 2, 3, 4].map(|number| format!("{number:064x}")), [1, 2, 3].map(|miner| key(miner).to_string()));
    let expected = [(3, 2, false), (2, 2, false), (1, 1, true), (0, 0, true)];
    assert_eq!(shares, expected.map(|(digest, miner, is_stranger)| (&*digests[digest], &*miners[miner], is_stranger)));
}

pub async fn old_verdicts_are_removed_unless_something_rests_on_them(store: &TestStore) {
    const BEFORE_MS: i64 = THEN_MS + 24_000;
    const LATER_MS: i64 = THEN_MS + 7_200_000;
    let records = store.open().await;
    for miner in [1, 2] {
        records.connected(&connected(u32::from(miner), &[miner], &[miner], THEN_MS)).await.unwrap();
    }
    let concluded = async |number: u32, miner: u8, seconds: u64, codes: &[ReasonCode]| {
        let mut concluded = conclusion(number, miner, codes, seconds);
        concluded.verdict.mode = concluded.verdict.mode.filter(|_| miner == 1);
        concluded.verdict.devices.retain(|_| codes.is_empty());
        records.conclude(&concluded).await.unwrap();
    };
    for number in 1..=25 {
        concluded(number, 1, number.into(), &[]).await;
    }
    // These name no positions; the device's last one is not the miner's.
    concluded(29, 2, 0, &[]).await;
    concluded(30, 2, 1, &[]).await;
    concluded(31, 2, 2, &[ReasonCode::Disconnected]).await;
    let removed = async |now_ms: i64| {
        let max_age = Duration::from_millis((now_ms - BEFORE_MS).unsigned_abs());
        records.remove_old(max_age, now_ms).await.unwrap()
    };
    let left = async || {
        let rows = store.sql("SELECT challenge FROM verdicts ORDER BY challenge").await;
        rows.iter().map(|row| row.get::<String, _>(0)).collect::<Vec<_>>()
    };
    let names = |numbers: &[u32]| numbers.iter().map(|number| challenge(*number)).collect::<Vec<_>>();
    let all: Vec<_> = (1..=25).chain([29, 30, 31]).collect();

    assert_eq!(removed(LATER_MS).await, 0, "no log has them");
    // The first verdict is the log's last entry.
    let logged = (2..=25).chain([29, 30, 31, 1]).collect::<Vec<_>>();
    records.note_logged(0, &names(&logged)).await.unwrap();
    assert_eq!(removed(LATER_MS).await, 0, "their evidence is kept");
    for number in all.iter().filter(|number| **number != 2) {
        records.evidence_dropped(&format!("{number:064x}"), THEN_MS).await.unwrap();
    }
    assert_eq!(removed(BEFORE_MS).await, 0, "their receipts are valid");
    assert_eq!(left().await, names(&all));
    let ends = records.memory(&key(1)).await.unwrap().ends;
    assert_eq!(ends.len(), 20);

    assert_eq!(removed(LATER_MS).await, 3);
    let kept: Vec<_> = [1, 2].into_iter().chain(5..=25).chain([30, 31]).collect();
    assert_eq!(
        left().await,
        names(&kept),
        "the log's last, kept evidence, ends that count, the last of a device and a miner"
    );
    assert_eq!(records.memory(&key(1)).await.unwrap().ends, ends);
    for (table, rows) in [
        ("challenges", 25),
        ("commitments", 25),
        ("evidence", 25),
        ("receipts", 25),
        ("device_results", 24),
        ("telemetry", 24),
    ] {
        assert_eq!(store.rows_of(table).await, rows, "{table}");
    }
    for table in ["transitions", "findings"] {
        assert_eq!(store.rows_of(table).await, 2, "{table}: those of the last two verdicts are not old");
    }
    records.evidence_dropped(&format!("{:064x}", 2), THEN_MS).await.unwrap();
    assert_eq!((removed(LATER_MS).await, removed(LATER_MS).await), (1, 0));
}

/// Regression test: a round that a crash of its validator cut short never ended, and kept its members from another one.
pub async fn rounds_that_are_cut_short_end(store: &TestStore) {
    let records = store.open().await;
    let [lost, own] = ["dd", "ee"].map(|key| key.repeat(32));
    records.heartbeat(&own, "run-1", "[::]:1", Duration::from_secs(3600)).await.unwrap();
    for miner in [1, 2] {
        records.connected(&connected(u32::from(miner), &[miner], &[], THEN_MS)).await.unwrap();
    }
    for (id, validator) in [("a1", &lost), ("a2", &own)] {
        let group = "disputed device".to_owned();
        let round = RoundRecord { group, validator: validator.clone(), ..round(id) };
        records.plan_round(&round, &[1, 2].map(invited)).await.unwrap();
    }
    let blocked =
        async || records.were_in_round([&key(1), &key(2)], "disputed device", (THEN_MS, i64::MAX)).await.unwrap();
    let last = records.last_event().await.unwrap();
    assert_eq!(records.end_open_rounds(None).await.unwrap(), 1);
    assert!(blocked().await, "the other one goes on");
    assert_eq!(records.end_open_rounds(Some(&own)).await.unwrap(), 1);
    assert!(!blocked().await);
    assert_eq!(records.end_open_rounds(None).await.unwrap(), 0, "once");
    for (state, blocks) in [("late", false), ("absent", false), ("started", true), ("judged", true)] {
        let member = format!("CASE WHEN miner = '{}' THEN '{state}' ELSE 'judged' END", key(2));
        let update = format!("UPDATE round_members SET state = {member} WHERE round = 'a2' RETURNING 1");
        assert_eq!(store.sql(&update).await.len(), 2);
        assert_eq!(blocked().await, blocks, "{state}");
        let ended = records.were_in_round([&key(1), &key(2)], "disputed device", (THEN_MS, THEN_MS)).await.unwrap();
        assert!(ended, "one that ended just now");
    }
    let (round, members) = records.round("a1").await.unwrap().unwrap();
    assert!(round.ended_ms.is_some());
    assert_eq!((&*members[0].state, &*members[0].detail), ("invited", "the validator was lost"));
    let events = records.events(last, 10).await.unwrap();
    assert_eq!(events.iter().map(EventRecord::kind).collect::<Vec<_>>(), [EventKind::RoundEnded; 2]);
}

pub async fn old_rounds_are_removed_with_their_members(store: &TestStore) {
    let records = store.open().await;
    records.connected(&connected(1, &[1], &[], THEN_MS)).await.unwrap();
    for (round, begun_ms, ended) in [("old", 1, "2"), ("runs", 1, "NULL"), ("new", THEN_MS, "NULL")] {
        let insert = format!(
            "INSERT INTO rounds (id, grp, asked, validator, begun_ms, ended_ms, detail) \
             VALUES ('{round}', 'g', 'a', 'v', {begun_ms}, {ended}, '') RETURNING 1"
        );
        store.sql(&insert).await;
        let member = format!(
            "INSERT INTO round_members (round, miner, state, at_ms, detail) \
             SELECT '{round}', id, 'passed', 1, '' FROM miners RETURNING 1"
        );
        store.sql(&member).await;
    }
    records.remove_old(Duration::ZERO, THEN_MS).await.unwrap();
    for table in ["SELECT id FROM rounds ORDER BY id", "SELECT round FROM round_members ORDER BY round"] {
        let left = store.sql(table).await;
        assert_eq!(left.iter().map(|row| row.get::<String, _>(0)).collect::<Vec<_>>(), ["new", "runs"]);
    }
}
