//! The control socket as operators meet it: challenges that are cancelled, waited for, repeated; a validator that
//! drains; no validator at all.

use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use assay_api::{BeginChallenge, ChallengeProgress};
use assay_integration_tests::daemon::{PATIENCE, passed, program, run};
use assay_integration_tests::miner::TestMiner;
use assay_integration_tests::validator::{Policy, TestValidator};
use assay_protocol::verdict::{Mode, ReasonCode};
use assay_work::PublicKey;
use serde_json::Value;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

const VALIDATOR: &str = "assay-validator";

/// Work that no test waits for.
fn endless_work() -> Policy {
    Policy { iterations: 60_000, ..Policy::default() }
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A command to the validator behind a socket.
fn ask(socket: &Path, arguments: &[&str]) -> Output {
    let socket = format!("--control-socket={}", socket.display());
    run(VALIDATOR, arguments.iter().copied().chain([socket.as_str()]))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_names_the_challenges_that_it_cuts_short() {
    let (mut validator, mut miner) = TestMiner::with_validator(&endless_work(), 1, &[]).await;
    let challenge = validator.ask(miner.key, Some(Mode::Audit)).await.unwrap();
    miner.daemon.wait_for("working");
    validator.daemon.terminate();
    validator.daemon.wait_for("draining");
    validator.daemon.terminate();
    let ruling = challenge.ruling().await.unwrap();
    ruling.expect(ReasonCode::ValidatorDraining);
    let line = validator.daemon.wait_for("stopped before it was drained");
    let id: String = ruling.verdict.challenge_id.iter().map(|byte| format!("{byte:02x}")).collect();
    assert!(line.to_string().contains(&id), "{line}");
    assert_eq!(validator.daemon.wait().code(), Some(75));
    assert!(!validator.daemon.log().iter().any(|line| line.contains("\"drained\"")));
    assert!(!validator.socket.exists(), "the socket goes with its validator");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_miner_that_breaks_its_challenge_off_did_not_drain() {
    let (validator, mut miner) = TestMiner::with_validator(&endless_work(), 1, &[]).await;
    let challenge = validator.ask(miner.key, Some(Mode::Audit)).await.unwrap();
    miner.daemon.wait_for("working");
    miner.daemon.terminate();
    miner.daemon.wait_for("draining");
    miner.daemon.terminate();
    miner.daemon.wait_for("stopped before it was drained");
    challenge.ruling().await.unwrap().expect(ReasonCode::MinerDraining);
    assert_eq!(miner.daemon.wait().code(), Some(75));
    assert!(!miner.daemon.log().iter().any(|line| line.contains("\"drained\"")));
}

/// A monitor that keeps its connection open has no part in the drain.
#[tokio::test(flavor = "multi_thread")]
async fn a_health_watch_does_not_keep_a_validator_from_draining() {
    let mut validator = TestValidator::start(&Policy::default()).await;
    let channel = tonic::transport::Endpoint::from_shared(format!("http://{}", validator.address)).unwrap();
    let mut health = HealthClient::new(channel.connect().await.unwrap());
    let mut watch = health.watch(HealthCheckRequest { service: String::new() }).await.unwrap().into_inner();
    watch.message().await.unwrap();
    validator.daemon.terminate();
    validator.daemon.wait_for("\"drained\"");
    assert_eq!(validator.daemon.wait().code(), Some(0));
    assert!(!validator.daemon.log().iter().any(|line| line.contains("stopping at once")));
    assert!(!validator.file("validator.db-wal").exists(), "its records are one file");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_socket_is_served_while_the_validator_drains() {
    let mut validator = TestValidator::start(&Policy::default()).await;
    let mut miner = TestMiner::start(validator.address, 1, &[]);
    let idle = TestMiner::start(validator.address, 1, &[]);
    validator.wait_for_miner(miner.key, true).await;
    validator.wait_for_miner(idle.key, true).await;
    let held = miner.daemon.hold_devices();
    let challenge = validator.ask(miner.key, Some(Mode::Audit)).await.unwrap();
    miner.daemon.wait_for("working");
    validator.daemon.terminate();
    validator.daemon.wait_for("draining");
    let listed = ask(&validator.socket, &["miners", "--json"]);
    assert!(listed.status.success(), "{}", stderr(&listed));
    assert!(String::from_utf8_lossy(&listed.stdout).contains(&miner.key.to_string()));
    let refused = ask(&validator.socket, &["challenge", "--miner", &miner.key.to_string()]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("the validator is draining"), "{}", stderr(&refused));
    drop(held);
    challenge.ruling().await.unwrap().expect_pass();
    assert_eq!(validator.daemon.wait().code(), Some(0));
}

#[test]
fn a_socket_that_no_validator_serves_is_said_to_be_what_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    drop(UnixListener::bind(path("stale.sock")).unwrap());
    std::fs::write(path("file"), "").unwrap();
    std::os::unix::fs::symlink(path("nowhere"), path("dangling")).unwrap();
    let long = folder.path().join("x".repeat(120));
    let cases = [
        (path("missing.sock"), "there is no control socket"),
        (path("no/folder.sock"), "there is no control socket"),
        (path("dangling"), "there is no control socket"),
        (path("stale.sock"), "has ended without removing it"),
        (path("file"), "is not a socket"),
        (folder.path().to_path_buf(), "is not a socket"),
        (long, "cannot connect to the control socket"),
    ];
    for (socket, expected) in cases {
        for command in [&["miners"][..], &["challenge", "--miner=only"]] {
            let output = ask(&socket, command);
            let said = stderr(&output);
            assert!(output.status.code() == Some(74) && said.contains(expected), "{}: {said}", socket.display());
            assert!(said.contains(&socket.display().to_string()), "{said}");
        }
    }
}

#[test]
fn a_socket_that_another_program_serves_is_no_validators() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("other.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    // A program that greets as many do, and one that closes at once.
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().map_while(Result::ok).enumerate() {
            if number % 2 == 0 {
                let _ = std::io::Write::write_all(&mut { stream }, b"220 mail.example ESMTP\r\n");
            }
        }
    });
    for _ in 0..2 {
        let output = ask(&socket, &["miners"]);
        let said = stderr(&output);
        assert!(output.status.code() == Some(74) && said.contains("does not answer as a validator"), "{said}");
    }
}

/// A user who may not open the socket learns its owner: root runs the command as another user here, as root may open
/// any.
#[tokio::test(flavor = "multi_thread")]
async fn who_may_not_open_the_socket_is_told_whose_it_is() {
    let validator = TestValidator::start(&Policy::default()).await;
    let mut command = Command::new(program(VALIDATOR));
    command.arg("miners").arg(format!("--control-socket={}", validator.socket.display()));
    let is_root =
        std::fs::metadata(&validator.socket).is_ok_and(|file| std::os::unix::fs::MetadataExt::uid(&file) == 0);
    if is_root {
        command.uid(65_534);
    } else {
        std::fs::set_permissions(&validator.socket, std::fs::Permissions::from_mode(0o000)).unwrap();
    }
    let output = command.output().unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(74), "{said}");
    assert!(said.contains("no permission to open the control socket") && said.contains("user id "), "{said}");
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// A command that runs while the test goes on.
fn begin(socket: &Path, arguments: &[&str]) -> Child {
    let mut command = Command::new(program(VALIDATOR));
    command.args(arguments).arg(format!("--control-socket={}", socket.display()));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn signal(process: u32, name: &str) {
    assert!(Command::new("kill").args([name, &process.to_string()]).status().unwrap().success());
}

/// The challenge that a miner works on, once it does.
async fn running(validator: &TestValidator, key: PublicKey) -> ChallengeProgress {
    let until = std::time::Instant::now() + PATIENCE;
    loop {
        let miners = validator.miners().await;
        let found = miners.into_iter().find(|miner| miner.miner_key == key).and_then(|miner| miner.challenge);
        if let Some(challenge) = found {
            return challenge;
        }
        assert!(std::time::Instant::now() < until, "no challenge of {key} runs");
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

/// Waits until a miner works on nothing.
async fn idle(validator: &TestValidator, key: PublicKey) {
    let until = std::time::Instant::now() + PATIENCE;
    while validator.miners().await.iter().any(|miner| miner.miner_key == key && miner.challenged_now) {
        assert!(std::time::Instant::now() < until, "the challenge of {key} goes on");
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupt_cancels_the_challenge_and_shows_its_verdict() {
    let (validator, mut miner) = TestMiner::with_validator(&endless_work(), 1, &[]).await;
    for name in ["-INT", "-TERM"] {
        let command = begin(&validator.socket, &["challenge", "--mode=audit", "--json"]);
        miner.daemon.wait_for("working");
        signal(command.id(), name);
        let output = command.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        let verdict = json(&output);
        assert_eq!(
            (&verdict["outcome"], &verdict["reasons"][0]["code"]),
            (&"inconclusive".into(), &"cancelled".into())
        );
        assert_eq!(verdict["reasons"][0]["class"], "ours");
        assert_eq!(verdict["abandoned_recently"], 0, "nobody is blamed");
        assert!(stderr(&output).contains("cancelling challenge"), "{}", stderr(&output));
        // The miner stops too, and is free for the next one.
        miner.daemon.wait_for("cancelled");
        idle(&validator, miner.key).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_detached_challenge_runs_on_is_named_and_cancelled() {
    let (validator, mut miner) = TestMiner::with_validator(&endless_work(), 1, &[]).await;
    let detached = ask(&validator.socket, &["challenge", "--detach", "--mode=audit"]);
    assert!(detached.status.success(), "{}", stderr(&detached));
    let id = stdout(&detached).trim().to_owned();
    assert_eq!(id.len(), 32, "the id alone: {id}");
    miner.daemon.wait_for("working");
    assert_eq!(running(&validator, miner.key).await.challenge_id.to_string(), id);
    // The next caller learns which challenge is in the way, and since when.
    let busy = ask(&validator.socket, &["challenge", "--mode=audit"]);
    let said = stderr(&busy);
    assert!(busy.status.code() == Some(2) && said.contains(&id), "{said}");
    assert!(said.contains("phase work") && said.contains("slots") && said.contains("since "), "{said}");
    let waited = ask(&validator.socket, &["challenge", "--wait", "0"]);
    assert!(
        waited.status.code() == Some(2) && stderr(&waited).contains("waited for long enough"),
        "{}",
        stderr(&waited)
    );
    let listed = ask(&validator.socket, &["status", "--json"]);
    assert_eq!(json(&listed)["challenges"][0]["challenge_id"], id.as_str());
    let cancelled = ask(&validator.socket, &["cancel", &id[..8]]);
    assert!(cancelled.status.success() && stdout(&cancelled).contains(&id), "{cancelled:?}");
    idle(&validator, miner.key).await;
    let again = ask(&validator.socket, &["cancel", &id[..8]]);
    assert!(again.status.code() == Some(2) && stderr(&again).contains("no such challenge runs"), "{again:?}");
    let status = json(&ask(&validator.socket, &["status", "--json"]));
    assert_eq!((&status["verdicts"]["inconclusive"], &status["challenges"]), (&1.into(), &serde_json::json!([])));
    // By the miner, and all.
    for which in [&miner.key.to_string()[..6], "--all"] {
        assert!(ask(&validator.socket, &["challenge", "--detach"]).status.success());
        running(&validator, miner.key).await;
        let cancelled = ask(&validator.socket, &["cancel", which, "--json"]);
        assert_eq!(json(&cancelled)[0]["miner_key"], miner.key.to_string(), "{}", stderr(&cancelled));
        idle(&validator, miner.key).await;
    }
    let none = ask(&validator.socket, &["cancel", "--all"]);
    assert!(none.status.success() && stdout(&none).contains("no challenge runs"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_challenge_waits_for_its_miner_and_for_its_turn() {
    let validator = TestValidator::start(&Policy { iterations: 3000, ..Policy::default() }).await;
    let mut early = begin(&validator.socket, &["challenge", "--wait", "--mode=audit", "--json"]);
    let waits = |command: &mut Child| {
        let mut said = String::new();
        let errors = command.stderr.as_mut().unwrap();
        while !said.contains("waiting: ") {
            let mut byte = [0];
            errors.read_exact(&mut byte).unwrap_or_else(|error| panic!("{said}: {error}"));
            said.push(byte[0].into());
        }
    };
    waits(&mut early);
    let miner = TestMiner::start(validator.address, 1, &[]);
    running(&validator, miner.key).await;
    let held = miner.daemon.hold_devices();
    let name = &miner.key.to_string()[..8];
    let mut late = begin(&validator.socket, &["challenge", "--miner", name, "--wait=60", "--json"]);
    waits(&mut late);
    drop(held);
    for command in [early, late] {
        let output = command.wait_with_output().unwrap();
        assert!(passed(output.status) && json(&output)["outcome"] == "pass", "{}", stderr(&output));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_miner_is_challenged_at_once() {
    let validator = TestValidator::start(&Policy::default()).await;
    let none = ask(&validator.socket, &["challenge", "--all"]);
    assert!(none.status.code() == Some(2) && stderr(&none).contains("no miner is connected"), "{}", stderr(&none));
    let miners = [1, 1].map(|devices| TestMiner::start(validator.address, devices, &[]));
    for miner in &miners {
        validator.wait_for_miner(miner.key, true).await;
    }
    let which = ask(&validator.socket, &["challenge"]);
    let said = stderr(&which);
    assert!(which.status.code() == Some(64) && said.contains("--all"), "{said}");
    assert!(miners.iter().all(|miner| said.contains(&miner.key.to_string()[..8])), "{said}");
    let output = ask(&validator.socket, &["challenge", "--all", "--mode=audit"]);
    assert!(passed(output.status), "{}", stderr(&output));
    let text = stdout(&output);
    for miner in &miners {
        let row = text.lines().find(|line| line.contains(&miner.key.to_string()[..8])).unwrap();
        assert!(row.contains("pass"), "{text}");
    }
    // One of them is busy: the others have their verdicts, and the worst decides.
    let policy = BeginChallenge {
        miner: Some(miners[0].key.to_string()),
        iterations: Some(60_000),
        ..BeginChallenge::default()
    };
    let socket = validator.socket.clone();
    let busy = validator.run(policy);
    let rest = async {
        running(&validator, miners[0].key).await;
        let output = ask(&socket, &["challenge", "--all", "--mode=audit", "--json"]);
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        let all = json(&output);
        let of = |key: PublicKey| {
            let found = all["challenges"].as_array().unwrap().iter().find(|one| one["miner_key"] == key.to_string());
            found.unwrap().clone()
        };
        assert!(of(miners[0].key)["error"].as_str().unwrap().contains("works on challenge"), "{all}");
        assert_eq!(of(miners[1].key)["verdict"]["outcome"], "pass");
        assert!(ask(&socket, &["cancel", "--all"]).status.success());
    };
    let (ruling, ()) = tokio::join!(busy, rest);
    ruling.unwrap().expect(ReasonCode::Cancelled);
}

#[tokio::test(flavor = "multi_thread")]
async fn status_says_what_a_validator_does() {
    let (mut validator, miner) =
        TestMiner::with_validator(&Policy { iterations: 150, ..Policy::default() }, 1, &[]).await;
    validator.run(BeginChallenge { iterations: Some(1), ..BeginChallenge::default() }).await.unwrap().expect_pass();
    let held = miner.daemon.hold_devices();
    let challenge = validator.ask(miner.key, Some(Mode::Audit)).await.unwrap();
    let running = running(&validator, miner.key).await;
    let output = ask(&validator.socket, &["status", "--json"]);
    let status = json(&output);
    assert_eq!(status["validator_key"], validator.key.to_string());
    assert_eq!(status["address"], validator.address.to_string());
    assert_eq!(status["control_socket"], validator.socket.display().to_string());
    assert_eq!(status["process_id"], validator.daemon.id());
    assert_eq!((&status["state"], &status["miners"], &status["devices"]), (&"serving".into(), &1.into(), &1.into()));
    assert_eq!(status["verdicts"]["pass"], 1);
    // A disk without room is seen before the next verdict is lost.
    validator.daemon.limit_file_bytes(Some(1));
    let row = &status["challenges"][0];
    assert_eq!(row["challenge_id"], running.challenge_id.to_string());
    assert!(row["all_slots"].as_u64().unwrap() >= 1500, "{row}");
    let text = stdout(&ask(&validator.socket, &["status"]));
    assert!(text.contains(&running.challenge_id.to_string()[..8]) && text.contains("1 of at most 256"), "{text}");
    assert!(stdout(&ask(&validator.socket, &["miners"])).contains("work "), "miners show how far the challenge is");
    validator.daemon.terminate();
    validator.daemon.wait_for("draining");
    assert_eq!(json(&ask(&validator.socket, &["status", "--json"]))["state"], "draining");
    drop(held);
    let until = std::time::Instant::now() + PATIENCE;
    while json(&ask(&validator.socket, &["status", "--json"]))["records_problem"].is_null() {
        assert!(std::time::Instant::now() < until, "a verdict that cannot be written is a problem");
    }
    assert!(stdout(&ask(&validator.socket, &["status"])).contains("NOT WRITTEN: "));
    validator.daemon.limit_file_bytes(None);
    challenge.ruling().await.unwrap().expect_pass();
    assert_eq!(validator.daemon.wait().code(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_validator_forgets_a_miners_devices() {
    let (validator, mut miner) = TestMiner::with_validator(&Policy::default(), 2, &[]).await;
    validator.challenge(miner.key, Some(Mode::Audit)).await.unwrap().expect_pass();
    let key = miner.key.to_string();
    miner.daemon.kill();
    validator.wait_for_miner(miner.key, false).await;
    miner.restart_with(1);
    validator.wait_for_miner(miner.key, true).await;
    validator.challenge(miner.key, Some(Mode::Audit)).await.unwrap().expect(ReasonCode::DeviceMissing);
    let listed = json(&ask(&validator.socket, &["miners", "--json"]));
    let lost = listed[0]["missing_devices"][0]["device_id"].as_str().unwrap_or_else(|| panic!("{listed}")).to_owned();
    let text = stdout(&ask(&validator.socket, &["miners"]));
    assert!(text.contains(&format!("missing of {}: {}", &key[..8], &lost[..8])), "{text}");
    let forget = |key: &str| json(&ask(&validator.socket, &["forget", key, "--json"]));
    assert_eq!(forget(&key[..8]), serde_json::json!({ "miner_key": key, "devices": 2 }));
    assert_eq!(forget(&key)["devices"], 0);
    assert_eq!(json(&ask(&validator.socket, &["miners", "--json"]))[0]["missing_devices"], serde_json::json!([]));
    validator.challenge(miner.key, Some(Mode::Audit)).await.unwrap().expect_pass();
    // Regression test: a known miner that was away took its whole key.
    miner.daemon.kill();
    validator.wait_for_miner(miner.key, false).await;
    assert_eq!(forget(&key[..8])["miner_key"], key);
    let nobody = ask(&validator.socket, &["forget", "0000000000"]);
    assert!(nobody.status.code() == Some(2) && stderr(&nobody).contains("whole key"), "{}", stderr(&nobody));
}
