//! The records' answers to operators: each command, as a table and as JSON.

use std::fs;
use std::os::unix::fs::FileExt;

use assay_integration_tests::miner::TestMiner;
use assay_integration_tests::postgres::Postgres;
use assay_integration_tests::validator::{Policy, TestValidator};
use assay_protocol::verdict::{Mode, ReasonCode};
use assay_records::{Location, MinerFilter, Records};
use serde_json::Value;

use super::operator::{json, operate, operate_at, plain};

/// A fleet of one validator and a miner that passed once and failed to show a device once.
async fn fleet() -> (TestValidator, TestMiner) {
    let (validator, mut miner) = TestMiner::with_validator(&Policy::default(), 2, &[]).await;
    validator.challenge(miner.key, Some(Mode::Audit)).await.unwrap().expect_pass();
    miner.restart_with(1);
    validator.wait_for_miner(miner.key, false).await;
    validator.wait_for_miner(miner.key, true).await;
    validator.challenge(miner.key, Some(Mode::Audit)).await.unwrap().expect(ReasonCode::DeviceMissing);
    (validator, miner)
}

fn len(list: &Value) -> usize {
    list.as_array().unwrap_or_else(|| panic!("no list: {list}")).len()
}

/// The lines below a table's header.
fn rows(table: &str) -> Vec<&str> {
    table.lines().skip(1).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_command_tells_what_the_records_have() {
    let (validator, miner) = fleet().await;
    let key = miner.key.to_string();
    let prefix = &key[..8];

    let verdicts = json(&validator, "verdicts");
    assert_eq!(len(&verdicts), 2);
    let (last, first) = (&verdicts[0], &verdicts[1]);
    assert_eq!((&last["outcome"], &first["outcome"]), (&"inconclusive".into(), &"pass".into()), "newest first");
    assert_eq!(first["verdict"]["miner_key"], key);
    let table = plain(&validator, "verdicts");
    let lines = rows(&table);
    assert!(lines[0].contains("device_missing") && lines[1].contains("pass"), "{table}");
    for (filter, expected) in [
        ("--outcome pass", 1),
        ("--code device_missing", 1),
        ("--code commitment_late", 0),
        (&format!("--miner {prefix}"), 2),
        ("--since 1h", 2),
        ("--until 1h", 0),
        ("--limit 1", 1),
    ] {
        assert_eq!(len(&json(&validator, &format!("verdicts {filter}"))), expected, "{filter}");
    }
    assert_eq!(plain(&validator, "verdicts --until 1h").trim(), "there is no such verdict");

    let devices = json(&validator, &format!("devices --miner {prefix} --gone"));
    assert_eq!((len(&devices), len(&json(&validator, "devices"))), (2, 1));
    let gone = devices.as_array().unwrap().iter().find(|device| device["gone_ms"].is_i64()).expect("one is gone");
    let table = plain(&validator, "devices --gone");
    assert!(rows(&table).len() == 2 && table.contains("gone since"), "{table}");

    let miners = json(&validator, "miners --all");
    assert_eq!((len(&miners), &miners[0]["key"], &miners[0]["admitted"]), (1, &key.as_str().into(), &"open".into()));
    assert!(plain(&validator, "miners --all --wide").contains(&key));
    assert!(plain(&validator, "miners --state quarantined").contains("no such miner"));
    let unknown = operate(&validator, "miners --state nothing");
    assert!(unknown.code == 64 && unknown.errors.contains("none of enrolled, passing"), "{}", unknown.errors);
    // Those that are connected, as before there were records.
    assert_eq!(json(&validator, "miners")[0]["miner_key"], key);

    let challenge = first["challenge"].as_str().unwrap();
    let shown = json(&validator, &format!("show {}", &challenge[..10]));
    assert_eq!((&shown["found"], &shown["challenge"]), (&"challenge".into(), &challenge.into()));
    assert_eq!(shown["verdict"], first["verdict"], "the same document");
    assert_eq!(json(&validator, &format!("show {}", gone["device_id"].as_str().unwrap()))["found"], "device");
    let text = plain(&validator, &format!("show {prefix}"));
    for part in [&*format!("miner {key}\n"), "  state ", "  next ", "Devices\n", "gone since", "Last verdicts\n"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let text = plain(&validator, &format!("show {}", &challenge[..10]));
    let outcome = first["outcome"].as_str().unwrap().to_uppercase();
    assert!(text.starts_with(&outcome) && text.contains("\n  receipt    "), "{text}");
    let text = plain(&validator, &format!("show {}", gone["device_id"].as_str().unwrap()));
    assert!(text.starts_with("device ") && text.contains(" gone: "), "{text}");

    plain(&validator, &format!("label {prefix} rack=7 name=node-07"));
    assert_eq!(json(&validator, "show node-07")["key"], key.as_str());
    let history = json(&validator, "history node-07");
    let kinds: std::collections::BTreeSet<_> =
        history.as_array().unwrap().iter().map(|event| event["event"].as_str().unwrap()).collect();
    for kind in ["session", "verdict", "device", "action"] {
        assert!(kinds.contains(kind), "{kind} in {kinds:?}");
    }
    let table = plain(&validator, &format!("history {prefix} --limit 4"));
    assert!(rows(&table).len() == 4 && rows(&table)[0].contains("label by "), "{table}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_no_one_meaning_is_refused() {
    let validator = TestValidator::start(&Policy::default()).await;
    for (command, code, why) in [
        ("show abcd", 2, "nothing in the records has an id that starts with abcd"),
        ("show abc", 64, "no miner has the name \"abc\"; an id takes its first 4"),
        ("show wxyz", 64, "no miner has the name"),
        ("history abcd", 2, "no miner in the records"),
        ("verdicts --miner abcd", 2, "no miner in the records"),
        ("suspend abcd", 2, "takes its whole key"),
        ("label abcd rack=7", 2, "no miner in the records"),
        ("verdicts --limit 10001", 64, "more than 10000"),
        ("devices xyz", 64, "expected an id"),
    ] {
        let said = operate(&validator, command);
        assert!(said.code == code && said.errors.contains(why), "{command}: {} {}", said.code, said.errors);
        assert!(said.out.is_empty(), "{command}");
    }
    let said = operate_at(&validator.file("nobody.sock"), &["verdicts"]);
    assert!(said.code == 74 && said.errors.contains("no validator with it runs"), "{}", said.errors);
}

#[tokio::test(flavor = "multi_thread")]
async fn copies_of_the_records_are_whole() {
    let (mut validator, miner) = fleet().await;
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let exported = json(&validator, &format!("export {}", path("lines")));
    assert_eq!((&exported["tables"]["miners"], &exported["tables"]["verdicts"]), (&1.into(), &2.into()), "{exported}");
    let lines = fs::read_dir(path("lines")).unwrap().map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap());
    let all: String = lines.collect();
    assert!(all.contains(&miner.key.to_string()) && all.contains("device_missing"));
    let said = plain(&validator, &format!("export {}", path("again")));
    assert!(said.contains("2 verdicts"), "{said}");
    let said = operate(&validator, &format!("export {}", path("lines")));
    assert!(said.code == 74 && said.errors.contains("refused"), "it is not empty: {}", said.errors);

    let backup = json(&validator, &format!("backup {}", path("copy.db")));
    assert!(backup["bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{backup}");
    let said = operate(&validator, &format!("backup {}", path("copy.db")));
    assert_eq!(said.code, 74, "it is there already: {}", said.errors);
    let copy = Records::open(&Location::File(folder.path().join("copy.db"))).await.unwrap();
    let miners = copy.miners(&MinerFilter::default()).await.unwrap();
    assert_eq!(miners[0].key, miner.key.to_string());
    let actions = copy.actions(None, 0, 10).await.unwrap();
    assert!(actions.iter().any(|action| action.action == "export"), "who made a copy is noted: {actions:?}");

    // A server takes a copy of a validator that is stopped, which goes on there.
    let database = Postgres::shared().database();
    let copy = format!("backup --key-file={} {}", validator.file("validator.key").display(), database.url());
    let said = operate(&validator, &copy);
    assert!(said.code == 78 && said.errors.contains("is in use by assay-validator"), "{}", said.errors);
    validator.daemon.terminate();
    validator.daemon.wait();
    assert_eq!(json(&validator, &copy)["tables"]["verdicts"], 2);
    let said = operate(&validator, &copy);
    assert!(said.code == 74 && said.errors.contains("name an empty database"), "{}", said.errors);
    validator.environment.push(("ASSAY_VALIDATOR_RECORDS".to_owned(), database.url().into()));
    validator.restart().await;
    assert!(json(&validator, "status")["records"].as_str().is_some_and(|records| records.starts_with("postgres://")));
    validator.wait_for_miner(miner.key, true).await;
    let ruling = validator.challenge(miner.key, Some(Mode::Audit)).await.unwrap();
    assert_eq!(len(&json(&validator, "verdicts")), 3, "{ruling:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_records_are_not_copied_and_a_copy_takes_their_place() {
    let mut validator = TestValidator::start(&Policy::default()).await;
    plain(&validator, "enroll");
    // Into one file goes what was in the log beside it.
    validator.daemon.terminate();
    validator.restart().await;
    let [records, copy, none] = ["validator.db", "copy.db", "none.db"].map(|name| validator.file(name));
    json(&validator, &format!("backup --check {}", copy.display()));
    let page_bytes = 4096;
    let file = fs::OpenOptions::new().write(true).open(&records).unwrap();
    let rest = usize::try_from(file.metadata().unwrap().len()).unwrap() - page_bytes;
    file.write_all_at(&vec![0xff; rest], page_bytes as u64).unwrap();
    let said = operate(&validator, &format!("backup --check {}", none.display()));
    assert!(said.code == 74 && said.errors.contains("restore a backup"), "{}", said.errors);
    assert!(!none.exists());
    assert_ne!(operate(&validator, "status").code, 0);
    validator.daemon.terminate();
    assert!(!validator.daemon.wait().success());
    fs::rename(copy, &records).unwrap();
    for companion in ["validator.db-wal", "validator.db-shm"] {
        // A stop leaves them where it could not write them into the file.
        let _ = fs::remove_file(validator.file(companion));
    }
    validator.restart().await;
    assert_eq!(json(&validator, "status")["state"], "serving");
    assert_eq!(len(&json(&validator, "enroll --list")), 1);
}
