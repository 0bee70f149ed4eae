//! Exports of everything.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use assay_protocol::verdict::ReasonCode;
use assay_records::tables::{ColumnKind, TABLES};
use assay_records::{
    Actor, EventKind, ExportSummary, FindingRecord, JobRequest, NewWebhook, Records, Role, RoundMember, SCHEMA_VERSION,
};
use serde_json::Value;
use sqlx::Row;

use crate::child::Writer;
use crate::examples::{THEN_MS, conclusion, connected, invited, key, round, verdict};
use crate::store::TestStore;

const LONG: Duration = Duration::from_secs(3600);

/// Writes at least a row into every table.
pub async fn fill(records: &Records) {
    records.connected(&connected(1, &[1], &[1, 2], THEN_MS)).await.unwrap();
    let member = RoundMember { detail: "\n".to_owned(), ..invited(1) };
    records.plan_round(&round("aa"), &[member]).await.unwrap();
    records.conclude(&conclusion(1, 1, &[ReasonCode::ProbeLate], 0)).await.unwrap();
    records.conclude(&conclusion(2, 2, &[], 1)).await.unwrap();
    let finding = FindingRecord {
        code: "device_moved".to_owned(),
        miner: key(1),
        other_miner: Some(key(2)),
        device_id: None,
        detail: "\u{1F600} \" \\ \u{2028}".to_owned(),
        enforced: true,
    };
    records.note_new_findings(&[finding], 0, THEN_MS).await.unwrap();
    let actor = Actor { name: "ada".to_owned(), uid: Some(1000) };
    records.create_token(&BTreeMap::new(), LONG, &actor).await.unwrap();
    records.create_api_token(Role::Read, "grafana", LONG, &actor).await.unwrap();
    let webhook = NewWebhook {
        url: "https://hooks.example/?token=hunter2".to_owned(),
        target: "https://hooks.example:443/".to_owned(),
        kinds: vec![EventKind::Verdict],
        secret: b"hunter2".to_vec(),
    };
    records.add_webhook(&webhook, &actor).await.unwrap();
    records.lease("miner", "run-1", LONG).await.unwrap();
    records.heartbeat(&"ee".repeat(32), "run-1", "[::]:1", LONG).await.unwrap();
    records.worker_heartbeat("worker", "[::]:2", "{\"devices\":[1,2]}", LONG).await.unwrap();
    let job = JobRequest { challenge: "c1", submitted_by: "run-1", needs_bytes: 1, ttl: LONG, document: &[0xff] };
    records.submit(&job).await.unwrap();
}

pub async fn every_table_and_column_is_described(store: &TestStore) {
    drop(store.open().await);
    let (tables, columns) = match store {
        TestStore::Sqlite(_) => (
            "SELECT name FROM sqlite_master WHERE type = 'table'",
            "SELECT name, type, CASE WHEN \"notnull\" = 1 THEN 'NO' ELSE 'YES' END FROM pragma_table_info('TABLE') \
             ORDER BY cid",
        ),
        TestStore::Postgres(_) => (
            "SELECT CAST(table_name AS TEXT) FROM information_schema.tables WHERE table_schema = 'public'",
            "SELECT CAST(column_name AS TEXT), CAST(upper(data_type) AS TEXT), CAST(is_nullable AS TEXT) \
             FROM information_schema.columns WHERE table_name = 'TABLE' ORDER BY ordinal_position",
        ),
    };
    let mut found: Vec<String> = store.sql(tables).await.iter().map(|row| row.get(0)).collect();
    found.retain(|name| name != "_sqlx_migrations");
    found.sort();
    let mut described: Vec<_> = TABLES.iter().map(|table| &*table.name).collect();
    described.sort_unstable();
    assert_eq!(found, described);
    for table in TABLES.iter() {
        let rows = store.sql(&columns.replace("TABLE", &table.name)).await;
        let found: Vec<(String, String, String)> = rows.iter().map(|r| (r.get(0), r.get(1), r.get(2))).collect();
        let described = table.columns.iter().map(|column| {
            let kind = match column.kind {
                ColumnKind::Text | ColumnKind::Json => "TEXT",
                ColumnKind::Integer | ColumnKind::Flag | ColumnKind::Time => "BIGINT",
                ColumnKind::Float => "DOUBLE PRECISION",
                ColumnKind::Bytes => {
                    if matches!(store, TestStore::Sqlite(_)) {
                        "BLOB"
                    } else {
                        "BYTEA"
                    }
                }
            };
            assert_eq!(column.kind == ColumnKind::Time, column.name.ends_with("_ms") && column.name != "device_ms");
            (column.name.to_owned(), kind.to_owned(), if column.is_optional { "YES" } else { "NO" }.to_owned())
        });
        assert_eq!(found, described.collect::<Vec<_>>(), "{}", table.name);
    }
}

/// An export of a filled store, with its manifest checked.
async fn exported(store: &TestStore, folder: &Path) -> ExportSummary {
    let records = store.open().await;
    fill(&records).await;
    let exported = records.export(folder).await.unwrap();
    let manifest: ExportSummary =
        serde_json::from_str(&fs::read_to_string(folder.join("export.json")).unwrap()).unwrap();
    assert_eq!(manifest, exported);
    assert_eq!(exported.schema_version, SCHEMA_VERSION);
    assert_eq!(exported.tables.len(), TABLES.len());
    for (table, rows) in &exported.tables {
        assert!(*rows > 0, "{table} has an example");
        assert_eq!(store.rows_of(table).await, *rows as i64, "{table}");
    }
    assert_eq!(folder.read_dir().unwrap().count(), TABLES.len() + 1);
    exported
}

