//! Leases between validators.

use std::time::Duration;

use crate::store::TestStore;

const LONG: Duration = Duration::from_secs(3600);

pub async fn one_of_many_gets_a_lease(store: &TestStore) {
    let mut validators = tokio::task::JoinSet::new();
    for number in 0..16 {
        // Every other one has connections of its own.
        let records = store.open().await;
        validators.spawn(async move { records.lease("miner", &format!("run-{number}"), LONG).await.unwrap() });
    }
    let took = validators.join_all().await;
    assert_eq!(took.iter().filter(|took| **took).count(), 1);
    let records = store.open().await;
    let held = records.leases(None, LONG).await.unwrap();
    assert_eq!(held.len(), 1);
    assert!(records.lease("miner", &held[0].holder, LONG).await.unwrap(), "its own");
    assert_eq!(records.leases(None, LONG).await.unwrap()[0].since_ms, held[0].since_ms);
}

pub async fn a_lease_ends_by_itself_and_is_taken_over(store: &TestStore) {
    let records = store.open().await;
    assert!(records.lease("miner", "run-1", Duration::ZERO).await.unwrap());
    assert_eq!(records.leases(None, LONG).await.unwrap(), []);
    assert!(records.lease("miner", "run-2", LONG).await.unwrap(), "its time was over");
    assert!(!records.lease("miner", "run-1", LONG).await.unwrap());
    records.release("miner", "run-1").await.unwrap();
    assert_eq!(records.leases(Some("run-2"), LONG).await.unwrap().len(), 1, "nobody gives back what is another's");
    records.release("miner", "run-2").await.unwrap();
    assert!(records.lease("miner", "run-1", LONG).await.unwrap());
}

pub async fn what_is_lost_is_not_renewed(store: &TestStore) {
    let records = store.open().await;
    for subject in ["a", "b", "c"] {
        assert!(records.lease(subject, "run-1", LONG).await.unwrap());
    }
    assert!(records.renew("a", "run-1", LONG).await.unwrap());
    assert!(!records.renew("a", "run-2", LONG).await.unwrap());
    assert!(records.renew("b", "run-1", Duration::ZERO).await.unwrap());
    assert!(!records.renew("b", "run-1", LONG).await.unwrap(), "its time was over");
    assert!(records.lease("b", "run-2", LONG).await.unwrap());
    let mut held = records.renew_all("", "run-1", LONG).await.unwrap();
    held.sort();
    assert_eq!(held, ["a", "c"]);
    // Regression test: leases on the sweep and on webhooks got the time of those on miners.
    assert_eq!(records.renew_all("c", "run-1", LONG).await.unwrap(), ["c"]);
    let validator = "ee".repeat(32);
    records.heartbeat(&validator, "run-1", "[::]:1", LONG).await.unwrap();
    records.retire(&validator, "run-1").await.unwrap();
    assert_eq!(records.renew_all("", "run-1", LONG).await.unwrap(), [] as [String; 0]);
    assert_eq!(records.leases(None, LONG).await.unwrap().len(), 1);
}

/// Regression test: after the clock of the database went back, leases and validators that were lost lived for as long as
/// the step.
pub async fn a_clock_that_goes_back_prolongs_nothing(store: &TestStore) {
    let records = store.open().await;
    let (ttl, validator) = (Duration::from_secs(10), "ee".repeat(32));
    assert!(records.lease("miner", "run-1", ttl).await.unwrap());
    records.heartbeat(&validator, "run-1", "[::]:1", ttl).await.unwrap();
    let is_held = async || {
        let alive = records.validators().await.unwrap()[0].is_alive;
        (!records.leases(None, ttl).await.unwrap().is_empty(), alive, records.lost().await.unwrap().is_empty())
    };
    assert_eq!(is_held().await, (true, true, true));
    assert!(!records.lease("miner", "run-2", ttl).await.unwrap());
    // It was a while ahead, and then an hour.
    store.sql("UPDATE leases SET expires_ms = expires_ms + 5000").await;
    store.sql("UPDATE validators SET heartbeat_ms = heartbeat_ms + 5000, expires_ms = expires_ms + 5000").await;
    assert_eq!(is_held().await, (true, true, true));
    store.sql("UPDATE leases SET expires_ms = expires_ms + 3600000").await;
    store.sql("UPDATE validators SET heartbeat_ms = heartbeat_ms + 3600000, expires_ms = expires_ms + 3600000").await;
    assert_eq!(is_held().await, (false, false, false));
    assert!(records.lease("miner", "run-2", ttl).await.unwrap());
    records.heartbeat(&validator, "run-1", "[::]:1", ttl).await.unwrap();
    assert_eq!(is_held().await, (true, true, true));
}
