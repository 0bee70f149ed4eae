//! The outbox: every change has its event, in order, and every event its change.

use std::time::Duration;

use assay_protocol::verdict::ReasonCode;
use assay_records::{Actor, Approval, EventDocument, EventKind, EventRecord, HealthEvent, Records, RoundRecord};
use tokio::task::JoinSet;

use crate::examples::{THEN_MS, begun, challenge, conclusion, connected, key, round, status_change};
use crate::store::TestStore;

/// As long as a test waits for another process's events.
const PATIENCE: Duration = Duration::from_secs(60);

fn kinds(events: &[EventRecord]) -> Vec<EventKind> {
    events.iter().map(EventRecord::kind).collect()
}

fn operator() -> Actor {
    Actor { name: "ada".to_owned(), uid: Some(1000) }
}

pub async fn everything_that_happens_is_told_with_it(store: &TestStore) {
    use EventKind::*;
    let records = store.open().await;
    assert_eq!((records.last_event().await.unwrap(), records.first_event().await.unwrap()), (0, None));
    records.connected(&connected(1, &[1], &[1, 2], THEN_MS)).await.unwrap();
    records.begin_challenge(&begun(1, 1, "run-1")).await.unwrap();
    let concluded = conclusion(1, 1, &[ReasonCode::ProbeLate], 0);
    records.conclude(&concluded).await.unwrap();
    records.change_miner(&key(1), &status_change("suspend", Approval::Suspended), &operator()).await.unwrap();
    records.disconnected(&connected(1, &[1], &[], 0).session, THEN_MS + 9000, "done").await.unwrap();
    records.begin_challenge(&begun(2, 1, "run-1")).await.unwrap();
    let round = round("aa");
    records.plan_round(&RoundRecord { begun_ms: THEN_MS - 1, ..round.clone() }, &[]).await.unwrap();
    records.begin_round(&round.id, THEN_MS).await.unwrap();
    records.end_round("aa", THEN_MS + 1, "{}").await.unwrap();
    let health = HealthEvent { validator: "ee".repeat(32), serving: false, why: "draining".to_owned() };
    records.note_health(health.clone(), THEN_MS).await.unwrap();

    // Read by another process.
    let events = store.open().await.events(0, 100).await.unwrap();
    let wanted = [
        MinerConnected,
        ChallengeStarted,
        Verdict,
        Finding,
        State,
        Action,
        MinerLeft,
        ChallengeStarted,
        RoundBegun,
        RoundEnded,
        Health,
    ];
    assert_eq!(kinds(&events), wanted);
    assert!(events.iter().map(|event| event.seq).eq(1..=11));
    let miner = key(1);
    assert!(events[..8].iter().all(|event| event.miner.as_deref() == Some(miner.as_str())));
    assert!([1, 2, 3, 4].iter().all(|&at| events[at].challenge == Some(challenge(1))));
    let EventDocument::MinerConnected(told) = &events[0].told else { panic!() };
    assert_eq!((told.devices, told.address.as_str()), (2, "192.0.2.1"));
    let EventDocument::Verdict(told) = &events[2].told else { panic!() };
    assert_eq!((told.outcome.as_str(), &told.codes), ("fail", &vec!["probe_late".to_owned()]));
    assert_eq!((told.state.as_deref(), told.devices, told.bytes_held), (Some("failed"), 1, 1 << 40));
    assert!((told.tops - 1234.56789).abs() < 1e-4, "{}", told.tops);
    assert_eq!(told.receipt, concluded.receipt.map(|receipt| receipt.id));
    let EventDocument::MinerLeft(told) = &events[6].told else { panic!() };
    assert_eq!((told.connected_s, told.why.as_str()), (9, "done"));
    assert_eq!(events[10].told, EventDocument::Health(health));
    let mut ids: Vec<_> = events.iter().map(|event| &event.id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 11);
    // Events that were written can be read.
    for event in &events {
        let json = serde_json::to_string(event).unwrap();
        assert!(json.contains(&format!("\"kind\":\"{}\",\"document\":{{", event.kind())), "{json}");
        assert_eq!(serde_json::from_str::<EventRecord>(&json).unwrap(), *event);
    }
    assert_eq!(kinds(&records.events(9, 1).await.unwrap()), [RoundEnded]);
}

