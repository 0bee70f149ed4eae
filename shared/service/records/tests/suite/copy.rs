//! Copies of a file's records in a database of PostgreSQL.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use assay_records::tables::{ColumnKind, TABLES};
use assay_records::{Actor, Records, RecordsError};
use serde_json::Value;
use sqlx::Row;

use crate::child::Writer;
use crate::examples::conclusion;
use crate::export::{fill, fill_with_text};
use crate::store::TestStore;

const LONG: Duration = Duration::from_secs(3600);
/// Relations of the database's schema that are not PostgreSQL's own.
const RELATIONS: &str = "SELECT COUNT(*) FROM pg_class WHERE relnamespace = CAST('public' AS regnamespace)";

/// The lines of an export of every table, without the columns that an opening and a copy change.
async fn lines(records: &Records) -> BTreeMap<String, Vec<Value>> {
    let folder = tempfile::tempdir().unwrap();
    records.export(folder.path()).await.unwrap();
    let mut tables = BTreeMap::new();
    for table in TABLES.iter() {
        let text = fs::read_to_string(folder.path().join(format!("{}.jsonl", table.name))).unwrap();
        let rows = text.lines().map(|line| {
            let mut row: Value = serde_json::from_str(line).unwrap();
            match &*table.name {
                "store" => row["written_ms"].take(),
                "validators" => row["expires_ms"].take(),
                _ => Value::Null,
            };
            row
        });
        tables.insert(table.name.clone(), rows.collect());
    }
    tables
}

