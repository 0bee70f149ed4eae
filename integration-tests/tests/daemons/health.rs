//! `assay-miner check`, as a cluster's scheduler runs it: beside a miner, without one, and with a device that hangs;
//! and a validator whose records are damaged.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::process::Output;
use std::time::{Duration, Instant, SystemTime};

use assay_api::ServerStatus;
use assay_integration_tests::daemon::{PATIENCE, lives, run, run_in};
use assay_integration_tests::miner::TestMiner;
use assay_integration_tests::validator::{Policy, TestValidator};
use assay_protocol::verdict::Mode;
use serde_json::Value;

const NAP: Duration = Duration::from_millis(50);
const DEVICES: [&str; 4] = ["--backend=cpu", "--cpu-memory=8MiB", "--cpu-threads=1", "--telemetry=off"];

fn check(key_file: &Path, flags: &[&str]) -> Output {
    let key = format!("--key-file={}", key_file.display());
    run("assay-miner", ["check", &key].iter().chain(flags))
}

/// The line that is printed, and the exit code.
fn outcome(output: &Output) -> (i32, String) {
    let line = String::from_utf8(output.stdout.clone()).unwrap();
    assert_eq!(line.lines().count(), 1, "one line: {output:?}");
    (output.status.code().unwrap(), line.trim_end().to_owned())
}

fn wait_for(key_file: &Path, flags: &[&str], code: i32) -> String {
    let until = Instant::now() + PATIENCE;
    loop {
        let (found, line) = outcome(&check(key_file, flags));
        if found == code {
            return line;
        }
        assert!(Instant::now() < until, "never {code}: {line}");
        std::thread::sleep(NAP);
    }
}

#[test]
fn without_a_miner_the_devices_are_opened() {
    let folder = tempfile::tempdir().unwrap();
    let key_file = folder.path().join("miner.key");
    let check = |flags: &[&str]| outcome(&check(&key_file, &[&DEVICES[..], flags].concat()));
    let (code, line) = check(&["--cpu-devices=2", "--devices=2", "--min-memory=16MiB"]);
    assert_eq!((code, line.as_str()), (0, "OK: no miner runs, 2 devices, 16 MiB free"));
    let (code, line) = check(&["--devices=2"]);
    assert_eq!((code, line.as_str()), (1, "FAIL: 1 of 2 devices (no miner runs, 1 device, 8 MiB free)"));
    let (code, line) = check(&["--min-memory=9MiB", "--validator-connected", "--last-verdict-within=1h"]);
    assert_eq!(code, 1);
    for part in ["8 MiB of 9MiB", "no session with a validator", "no verdict is known"] {
        assert!(line.contains(part), "{part} in {line}");
    }
    assert!(!key_file.exists(), "a check makes no key");
    let (code, line) = check(&["--device=9"]);
    assert_eq!(code, 2);
    assert!(line.starts_with("UNKNOWN: the devices cannot be opened: "), "{line}");
}

