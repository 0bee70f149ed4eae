//! `assay-miner status` and `assay-miner key`: beside a miner that runs, and after it ended.

use std::path::Path;
use std::process::Output;
use std::time::{Duration, Instant};

use assay_integration_tests::daemon::{PATIENCE, run};
use assay_integration_tests::miner::TestMiner;
use assay_integration_tests::validator::{Policy, TestValidator};
use assay_protocol::verdict::{Mode, ReasonCode};
use serde_json::Value;

const NAP: Duration = Duration::from_millis(50);

fn status(key_file: &Path, flags: &[&str]) -> Output {
    let key = format!("--key-file={}", key_file.display());
    run("assay-miner", ["status", &key].iter().chain(flags))
}

fn json(key_file: &Path) -> Value {
    let output = status(key_file, &["--json"]);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// Waits until the status is as it is to be.
fn wait_for(key_file: &Path, is: impl Fn(&Value) -> bool) -> Value {
    let until = Instant::now() + PATIENCE;
    loop {
        let shown = json(key_file);
        if is(&shown) {
            return shown;
        }
        assert!(Instant::now() < until, "the status never is as waited for: {shown:#}");
        std::thread::sleep(NAP);
    }
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_miner_that_serves_shows_what_it_does() {
    let validator = TestValidator::start(&Policy::default()).await;
    let mut miner = TestMiner::start(validator.address, 2, &[]);
    let key_file = miner.file("miner.key");
    validator.wait_for_miner(miner.key, true).await;
    validator.challenge(miner.key, Some(Mode::Audit)).await.unwrap().expect_pass();
    let shown = wait_for(&key_file, |shown| shown["status"]["last_verdict"]["outcome"] == "pass");
    assert_eq!((&shown["running"], &shown["pid"]), (&true.into(), &miner.daemon.id().into()));
    let status = &shown["status"];
    assert_eq!(status["miner_key"], miner.key.to_string());
    assert_eq!(status["validator"], validator.address.to_string());
    assert_eq!(status["connection"]["validator_key"], validator.key.to_string());
    assert!(status["connection"]["connected_since"].is_u64(), "{status:#}");
    assert_eq!(status["verdicts"], serde_json::json!({ "pass": 1, "fail": 0, "inconclusive": 0 }));
    assert!(status["last_verdict"]["tops"].as_f64().unwrap() > 0.0, "{status:#}");
    let workers = miner.daemon.workers(2);
    let devices = status["devices"].as_array().unwrap();
    assert_eq!(devices.len(), 2);
    for device in devices {
        assert_eq!(device["worker_pid"], workers[device["device_id"].as_str().unwrap()]);
        assert_eq!((&device["worker_restarts"], &device["offered_bytes"]), (&0.into(), &(8 << 20).into()));
    }
    let output = self::status(&key_file, &[]);
    let text = text(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    for part in [
        &format!("running: process {} since 20", miner.daemon.id()),
        &miner.key.to_string(),
        &format!("{}, connected since 20", validator.address),
        "last verdict  pass, ",
        "1 pass, 0 fail, 0 inconclusive",
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(miner.file("miner.key.status")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_challenge_that_runs_is_shown_with_its_progress() {
    let policy = Policy { iterations: 60_000, ..Policy::default() };
    let mut validator = TestValidator::start(&policy).await;
    let miner = TestMiner::start(validator.address, 1, &[]);
    let key_file = miner.file("miner.key");
    validator.wait_for_miner(miner.key, true).await;
    let _running = validator.ask(miner.key, Some(Mode::Audit)).await.unwrap();
    let shown = wait_for(&key_file, |shown| shown["status"]["challenge"]["done_slots"].as_u64() > Some(0));
    let challenge = &shown["status"]["challenge"];
    assert_eq!((&challenge["n"], &challenge["stage"]), (&256.into(), &"work".into()));
    assert_eq!((&challenge["iterations"], &challenge["all_slots"]), (&60_000.into(), &720_000.into()));
    let text = text(&status(&key_file, &[]));
    assert!(
        text.contains("n = 256, iterations 60000, devices 1: work, ") && text.contains(" of 720000 slots"),
        "{text}"
    );
    // Regression test: where its verdict did not come, an earlier pass stayed the last one.
    let id = challenge["challenge_id"].clone();
    validator.daemon.kill();
    let shown = wait_for(&key_file, |shown| shown["status"]["last_verdict"].is_object());
    let verdict = &shown["status"]["last_verdict"];
    assert_eq!((&verdict["outcome"], &verdict["challenge_id"]), (&"unknown".into(), &id));
    let key = format!("--key-file={}", key_file.display());
    let check = run("assay-miner", ["check", "--running", "--last-verdict-within", "1h", &key]);
    assert_eq!(check.status.code(), Some(1), "{check:?}");
    let receipt = key_file.with_file_name("miner.key.receipt");
    std::fs::write(&receipt, "of an earlier pass").unwrap();
    let receipt = run("assay-miner", ["receipt", &key]);
    let warning = String::from_utf8_lossy(&receipt.stderr);
    assert!(warning.contains("this is the receipt of an earlier one"), "{receipt:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_was_started_again_is_counted() {
    let validator = TestValidator::start(&Policy::default()).await;
    let mut miner = TestMiner::start(validator.address, 1, &[]);
    let worker = *miner.daemon.workers(1).values().next().unwrap();
    let key_file = miner.file("miner.key");
    wait_for(&key_file, |shown| shown["status"]["devices"][0]["worker_pid"] == worker);
    let killed = std::process::Command::new("kill").args(["-KILL", &worker.to_string()]).status().unwrap();
    assert!(killed.success());
    let shown = wait_for(&key_file, |shown| {
        let device = &shown["status"]["devices"][0];
        device["worker_restarts"] == 1 && device["worker_pid"].is_u64() && device["fault"].is_null()
    });
    assert_ne!(shown["status"]["devices"][0]["worker_pid"], worker);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_miner_that_ended_says_when_and_why() {
    let validator = TestValidator::start(&Policy::default()).await;
    let mut miner = TestMiner::start(validator.address, 1, &[]);
    let key_file = miner.file("miner.key");
    validator.wait_for_miner(miner.key, true).await;
    wait_for(&key_file, |shown| shown["status"]["connection"]["connected_since"].is_u64());
    miner.daemon.kill();
    let output = status(&key_file, &[]);
    let text = text(&output);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.starts_with("not running since about 20") && text.contains("ended without a word"), "{text}");
    assert_eq!(json(&key_file)["running"], false);

    miner.restart();
    validator.wait_for_miner(miner.key, true).await;
    wait_for(&key_file, |shown| shown["status"]["connection"]["connected_since"].is_u64());
    miner.daemon.terminate();
    assert_eq!(miner.daemon.wait().code(), Some(0));
    let output = status(&key_file, &[]);
    let text = self::text(&output);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.starts_with("not running since 20") && text.lines().next().unwrap().ends_with(": drained"), "{text}");
}

#[test]
fn a_validator_out_of_reach_is_shown_with_the_next_attempt() {
    let nowhere = "127.0.0.1:9".parse().unwrap();
    let miner = TestMiner::start(nowhere, 1, &["--reconnect-max-ms=600000"]);
    let key_file = miner.file("miner.key");
    let shown = wait_for(&key_file, |shown| shown["status"]["connection"]["next_attempt"].is_u64());
    let connection = &shown["status"]["connection"];
    assert!(connection["connected_since"].is_null());
    assert!(connection["last_error"]["why"].as_str().unwrap().contains("no connection"), "{connection:#}");
    // In between it connects, for a moment.
    let until = Instant::now() + PATIENCE;
    loop {
        let text = text(&status(&key_file, &[]));
        if text.contains("not connected; next attempt in ") && text.contains("last error    no connection") {
            break;
        }
        assert!(Instant::now() < until, "{text}");
    }
}

#[test]
fn nothing_is_made_for_a_miner_that_never_ran() {
    let folder = tempfile::tempdir().unwrap();
    let output = status(&folder.path().join("miner.key"), &[]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(text(&output).starts_with("not running: no miner with the key file "), "{output:?}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "neither a key nor a lock");
    std::fs::write(folder.path().join("miner.key.status"), "{").unwrap();
    let output = status(&folder.path().join("miner.key"), &[]);
    assert_eq!(output.status.code(), Some(74), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("not of this version"), "{output:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_verdict_that_is_no_pass_is_shown_with_its_reason() {
    let validator = TestValidator::start(&Policy { iterations: 60_000, ..Policy::default() }).await;
    let miner = TestMiner::start(validator.address, 1, &["--max-challenge-s=1"]);
    let key_file = miner.file("miner.key");
    validator.wait_for_miner(miner.key, true).await;
    validator.challenge(miner.key, Some(Mode::Audit)).await.unwrap().expect(ReasonCode::MinerDeclined);
    let shown = wait_for(&key_file, |shown| shown["status"]["last_verdict"].is_object());
    let verdict = &shown["status"]["last_verdict"];
    assert_eq!(
        (&verdict["outcome"], &verdict["reasons"][0]["code"]),
        (&"inconclusive".into(), &"miner_declined".into())
    );
    let text = text(&status(&key_file, &[]));
    for part in ["miner_declined (busy): ", "challenges of at most 1 s", "last stop     challenge "] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
}

#[test]
fn the_key_is_printed_alone_with_a_hint_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    let key_file = folder.path().join("state/miner.key");
    let flag = format!("--key-file={}", key_file.display());
    let made = run("assay-miner", ["key", &flag]);
    let key = text(&made).trim_end().to_owned();
    assert!(made.status.success() && key.len() == 64 && text(&made).lines().count() == 1, "{made:?}");
    let hint = String::from_utf8_lossy(&made.stderr).into_owned();
    assert!(hint.contains(&format!("--allowed-miners {key}")), "{hint}");
    assert!(hint.starts_with("A new key: ") && hint.contains("was not there"), "{hint}");
    let again = run("assay-miner", ["key", "--json", &flag]);
    let shown: Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!((&shown["miner_key"], &shown["key_file"]), (&key.into(), &key_file.display().to_string().into()));
    assert!(again.stderr.is_empty(), "{again:?}");
}