/// What exports leave out, by table and column.
async fn bytes(store: &TestStore) -> BTreeMap<(String, String), Vec<Vec<u8>>> {
    let mut found = BTreeMap::new();
    for table in TABLES.iter() {
        for column in table.columns.iter().filter(|column| column.kind == ColumnKind::Bytes) {
            let rows = store.sql(&format!("SELECT {0} FROM {1} ORDER BY {0}", column.name, table.name)).await;
            found.insert((table.name.clone(), column.name.clone()), rows.iter().map(|row| row.get(0)).collect());
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn a_validator_goes_on_with_the_copy() {
    let (file, server) = (TestStore::sqlite(), TestStore::postgres());
    let records = file.open().await;
    fill(&records).await;
    let actor = Actor { name: "ada".to_owned(), uid: None };
    for detail in ["", "\\", "\\N", "\\.", "a\tb\r\nc\\n\\\\t", "zero \0"] {
        records.note_action(&actor, "x", None, detail).await.unwrap();
    }
    let copied = records.copy_into(&server.location()).await.unwrap();
    for table in TABLES.iter() {
        let is_left_out = ["compatibility", "leases"].contains(&&*table.name);
        let rows = copied.tables.get(&table.name).copied();
        assert_eq!(rows.is_some_and(|rows| rows > 0), !is_left_out, "{}: {rows:?}", table.name);
    }
    let copy = server.open().await;
    assert!(!copy.is_new());
    let (mut expected, found) = (lines(&records).await, lines(&copy).await);
    expected.insert("leases".to_owned(), Vec::new());
    let actions = serde_json::to_string(&expected["actions"]).unwrap().replace("\\u0000", "\u{FFFD}");
    expected.insert("actions".to_owned(), serde_json::from_str(&actions).unwrap());
    for table in TABLES.iter() {
        assert_eq!(found[&table.name], expected[&table.name], "{}", table.name);
    }
    let secrets = bytes(&file).await;
    assert!(secrets.len() == 3 && secrets.values().all(|rows| !rows[0].is_empty()), "{secrets:?}");
    assert_eq!(bytes(&server).await, secrets);

    // Nothing of the old runs is in the way of a new one.
    assert!(records.validators().await.unwrap()[0].is_alive && !copy.validators().await.unwrap()[0].is_alive);
    assert!(copy.lease("miner", "run-2", LONG).await.unwrap());
    copy.heartbeat(&"ee".repeat(32), "run-2", "[::]:1", LONG).await.unwrap();
    // Events and verdicts go on.
    let last = records.last_event().await.unwrap();
    copy.conclude(&conclusion(3, 1, &[], 3)).await.unwrap();
    assert_eq!(copy.events(last, 9).await.unwrap()[0].seq, last + 1);
    assert_eq!(server.rows_of("verdicts").await, file.rows_of("verdicts").await + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_an_empty_database_takes_a_copy() {
    let (file, server) = (TestStore::sqlite(), TestStore::postgres());
    let records = file.open().await;
    fill(&records).await;
    let refusal = async || match records.copy_into(&server.location()).await.unwrap_err() {
        RecordsError::NotEmpty { what, .. } => what,
        other => panic!("{other}"),
    };
    server.sql("CREATE SEQUENCE numbers").await;
    assert_eq!(refusal().await, "numbers");
    server.sql("DROP SEQUENCE numbers").await;
    records.copy_into(&server.location()).await.unwrap();
    let before = lines(&server.open().await).await;
    assert_eq!(refusal().await, "_sqlx_migrations");
    assert_eq!(lines(&server.open().await).await, before);
    let refused = server.open().await.copy_into(&TestStore::postgres().location()).await.unwrap_err();
    assert!(matches!(refused, RecordsError::NotForPostgres), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_fails_leaves_the_database_empty() {
    let (file, server) = (TestStore::sqlite(), TestStore::postgres());
    let records = file.open().await;
    fill(&records).await;
    // The last table: all others are copied before. PostgreSQL refuses the first change, this program the second one.
    for (broken, mended, why) in [
        (
            "PRAGMA foreign_keys = OFF; INSERT INTO deliveries (webhook, last_event, delivered, skipped, attempts) \
             VALUES ('none', 0, 0, 0, 0)",
            "DELETE FROM deliveries WHERE webhook = 'none'",
            "deliveries_webhook_fkey",
        ),
        ("UPDATE deliveries SET attempts = 'many'", "UPDATE deliveries SET attempts = 0", "attempts"),
    ] {
        file.sql(broken).await;
        let error = records.copy_into(&server.location()).await.unwrap_err();
        let said = format!("{error:?}");
        assert!(said.contains(why), "{said}");
        assert_eq!(server.sql(RELATIONS).await[0].get::<i64, _>(0), 0, "{why}");
        file.sql(mended).await;
    }
    // So does one to nowhere change nothing.
    let nowhere = "postgres://assay@localhost/assay?host=/nowhere".parse().unwrap();
    assert!(matches!(records.copy_into(&nowhere).await.unwrap_err(), RecordsError::Open { .. }));
    records.copy_into(&server.location()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_file_is_not_copied_in_part() {
    let (file, server) = (TestStore::sqlite(), TestStore::postgres());
    let records = file.open().await;
    file.sql(
        "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) \
         VALUES (99, 'later', TRUE, X'00', 1)",
    )
    .await;
    let refused = records.copy_into(&server.location()).await.unwrap_err();
    assert!(matches!(refused, RecordsError::Newer { theirs: 99, .. }), "{refused}");
    assert_eq!(server.sql(RELATIONS).await[0].get::<i64, _>(0), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_is_one_moment() {
    let (file, server) = (TestStore::sqlite(), TestStore::postgres());
    let records = file.open().await;
    let writer = tokio::spawn({
        let records = file.open().await;
        async move {
            for number in 0.. {
                records.conclude(&conclusion(number, 1, &[], u64::from(number))).await.unwrap();
            }
        }
    });
    while file.rows_of("verdicts").await < 10 {}
    let copied = records.copy_into(&server.location()).await.unwrap();
    assert!(!writer.is_finished(), "it could write meanwhile");
    writer.abort();
    for table in ["challenges", "commitments", "evidence", "findings", "receipts", "telemetry", "transitions"] {
        assert_eq!(copied.tables[table], copied.tables["verdicts"], "{table}");
        assert_eq!(server.rows_of(table).await as u64, copied.tables[table], "{table}");
    }
}

/// Copies 128 MiB of records in a process of its own, and bounds its memory.
#[tokio::test(flavor = "multi_thread")]
async fn a_copy_needs_little_memory() {
    let (file, server) = (TestStore::sqlite(), TestStore::postgres());
    fill_with_text(&file).await;
    let TestStore::Postgres(database) = &server else { unreachable!() };
    let status = Writer::start(&file).ask(&format!("copy {}", database.url()));
    assert_eq!(server.rows_of("actions").await, file.rows_of("actions").await);
    crate::export::assert_little_memory(&status);
}
