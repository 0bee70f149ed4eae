//! The records as the log of verdicts: on disk before a verdict is sent, with one event each, in order.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use assay_api::{ProblemCode, ServerStatus};
use assay_integration_tests::daemon::{self, Held, PATIENCE};
use assay_integration_tests::miner::TestMiner;
use assay_integration_tests::validator::{Policy, TestValidator};
use assay_protocol::verdict::Mode;
use serde_json::Value;
use tonic::transport::Endpoint;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

/// The services whose health is reported; the first is the server as a whole.
const SERVICES: [&str; 2] = ["", "assay.v1.SessionService"];
const NAP: Duration = Duration::from_millis(10);

async fn wait_for_health(validator: &TestValidator, expected: ServingStatus) {
    let endpoint = Endpoint::from_shared(format!("http://{}", validator.address)).unwrap();
    for service in SERVICES {
        loop {
            // A connection without a session is closed after some requests, and an address has a bound of them in a
            // second.
            let mut client = HealthClient::new(endpoint.connect().await.unwrap());
            let answer = client.check(HealthCheckRequest { service: service.into() }).await.unwrap().into_inner();
            if answer.status() == expected {
                break;
            }
            tokio::time::sleep(10 * NAP).await;
        }
    }
}

/// Arguments of `verdicts --json`.
fn arguments(validator: &TestValidator, more: &[&str]) -> Vec<String> {
    let socket = format!("--control-socket={}", validator.socket.display());
    ["verdicts", "--json", &socket].iter().chain(more).map(|argument| (*argument).to_owned()).collect()
}

/// The verdicts in the records.
fn recorded(validator: &TestValidator) -> usize {
    let output = daemon::run("assay-validator", arguments(validator, &[]));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    found.as_array().unwrap().len()
}

/// Has a miner pass, and then its devices stand still: the next challenge ends when they go on.
async fn hold_after_a_pass(validator: &TestValidator, miner: &TestMiner) -> Vec<Held> {
    validator.wait_for_miner(miner.key, true).await;
    validator.challenge(miner.key, Some(Mode::Audit)).await.unwrap().expect_pass();
    wait_for_health(validator, ServingStatus::Serving).await;
    miner.daemon.hold_devices()
}

#[tokio::test(flavor = "multi_thread")]
async fn no_verdict_is_lost_on_a_full_disk_and_none_is_given_out_before_it_is_written() {
    // Short, so that a session would end soon that is held up; no shorter than a busy machine is silent.
    let policy = Policy { ping_interval_ms: 1000, iterations: 150, ..Policy::default() };
    let mut validator = TestValidator::start(&policy).await;
    let mut miner = TestMiner::start(validator.address, 1, &[]);
    let held = hold_after_a_pass(&validator, &miner).await;
    miner.daemon.wait_for("verdict: pass");

    let challenge = validator.ask(miner.key, Some(Mode::Audit)).await.unwrap();
    validator.daemon.limit_file_bytes(Some(1));
    drop(held);
    let ruling = tokio::spawn(challenge.ruling());
    wait_for_health(&validator, ServingStatus::NotServing).await;
    let refused = validator.ask(miner.key, Some(Mode::Audit)).await.unwrap_err();
    assert_eq!(refused.code(), Some(ProblemCode::NotPossible), "{refused}");
    // Longer than the session would live if it were held up.
    tokio::time::sleep(Duration::from_secs(5)).await;
    validator.wait_for_miner(miner.key, true).await;
    assert!(!ruling.is_finished(), "nobody has the verdict yet");
    let heard = miner.daemon.log().iter().filter(|line| line.contains("verdict: ")).count();
    assert_eq!(heard, 1, "not even the miner");

    validator.daemon.limit_file_bytes(None);
    ruling.await.unwrap().unwrap().expect_pass();
    wait_for_health(&validator, ServingStatus::Serving).await;
    miner.daemon.wait_for("verdict: pass");
    validator.challenge(miner.key, Some(Mode::Audit)).await.unwrap().expect_pass();
    assert_eq!(recorded(&validator), 3, "each once");
}