pub async fn what_is_repeated_or_refused_is_not_told(store: &TestStore) {
    let records = store.open().await;
    records.connected(&connected(1, &[1], &[1], THEN_MS)).await.unwrap();
    records.begin_challenge(&begun(1, 1, "run-1")).await.unwrap();
    records.conclude(&conclusion(1, 1, &[], 0)).await.unwrap();
    let last = records.last_event().await.unwrap();
    // As one does that heard no answer.
    records.connected(&connected(1, &[1], &[1], THEN_MS)).await.unwrap();
    records.begin_challenge(&begun(1, 1, "run-1")).await.unwrap();
    records.conclude(&conclusion(1, 1, &[], 0)).await.unwrap();
    assert!(records.conclude(&conclusion(1, 1, &[ReasonCode::ProbeLate], 0)).await.is_err());
    // A constraint is broken by the last thing that is written.
    let mut broken = conclusion(2, 1, &[], 60);
    broken.receipt = conclusion(1, 1, &[], 0).receipt;
    records.conclude(&broken).await.unwrap_err();
    assert_eq!(records.last_event().await.unwrap(), last);
    assert_eq!(store.rows_of("events").await, last);
    // Nor is a number used up.
    records.conclude(&conclusion(3, 1, &[], 60)).await.unwrap();
    assert_eq!(records.events(last, 10).await.unwrap()[0].seq, last + 1);
}

/// Several processes write; a reader that asks for the events behind the last one it has seen gets each one once.
pub async fn a_reader_misses_nothing_that_others_write(store: &TestStore) {
    const WRITERS: u8 = 4;
    const EACH: u32 = 25;
    let reader = store.open().await;
    let mut writing = JoinSet::new();
    for writer in 0..WRITERS {
        let records = store.open().await;
        writing.spawn(async move {
            for number in 0..EACH {
                let challenge = u32::from(writer) * 1000 + number;
                records.begin_challenge(&begun(challenge, writer + 1, "run-1")).await.unwrap();
                records.conclude(&conclusion(challenge, writer + 1, &[], 0)).await.unwrap();
            }
        });
    }
    let mut seen = Vec::new();
    loop {
        let is_over = writing.is_empty();
        let after = seen.last().copied().unwrap_or(0);
        let events = reader.events(after, 7).await.unwrap();
        if events.is_empty() && is_over {
            break;
        }
        seen.extend(events.iter().map(|event| event.seq));
        while let Some(joined) = writing.try_join_next() {
            joined.unwrap();
        }
    }
    // Challenge, verdict, finding and change of state.
    let all = i64::from(WRITERS) * i64::from(EACH) * 4;
    assert!(seen.iter().copied().eq(1..=all), "{seen:?}");
}

pub async fn whoever_waits_is_woken(store: &TestStore) {
    let (ours, other) = (store.open().await, store.open().await);
    let mut watch = ours.event_watch();
    assert_eq!(*watch.borrow_and_update(), 0);
    ours.begin_challenge(&begun(1, 1, "run-1")).await.unwrap();
    assert_eq!(*watch.borrow_and_update(), 1, "at once");
    // A file has one process; on a shared server the events of others are found by polling.
    if matches!(store, TestStore::Postgres(_)) {
        other.begin_challenge(&begun(2, 1, "run-2")).await.unwrap();
        tokio::time::timeout(PATIENCE, watch.wait_for(|last| *last == 2)).await.unwrap().unwrap();
    }
}

async fn health(records: &Records, at_ms: i64) {
    let told = HealthEvent { validator: String::new(), serving: true, why: String::new() };
    records.note_health(told, at_ms).await.unwrap();
}

pub async fn old_events_and_too_many_are_removed(store: &TestStore) {
    let records = store.open().await;
    for second in 0..10 {
        health(&records, THEN_MS + second * 1000).await;
    }
    assert_eq!(records.prune(THEN_MS + 3000, 100).await.unwrap(), 3);
    assert_eq!(records.first_event().await.unwrap(), Some(4));
    assert_eq!(records.prune(0, 2).await.unwrap(), 5);
    assert_eq!((records.first_event().await.unwrap(), records.last_event().await.unwrap()), (Some(9), 10));
    assert_eq!(records.prune(i64::MAX, 100).await.unwrap(), 2);
    assert_eq!(records.prune_events().await.unwrap(), 0);
    // Numbers go on.
    health(&records, THEN_MS).await;
    assert_eq!(records.events(0, 10).await.unwrap()[0].seq, 11);
}

/// Regression test: an event of a validator whose clock was far behind removed all before it.
pub async fn an_event_of_a_wrong_clock_removes_no_others(store: &TestStore) {
    let records = store.open().await;
    let now_ms = records.now_ms().await.unwrap();
    for at_ms in [now_ms, 1, now_ms] {
        health(&records, at_ms).await;
    }
    assert_eq!(records.prune_events().await.unwrap(), 0);
    assert_eq!(records.prune(i64::MAX, 1).await.unwrap(), 3);
    for at_ms in [1, 1, now_ms, 1] {
        health(&records, at_ms).await;
    }
    assert_eq!(records.prune(now_ms, 100).await.unwrap(), 2);
    assert_eq!(records.prune(0, 1).await.unwrap(), 1, "more than may be");
}

