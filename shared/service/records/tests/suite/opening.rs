//! How a store comes to be, and which one is refused.

use assay_records::{Records, RecordsError, SCHEMA_VERSION};

use crate::examples::{THEN_MS, connected, key};
use crate::store::TestStore;

pub async fn many_open_an_empty_store_at_once(store: &TestStore) {
    let mut opening = tokio::task::JoinSet::new();
    for number in 1..=8 {
        let location = store.location();
        opening.spawn(async move {
            let records = Records::open(&location).await.unwrap();
            records.connected(&connected(number, &[number as u8], &[1], THEN_MS)).await.unwrap();
        });
    }
    opening.join_all().await;
    let records = store.open().await;
    assert_eq!(records.miners(&Default::default()).await.unwrap().len(), 8);
}

pub async fn a_store_that_was_there_is_not_new(store: &TestStore) {
    assert!(store.open().await.is_new());
    assert!(!store.open().await.is_new());
}

pub async fn a_newer_store_is_refused_and_not_touched(store: &TestStore) {
    store.open().await.connected(&connected(1, &[1], &[1], THEN_MS)).await.unwrap();
    let newer = SCHEMA_VERSION + 1;
    store
        .sql(&format!(
            "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) \
             SELECT {newer}, 'newer', success, checksum, 1 FROM _sqlx_migrations WHERE version = {SCHEMA_VERSION}"
        ))
        .await;
    store.sql(&format!("UPDATE compatibility SET least_schema = {newer}")).await;
    store.sql("UPDATE store SET written_ms = 7").await;
    let refused = Records::open(&store.location()).await.unwrap_err();
    let RecordsError::Newer { theirs, ours, .. } = &refused else { panic!("{refused}") };
    assert_eq!((*theirs, *ours), (newer, SCHEMA_VERSION));
    let said = refused.to_string();
    let words = format!("are of a newer release (schema {newer}; this program knows up to {SCHEMA_VERSION})");
    assert!(said.contains(&words), "{said}");
    assert_eq!(sqlx::Row::get::<i64, _>(&store.sql("SELECT written_ms FROM store").await[0], 0), 7);
    // One that this program can use.
    store.sql(&format!("UPDATE compatibility SET least_schema = {SCHEMA_VERSION}")).await;
    assert!(store.open().await.miner(&key(1)).await.unwrap().is_some());
}