/// A validator that has to end logs the verdict that it could not write.
#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_written_at_the_end_is_in_the_programs_log() {
    let flags = vec!["--drain-timeout-s=0".to_owned()];
    let mut validator = TestValidator::start(&Policy { flags, iterations: 150, ..Policy::default() }).await;
    let miner = TestMiner::start(validator.address, 1, &[]);
    let held = hold_after_a_pass(&validator, &miner).await;
    let challenge = validator.ask(miner.key, Some(Mode::Audit)).await.unwrap();
    validator.daemon.limit_file_bytes(Some(1));
    drop(held);
    let until = Instant::now() + PATIENCE;
    let running = async || validator.operator().get::<ServerStatus>("/status").await.unwrap().challenges;
    // The records can neither be read at all times, for the facts that the verdict needs, nor written.
    while running().await.iter().all(|challenge| challenge.phase != "verdict") {
        assert!(Instant::now() < until, "no verdict is reached");
        tokio::time::sleep(NAP).await;
    }
    validator.daemon.terminate();
    let line = validator.daemon.wait_for("a verdict is not in the records");
    let verdict: Value = serde_json::from_str(line["verdict"].as_str().unwrap()).unwrap();
    assert_eq!((&verdict["outcome"], &verdict["miner_key"]), (&"pass".into(), &miner.key.to_string().into()));
    assert_eq!(validator.daemon.wait().code(), Some(74));
    drop(challenge);
}

/// A follower of verdicts, whose lines go into a file.
struct Follower(Child);

impl Follower {
    fn start(validator: &TestValidator, file: &Path, more: &[&str]) -> Self {
        let mut command = daemon::command("assay-validator");
        command.args(arguments(validator, &[&["--follow"][..], more].concat()));
        Self(command.stdout(File::create(file).unwrap()).stderr(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// The lines of a file, once there are `count` of them.
async fn lines(file: &Path, count: usize) -> Vec<Value> {
    let until = Instant::now() + PATIENCE;
    loop {
        let text = fs::read_to_string(file).unwrap();
        if text.lines().count() >= count && text.ends_with('\n') {
            return text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        }
        assert!(Instant::now() < until, "not so many lines: {text}");
        tokio::time::sleep(NAP).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_verdict_is_followed_once_and_in_order_over_a_restart_of_the_validator() {
    let folder = tempfile::tempdir().unwrap();
    let (log, resumed) = (folder.path().join("log"), folder.path().join("resumed"));
    let mut validator = TestValidator::start(&Policy::default()).await;
    let miner = TestMiner::start(validator.address, 1, &[]);
    let mut given = Vec::new();
    let mut challenge = async |validator: &TestValidator| {
        validator.wait_for_miner(miner.key, true).await;
        let challenge = validator.ask(miner.key, Some(Mode::Audit)).await.unwrap();
        given.push(Value::from(challenge.id.to_string()));
        challenge.ruling().await.unwrap().expect_pass();
    };
    challenge(&validator).await;
    let _follower = Follower::start(&validator, &log, &[]);
    lines(&log, 1).await;
    challenge(&validator).await;
    lines(&log, 2).await;
    validator.daemon.kill();
    validator.restart().await;
    challenge(&validator).await;
    let found = lines(&log, 3).await;
    let challenges = |lines: &[Value]| lines.iter().map(|line| line["challenge"].clone()).collect::<Vec<_>>();
    assert_eq!(challenges(&found), given);
    assert!(found.iter().all(|line| line["verdict"]["outcome"] == line["outcome"] && line["receipts"].is_array()));
    // Where a file ends, another follower goes on.
    let after = format!("--after={}", found[0]["sequence"]);
    let _another = Follower::start(&validator, &resumed, &[&after]);
    assert_eq!(lines(&resumed, 2).await, found[1..]);
}
