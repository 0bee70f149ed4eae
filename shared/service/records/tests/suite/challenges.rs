//! Challenges from their beginning on: when they are due, their cost, and the fate of those that are never ended.

use std::time::Duration;

use assay_records::{DeviceDuty, NextChallenge};

use crate::examples::{THEN_MS, begun, challenge, conclusion, connected, key};
use crate::store::TestStore;

const LONG: Duration = Duration::from_secs(3600);

pub async fn the_next_challenge_survives_a_restart(store: &TestStore) {
    let records = store.open().await;
    records.connected(&connected(1, &[1], &[1], THEN_MS)).await.unwrap();
    assert_eq!(records.due(&key(1)).await.unwrap(), None);
    let due = NextChallenge { at_ms: THEN_MS + 1234, kind: "heavy".to_owned() };
    records.set_due(&key(1), Some(&due)).await.unwrap();
    drop(records);
    let records = store.open().await;
    assert_eq!(records.due(&key(1)).await.unwrap(), Some(due));
    records.set_due(&key(1), None).await.unwrap();
    assert_eq!(records.due(&key(1)).await.unwrap(), None);
    assert_eq!(records.due(&key(9)).await.unwrap(), None);
}

pub async fn device_time_is_summed(store: &TestStore) {
    let records = store.open().await;
    records.conclude(&conclusion(1, 1, &[], 0)).await.unwrap();
    records.conclude(&conclusion(2, 1, &[], 60)).await.unwrap();
    records.conclude(&conclusion(3, 2, &[], 60)).await.unwrap();
    let mut running = begun(4, 1, "run-1");
    running.begun_ms = THEN_MS + 120_000;
    records.begin_challenge(&running).await.unwrap();
    let all = DeviceDuty { device_ms: 2500 + 2500 + 4000, challenges: 3 };
    assert_eq!(records.duty(&key(1), THEN_MS).await.unwrap(), all);
    let late = DeviceDuty { device_ms: 2500 + 4000, challenges: 2 };
    assert_eq!(records.duty(&key(1), THEN_MS + 1).await.unwrap(), late);
    assert_eq!(records.duty(&key(9), 0).await.unwrap(), DeviceDuty::default());
}

pub async fn challenges_of_lost_validators_are_found(store: &TestStore) {
    let (dead, alive) = (store.open().await, store.open().await);
    let validator = "ee".repeat(32);
    dead.heartbeat(&validator, "run-1", "[::]:1", LONG).await.unwrap();
    for number in 1..=3 {
        dead.begin_challenge(&begun(number, 1, "run-1")).await.unwrap();
    }
    dead.conclude(&conclusion(1, 1, &[], 0)).await.unwrap();
    assert_eq!(alive.orphans(10).await.unwrap(), []);
    assert_eq!(alive.lost().await.unwrap(), []);
    // The task of its session panicked.
    let mut abandoned = begun(5, 2, "run-1");
    abandoned.session = "of another miner".to_owned();
    dead.begin_challenge(&abandoned).await.unwrap();
    dead.orphan(&abandoned.session).await.unwrap();
    assert_eq!(alive.orphans(10).await.unwrap().len(), 1);
    alive.conclude(&conclusion(5, 2, &[], 0)).await.unwrap();

    // Its time is over.
    dead.heartbeat(&validator, "run-1", "[::]:1", Duration::ZERO).await.unwrap();
    let ids = async || {
        let orphans = alive.orphans(10).await.unwrap();
        orphans.into_iter().map(|orphan| orphan.begun.challenge).collect::<Vec<_>>()
    };
    assert_eq!(ids().await, [challenge(2), challenge(3)]);
    assert_eq!(alive.lost().await.unwrap()[0].key, validator);
    assert_eq!(alive.orphans(10).await.unwrap()[0].begun, begun(2, 1, "run-1"));

    // It lives, but as another process, which knows nothing of them.
    dead.heartbeat(&validator, "run-2", "[::]:1", LONG).await.unwrap();
    assert_eq!(ids().await, [challenge(2), challenge(3)]);
    assert_eq!(alive.lost().await.unwrap(), []);
    alive.conclude(&conclusion(2, 1, &[], 0)).await.unwrap();
    assert_eq!(ids().await, [challenge(3)]);
    // One whose validator never sent a heartbeat.
    let mut stranger = begun(4, 1, "run-1");
    stranger.validator = "dd".repeat(32);
    alive.begin_challenge(&stranger).await.unwrap();
    assert_eq!(ids().await, [challenge(3), challenge(4)]);
}
