//! A verdict and all that becomes known with it, in one transaction.

use assay_protocol::verdict::ReasonCode;
use assay_records::{EventKind, MinerEvent, RecordsError};
use serde_json::Value;

use crate::examples::{THEN_MS, challenge, conclusion, connected, device_id, events_of, key};
use crate::store::TestStore;

/// Every table that a conclusion writes.
const TABLES: [&str; 10] = [
    "challenges",
    "commitments",
    "verdicts",
    "reasons",
    "device_results",
    "telemetry",
    "evidence",
    "transitions",
    "findings",
    "receipts",
];

pub async fn a_verdict_is_there_whole_or_not_at_all(store: &TestStore) {
    let records = store.open().await;
    let wanted = conclusion(1, 1, &[ReasonCode::AuditElement, ReasonCode::ProbeLate], 0);
    records.connected(&connected(1, &[1], &[1], THEN_MS)).await.unwrap();
    records.conclude(&wanted).await.unwrap();

    // Read by another process.
    let records = store.open().await;
    let found = records.verdict(&challenge(1)).await.unwrap().unwrap();
    assert_eq!(found.record.verdict.get(), serde_json::to_string(&wanted.verdict).unwrap());
    assert_eq!((found.record.outcome.as_str(), found.record.device_ms), ("fail", 2500));
    assert_eq!(found.commitment, wanted.commitment);
    assert_eq!(Some(found.evidence.unwrap().evidence), wanted.evidence);
    assert_eq!(found.findings, wanted.findings);
    assert_eq!(Some(found.receipts), wanted.receipt.clone().map(|receipt| vec![receipt]));
    let miner = records.miner(&key(1)).await.unwrap().unwrap();
    assert_eq!((miner.state.as_str(), miner.standing.unwrap().get()), ("failed", "{\"last\":1}"));
    assert_eq!(miner.due.unwrap().at_ms, THEN_MS + 60_000);
    assert_eq!(miner.last_verdict.unwrap().challenge, challenge(1));
    let events = events_of(&records, 1).await;
    let noted = events.iter().find_map(|event| match event {
        MinerEvent::Transition(noted) => Some(noted),
        _ => None,
    });
    let noted = noted.unwrap();
    assert_eq!(noted.transition, wanted.standing.unwrap().transition.unwrap());
    assert_eq!(noted.challenge, Some(challenge(1)));
    let noted = records.findings(None, 9).await.unwrap();
    assert_eq!((noted[0].challenge.as_deref(), noted[0].at_ms), (Some(challenge(1).as_str()), THEN_MS));
    assert_eq!(records.receipt(&wanted.receipt.unwrap().id).await.unwrap().unwrap().0, challenge(1));
    let device = &records.devices(&Default::default()).await.unwrap()[0];
    assert_eq!((device.last_challenge.as_deref(), device.last_pass_ms), (Some(challenge(1).as_str()), None));
    assert!(records.challenge(&challenge(1)).await.unwrap().unwrap().ended_ms.is_some());
    assert_eq!(store.rows_of("reasons").await, 2);
    assert_eq!(store.rows_of("telemetry").await, 1);
}

pub async fn the_same_verdict_again_changes_nothing(store: &TestStore) {
    let records = store.open().await;
    let wanted = conclusion(1, 1, &[], 0);
    records.conclude(&wanted).await.unwrap();
    records.conclude(&conclusion(2, 1, &[], 60)).await.unwrap();
    let mut counts = Vec::new();
    for table in TABLES {
        counts.push(store.rows_of(table).await);
    }
    // As one does that did not hear whether it was written, and issues another receipt.
    let mut again = wanted.clone();
    again.receipt = conclusion(3, 1, &[], 0).receipt;
    records.conclude(&again).await.unwrap();
    assert_eq!(records.receipt_of(&challenge(1)).await.unwrap(), wanted.receipt, "the first one stands");
    for (table, count) in TABLES.into_iter().zip(counts) {
        assert_eq!(store.rows_of(table).await, count, "{table}");
    }
    let miner = records.miner(&key(1)).await.unwrap().unwrap();
    assert_eq!(miner.last_verdict.unwrap().challenge, challenge(2), "not what is older");
    assert_eq!(miner.standing.unwrap().get(), "{\"last\":2}");
}

pub async fn another_verdict_of_the_challenge_is_refused(store: &TestStore) {
    let records = store.open().await;
    records.conclude(&conclusion(1, 1, &[ReasonCode::Disconnected], 0)).await.unwrap();
    // Its validator was lost, another one ended the challenge, and now the first one is back.
    let refused = records.conclude(&conclusion(1, 1, &[], 0)).await.unwrap_err();
    assert!(matches!(&refused, RecordsError::ConcludedBefore { challenge: id } if *id == challenge(1)), "{refused}");
    assert_eq!(records.verdict(&challenge(1)).await.unwrap().unwrap().record.outcome, "inconclusive");
    assert_eq!(records.trouble(), None, "the store is well");
}