/// A driver that does not answer, for any setting of the allowed silence.
#[test]
fn a_device_that_hangs_is_left_behind_in_time() {
    let folder = tempfile::tempdir().unwrap();
    let (program, process) = (folder.path().join("worker"), folder.path().join("process"));
    fs::write(&program, format!("#!/bin/sh\necho $$ > {0}.new; mv {0}.new {0}; kill -STOP $$\n", process.display()))
        .unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let worker = [("ASSAY_WORKER_PROGRAM".to_owned(), OsString::from(&program))];
    let key = format!("--key-file={}", folder.path().join("miner.key").display());
    // A machine under load may take longer than a short limit to start the worker: the call that hangs has to run
    // first.
    let hangs = ["2s", "10s", "60s"].iter().any(|limit| {
        let flags = [&["check", &key], &DEVICES[..], &["--timeout", limit, "--worker-silence-s=600"]].concat();
        let (code, line) = outcome(&run_in("assay-miner", flags, &worker));
        assert_eq!(code, 2, "{line}");
        assert!(line.starts_with("UNKNOWN: the devices were not open in time: a driver may hang, process "), "{line}");
        process.exists()
    });
    assert!(hangs, "the worker was never started");
    let id: i32 = fs::read_to_string(process).unwrap().trim().parse().unwrap();
    let until = Instant::now() + PATIENCE;
    while lives(id) {
        assert!(Instant::now() < until, "the worker that hangs, {id}, is left");
        std::thread::sleep(NAP);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn beside_a_miner_its_state_is_judged() {
    let mut validator = TestValidator::start(&Policy::default()).await;
    let mut miner = TestMiner::start(validator.address, 2, &[]);
    let key_file = miner.file("miner.key");
    validator.wait_for_miner(miner.key, true).await;
    let expected = ["--devices=2", "--min-memory=16MiB", "--validator-connected"];
    let line = wait_for(&key_file, &expected, 0);
    assert_eq!(line, "OK: 2 devices, 16 MiB free, connected");
    let with_verdict = [&expected[..], &["--last-verdict-within=1h"]].concat();
    let (code, line) = outcome(&check(&key_file, &with_verdict));
    assert_eq!(code, 1);
    assert!(line.contains("no verdict is known, within 1h or ever"), "{line}");
    validator.challenge(miner.key, Some(Mode::Audit)).await.unwrap().expect_pass();
    assert!(wait_for(&key_file, &with_verdict, 0).contains("last verdict pass, "));
    let json = check(&key_file, &["--json", "--devices=3"]);
    let json: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!((&json["healthy"], &json["problems"]), (&false.into(), &serde_json::json!(["2 of 3 devices"])));
    validator.daemon.kill();
    assert!(wait_for(&key_file, &with_verdict, 1).contains("no session with a validator: "));
    // Started again, the miner knows its last verdict.
    miner.daemon.terminate();
    miner.daemon.wait();
    miner.restart();
    assert!(wait_for(&key_file, &["--devices=2", "--last-verdict-within=1h"], 0).contains("last verdict pass, "));
}

/// A miner that writes its status no more: its last one is older than it ever gets.
#[tokio::test(flavor = "multi_thread")]
async fn a_miner_that_hangs_is_not_healthy() {
    let validator = TestValidator::start(&Policy::default()).await;
    let miner = TestMiner::start(validator.address, 1, &[]);
    let key_file = miner.file("miner.key");
    wait_for(&key_file, &["--validator-connected"], 0);
    let stopped = std::process::Command::new("kill").args(["-STOP", &miner.daemon.id().to_string()]).status().unwrap();
    assert!(stopped.success());
    let status_file = miner.file("miner.key.status");
    let mut status: Value = serde_json::from_slice(&fs::read(&status_file).unwrap()).unwrap();
    status["written"] = (status["written"].as_u64().unwrap() - 100).into();
    fs::write(&status_file, status.to_string()).unwrap();
    // A miner whose disk is full, and one that hangs: the file's own time is as old as its text.
    let (code, line) = outcome(&check(&key_file, &[]));
    assert_eq!(code, 2);
    assert!(line.starts_with("UNKNOWN: ") && line.contains("cannot write its status, which is 10"), "{line}");
    let old = SystemTime::now() - Duration::from_secs(100);
    fs::File::options().write(true).open(&status_file).unwrap().set_modified(old).unwrap();
    let (code, line) = outcome(&check(&key_file, &[]));
    assert_eq!(code, 1);
    assert!(line.contains(&format!("the miner, process {}, hangs, or", miner.daemon.id())), "{line}");
}

/// When a line of a log was written.
fn second_of_day(line: &Value) -> f64 {
    let (_, time) = line["timestamp"].as_str().unwrap().split_once('T').unwrap();
    time.trim_end_matches('Z').split(':').fold(0.0, |sum, part| sum * 60.0 + part.parse::<f64>().unwrap())
}

/// A page of SQLite's files.
const PAGE_BYTES: usize = 4096;

#[tokio::test(flavor = "multi_thread")]
async fn damaged_records_are_tried_less_and_less_often_and_a_stop_does_not_wait_for_them() {
    let flags = ["--drain-timeout-s=3600", "--log=info,assay_keeper=debug"].map(str::to_owned).to_vec();
    let policy = Policy { iterations: 200, flags, ..Policy::default() };
    let mut validator = TestValidator::start(&policy).await;
    // A stop moves the database's write-ahead log into its file.
    validator.daemon.terminate();
    validator.restart().await;
    let miner = TestMiner::start(validator.address, 1, &[]);
    validator.wait_for_miner(miner.key, true).await;
    let _running = validator.ask(miner.key, Some(Mode::Audit)).await.unwrap();
    let records = fs::OpenOptions::new().write(true).open(validator.file("validator.db")).unwrap();
    let rest = usize::try_from(records.metadata().unwrap().len()).unwrap() - PAGE_BYTES;
    records.write_all_at(&vec![0xff; rest], PAGE_BYTES as u64).unwrap();
    validator.daemon.wait_for("restore a backup");
    let status: ServerStatus = validator.operator().get("/status").await.unwrap();
    assert_eq!(status.state, "not_serving");
    // Of so many attempts to read or to write, four have the same aim: the last pause of these has 2 s at least, and more
    // on a busy machine.
    let mut attempt = || second_of_day(&validator.daemon.wait_for("a verdict waits for the records"));
    let mut before = attempt();
    let mut pause = || {
        let at = attempt();
        (at - std::mem::replace(&mut before, at)).rem_euclid(86_400.0)
    };
    assert!((0..6).any(|_| pause() > 1.9), "it is tried as often as before");
    validator.daemon.terminate();
    assert!(!validator.daemon.wait().success());
    let log = validator.daemon.log();
    assert_eq!(log.iter().filter(|line| line.contains("the records are damaged") && line.contains("ERROR")).count(), 1);
}
