//! Backups of a file while it is written.

use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use assay_records::{Location, Records, RecordsError};
use sqlx::Row;

use crate::examples::{challenge, conclusion};
use crate::store::TestStore;

/// How long a test waits for an expected event.
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_is_one_moment_and_a_store_of_its_own() {
    let store = TestStore::sqlite();
    let records = store.open().await;
    let writer = tokio::spawn({
        let records = store.open().await;
        async move {
            for number in 0.. {
                records.conclude(&conclusion(number, 1, &[], u64::from(number))).await.unwrap();
            }
        }
    });
    let folder = tempfile::tempdir().unwrap();
    for number in 0..5 {
        // Something is written in between.
        let before = store.rows_of("verdicts").await;
        while store.rows_of("verdicts").await < before + 3 {}
        let file = folder.path().join(format!("backup 100% {number}"));
        records.backup(&file).await.unwrap();
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let copy = Records::open(&Location::File(file)).await.unwrap();
        let (mut found, mut next) = (0, true);
        while next {
            let verdict = copy.verdict(&challenge(found)).await.unwrap();
            next = verdict.is_some();
            if let Some(verdict) = verdict {
                assert!(verdict.commitment.is_some() && verdict.receipts.len() == 1, "a conclusion is there whole");
                found += 1;
            }
        }
        assert!(i64::from(found) >= before + 3, "{found} of {before}");
    }
    assert!(!writer.is_finished(), "nobody kept it from writing");
    writer.abort();
    let names = folder.path().read_dir().unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert!(names.into_iter().all(|name| !name.ends_with(".part")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_replaces_nothing() {
    let store = TestStore::sqlite();
    let records = store.open().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("backup");
    std::fs::write(&file, "something else").unwrap();
    let error = records.backup(&file).await.unwrap_err();
    assert!(matches!(&error, RecordsError::File { path, .. } if *path == file), "{error}");
    assert!(error.to_string().ends_with(": a file is there already: give another name"), "{error}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "something else");
    let nowhere = folder.path().join("nowhere").join("backup");
    assert!(records.backup(&nowhere).await.is_err());
    assert_eq!(folder.path().read_dir().unwrap().count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn postgresql_has_tools_of_its_own() {
    let records = TestStore::postgres().open().await;
    let folder = tempfile::tempdir().unwrap();
    let error = records.backup(&folder.path().join("backup")).await.unwrap_err();
    assert!(matches!(error, RecordsError::NotForPostgres), "{error}");
    assert!(error.to_string().contains("pg_dump --format=custom"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_file_is_its_owners_and_alone_when_it_is_closed() {
    let store = TestStore::sqlite();
    let records = store.open().await;
    records.conclude(&conclusion(1, 1, &[], 0)).await.unwrap();
    let TestStore::Sqlite(folder) = &store else { unreachable!() };
    let mut names = Vec::new();
    for entry in folder.path().read_dir().unwrap() {
        let entry = entry.unwrap();
        assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o077, 0, "{entry:?}");
        names.push(entry.file_name().into_string().unwrap());
    }
    names.sort();
    assert_eq!(names, ["validator.db", "validator.db-shm", "validator.db-wal"]);
    let mode: String = store.sql("PRAGMA journal_mode").await[0].get(0);
    assert_eq!(mode, "wal");
    records.close().await;
    // SQLite closes its files in threads of its own.
    let until = Instant::now() + PATIENCE;
    while folder.path().read_dir().unwrap().count() > 1 {
        assert!(Instant::now() < until, "one file when it is closed");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