pub async fn a_conclusion_that_fails_leaves_nothing(store: &TestStore) {
    let records = store.open().await;
    records.conclude(&conclusion(1, 1, &[], 0)).await.unwrap();
    // The last thing that is written breaks a constraint: a receipt's id is there already.
    let mut broken = conclusion(2, 1, &[], 60);
    broken.receipt = conclusion(1, 1, &[], 0).receipt;
    let error = records.conclude(&broken).await.unwrap_err();
    assert!(error.to_string().starts_with("cannot record a verdict in the records: "), "{error}");
    for table in TABLES {
        let rows = i64::from(table != "reasons");
        assert_eq!(store.rows_of(table).await, rows, "{table}");
    }
    assert_eq!(records.trouble(), None, "it can be written all the same");
    let miner = records.miner(&key(1)).await.unwrap().unwrap();
    assert_eq!(miner.last_verdict.unwrap().challenge, challenge(1));
    let events = events_of(&records, 1).await;
    assert_eq!(events.iter().filter(|event| matches!(event, MinerEvent::Verdict(_))).count(), 1);
    let json: Value = serde_json::to_value(&events).unwrap();
    assert!(json.to_string().contains(&device_id(1)));
}

pub async fn many_at_once_are_written_together_and_one_that_is_refused_stops_none(store: &TestStore) {
    let records = store.open().await;
    records.conclude(&conclusion(7, 7, &[ReasonCode::Disconnected], 0)).await.unwrap();
    let mut writing = tokio::task::JoinSet::new();
    for number in 0..200 {
        let records = records.clone();
        // Number 7 has another verdict.
        writing.spawn(async move { (number, records.conclude(&conclusion(number, number as u8, &[], 0)).await) });
    }
    // A writer that is answered finds its verdict in another connection.
    let reader = store.open().await;
    while let Some(written) = writing.join_next().await {
        let (number, written) = written.unwrap();
        match written {
            Ok(()) => assert!(number != 7 && reader.verdict(&challenge(number)).await.unwrap().is_some()),
            Err(RecordsError::ConcludedBefore { challenge: id }) => assert_eq!((number, id), (7, challenge(7))),
            Err(error) => panic!("{number}: {error}"),
        }
    }
    assert_eq!(store.rows_of("verdicts").await, 200);
    // Each has one event, in the order of commits without gaps.
    let events = reader.events(0, 1000).await.unwrap();
    assert!(events.windows(2).all(|pair| pair[0].seq + 1 == pair[1].seq));
    let told: Vec<_> = events.iter().filter(|event| event.told.kind() == EventKind::Verdict).collect();
    assert_eq!(told.len(), 200);
    // Each row of each table is its own verdict's, by all that look miners up at once.
    let mut reading = tokio::task::JoinSet::new();
    for number in 0..=200 {
        let reader = reader.clone();
        reading.spawn(async move { (number, reader.miner(&key(number as u8)).await.unwrap()) });
    }
    while let Some(read) = reading.join_next().await {
        let (number, miner) = read.unwrap();
        let Some(miner) = miner else {
            assert_eq!(number, 200, "the only one that nobody knows");
            continue;
        };
        assert_eq!((miner.id, miner.keys.clone()), (key(number as u8), vec![key(number as u8)]));
        let last = miner.last_verdict.unwrap();
        assert_eq!((last.challenge, last.outcome == "pass"), (challenge(number), number != 7));
        let found = reader.verdict(&challenge(number)).await.unwrap().unwrap();
        assert_eq!(found.receipts.len(), 1, "{number}");
        assert_eq!(found.record.miner, key(number as u8));
    }
}

pub async fn many_of_one_miner_at_once_leave_the_newest_in_its_row(store: &TestStore) {
    let records = store.open().await;
    let mut writing = tokio::task::JoinSet::new();
    for number in 0..50 {
        let records = records.clone();
        // In another order than that of their times.
        writing.spawn(async move { records.conclude(&conclusion(number, 1, &[], u64::from(number * 7 % 50))).await });
    }
    while let Some(written) = writing.join_next().await {
        written.unwrap().unwrap();
    }
    let newest = (0..50).find(|number| number * 7 % 50 == 49).unwrap();
    let miner = records.miner(&key(1)).await.unwrap().unwrap();
    assert_eq!(miner.last_verdict.map(|last| last.challenge), Some(challenge(newest)));
    assert_eq!(store.rows_of("verdicts").await, 50);
}