/// The clock of a validator that noted an action was ahead.
pub async fn an_action_is_found_whatever_the_clocks(store: &TestStore) {
    let records = store.open().await;
    records.connected(&connected(1, &[1], &[1], THEN_MS)).await.unwrap();
    let seen = records.last_event().await.unwrap();
    assert_eq!(records.actions_since(seen).await.unwrap(), (seen, false));
    records.note_action(&operator(), "reload", None, "").await.unwrap();
    store.sql("UPDATE actions SET at_ms = at_ms + 600000").await;
    let (ahead, has_acted) = records.actions_since(seen).await.unwrap();
    assert!(ahead > seen && has_acted);
    records.change_miner(&key(1), &status_change("revoke", Approval::Revoked), &operator()).await.unwrap();
    let (last, has_acted) = store.open().await.actions_since(ahead).await.unwrap();
    assert!(last > ahead && has_acted, "behind one of a clock that is ahead");
    records.disconnected(&connected(1, &[1], &[], 0).session, THEN_MS + 9000, "done").await.unwrap();
    assert_eq!(records.actions_since(last).await.unwrap(), (last + 1, false), "no action");
}

/// Regression test: during an upgrade an event of the newer release kept all later ones from the webhooks.
pub async fn an_event_of_a_newer_release_is_passed_over(store: &TestStore) {
    let records = store.open().await;
    for at_ms in [1, 2, 3] {
        health(&records, at_ms).await;
    }
    store.sql("UPDATE events SET kind = 'later', document = '{\"more\":1}' WHERE seq = 2").await;
    let seqs = async |after, limit| {
        let events = records.events(after, limit).await.unwrap();
        events.into_iter().map(|event| event.seq).collect::<Vec<_>>()
    };
    assert_eq!(seqs(0, 10).await, [1, 3]);
    assert_eq!(seqs(1, 1).await, [3], "it takes no place");
}

pub async fn sessions_that_end_with_their_validator_are_told(store: &TestStore) {
    let records = store.open().await;
    for number in 1..=3_u8 {
        records.connected(&connected(u32::from(number), &[number], &[number], THEN_MS)).await.unwrap();
    }
    let last = records.last_event().await.unwrap();
    records.retire(&connected(1, &[1], &[], 0).validator, "run-1").await.unwrap();
    let events = records.events(last, 100).await.unwrap();
    assert_eq!(kinds(&events), [EventKind::MinerLeft; 3]);
    let EventDocument::MinerLeft(told) = &events[0].told else { panic!() };
    assert_eq!(told.why, "the validator ended");
    assert_eq!(records.end_lost_sessions().await.unwrap(), 0, "once");
}

/// Regression test: sessions that another validator ended during an outage stayed closed, and their miners counted as
/// absent.
pub async fn sessions_of_a_validator_that_was_not_lost_are_opened_anew(store: &TestStore) {
    let records = store.open().await;
    for number in 1..=3_u8 {
        records.connected(&connected(u32::from(number), &[number], &[1, 2], THEN_MS)).await.unwrap();
    }
    let sessions: Vec<_> = (1..=3).map(|number| connected(number, &[1], &[], 0).session).collect();
    records.disconnected(&sessions[1], THEN_MS, "gone").await.unwrap();
    assert_eq!(records.end_lost_sessions().await.unwrap(), 2, "no heartbeat");
    let last = records.last_event().await.unwrap();
    let validator = connected(1, &[1], &[], 0).validator;
    records.heartbeat(&validator, "run-1", "[::]:1", Duration::from_secs(3600)).await.unwrap();
    assert_eq!(records.miner(&key(1)).await.unwrap().unwrap().connected_to, None);
    // The third left meanwhile.
    assert_eq!(records.reopen_sessions(sessions[..2].to_vec()).await.unwrap(), 1);
    assert_eq!(records.reopen_sessions(sessions[..2].to_vec()).await.unwrap(), 0, "once");
    for (miner, expected) in [(1, Some(validator)), (2, None), (3, None)] {
        assert_eq!(records.miner(&key(miner)).await.unwrap().unwrap().connected_to, expected, "{miner}");
    }
    let events = records.events(last, 100).await.unwrap();
    assert_eq!(kinds(&events), [EventKind::MinerConnected]);
    let EventDocument::MinerConnected(told) = &events[0].told else { panic!() };
    assert_eq!((&told.session, told.devices), (&sessions[0], 2));
}