pub async fn json_lines_have_every_row(store: &TestStore) {
    let folder = tempfile::tempdir().unwrap();
    let exported = exported(store, folder.path()).await;
    for table in TABLES.iter() {
        let text = fs::read_to_string(folder.path().join(format!("{}.jsonl", table.name))).unwrap();
        assert_eq!(text.lines().count() as u64, exported.tables[&table.name]);
        assert!(!text.contains("hunter2"), "{}: what is secret of a webhook", table.name);
        for line in text.lines() {
            let row: Value = serde_json::from_str(line).unwrap();
            let names = table.columns.iter().filter(|column| column.kind != ColumnKind::Bytes);
            assert_eq!(row.as_object().unwrap().len(), names.clone().count());
            for column in names {
                let value = &row[&*column.name];
                let fits = match column.kind {
                    ColumnKind::Text | ColumnKind::Bytes => value.is_string(),
                    ColumnKind::Json => value.is_object() || value.is_array() || value.is_null(),
                    ColumnKind::Integer | ColumnKind::Flag | ColumnKind::Time => value.is_i64(),
                    ColumnKind::Float => value.is_f64(),
                };
                assert!(fits || (column.is_optional && value.is_null()), "{} {}: {value}", table.name, column.name);
            }
        }
    }
    let verdicts = fs::read_to_string(folder.path().join("verdicts.jsonl")).unwrap();
    let document = serde_json::to_string(&verdict(1, 1, &[ReasonCode::ProbeLate], 0)).unwrap();
    assert!(
        verdicts.contains(&format!("\"document\":{document},\"precision\":1,\"ended\":\"other\",\"log_index\":null}}")),
        "as it is, in its order"
    );
    let findings = fs::read_to_string(folder.path().join("findings.jsonl")).unwrap();
    let details = findings.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["detail"].clone());
    assert!(details.into_iter().any(|detail| detail == "\u{1F600} \" \\ \u{2028}"));
}

pub async fn an_export_is_one_moment(store: &TestStore) {
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
    let mut last = 0;
    for number in 0..5 {
        while store.rows_of("verdicts").await < last as i64 + 3 {}
        let exported = records.export(&folder.path().join(number.to_string())).await.unwrap();
        let rows = |table: &str| exported.tables[table];
        // The tables are read one after another, with writes in between.
        for table in ["challenges", "commitments", "evidence", "findings", "receipts", "telemetry", "transitions"] {
            assert_eq!(rows(table), rows("verdicts"), "{table}");
        }
        assert!(rows("verdicts") >= last + 3);
        last = rows("verdicts");
    }
    assert!(!writer.is_finished(), "nobody kept it from writing");
    writer.abort();
}

/// Fills a store with 128 MiB of text.
pub async fn fill_with_text(store: &TestStore) {
    const ROWS: u32 = 16_384;
    drop(store.open().await);
    let numbers = format!("WITH RECURSIVE t(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM t WHERE i < {ROWS})");
    let text = match store {
        TestStore::Sqlite(_) => "hex(randomblob(4096))",
        TestStore::Postgres(_) => {
            "(SELECT string_agg(encode(sha512(CAST(CAST(random() AS TEXT) AS BYTEA)), 'hex'), '') \
             FROM generate_series(1, 64) WHERE t.i > 0)"
        }
    };
    store
        .sql(&format!(
            "{numbers} INSERT INTO actions (id, at_ms, actor, uid, action, miner, detail) \
             SELECT CAST(i AS TEXT), i, 'ada', NULL, 'x', NULL, {text} FROM t RETURNING 1"
        ))
        .await;
}

/// Holds the status of a process against the bound of its memory, in MiB, that docs/records.md names.
pub fn assert_little_memory(status: &str) {
    if cfg!(target_os = "linux") {
        let peak = status.split("VmHWM:").nth(1).unwrap().split_whitespace().next().unwrap();
        let peak_mib = peak.parse::<u64>().unwrap() >> 10;
        assert!(peak_mib < 112, "{peak_mib} MiB at most");
    }
}

/// Exports 128 MiB of records in a process of its own, and bounds its memory.
pub async fn an_export_needs_little_memory(store: &TestStore) {
    fill_with_text(store).await;
    let folder = tempfile::tempdir().unwrap();
    let status = Writer::start(store).ask(&format!("export {}", folder.path().join("out").display()));
    let exported = folder.path().join("out/actions.jsonl").metadata().unwrap().len();
    assert!(exported > 128 << 20, "{exported} bytes");
    assert_little_memory(&status);
}

pub async fn nothing_is_overwritten(store: &TestStore) {
    let records = store.open().await;
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("verdicts.jsonl"), "an older one").unwrap();
    let error = records.export(folder.path()).await.unwrap_err();
    assert!(error.to_string().contains("the folder of an export must be empty"), "{error}");
    assert_eq!(fs::read_to_string(folder.path().join("verdicts.jsonl")).unwrap(), "an older one");
    let file = folder.path().join("verdicts.jsonl");
    assert!(records.export(&file).await.is_err());
}
