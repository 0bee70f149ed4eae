//! The verdict log: whole lines or none, on disk before anyone hears of a verdict, whatever happens to the disk.

use std::fs;
use std::path::Path;
use std::time::Duration;

use assay_api::ProblemCode;
use assay_integration_tests::daemon;
use assay_integration_tests::miner::TestMiner;
use assay_integration_tests::validator::{Policy, TestValidator};
use assay_protocol::verdict::Mode;
use serde_json::Value;
use tempfile::TempDir;
use tonic::transport::Endpoint;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

/// The services whose health is reported; the first is the server as a whole.
const SERVICES: [&str; 2] = ["", "assay.v1.SessionService"];

/// A folder for logs, and the policy of a validator whose verdict log is `log` there.
/// What the verdict log has from before. A limit to the size of files that it reaches leaves room for the records.
const BEFORE_BYTES: usize = 8 << 20;

fn logged() -> (TempDir, Policy) {
    let folder = tempfile::tempdir().unwrap();
    let flags = vec![format!("--verdict-log={}", folder.path().join("log").display())];
    // Short, so that a session would end soon that is held up.
    (folder, Policy { flags, ping_interval_ms: 100, ..Policy::default() })
}

/// The lines of a file, each of which is whole.
fn lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    assert!(text.is_empty() || text.ends_with('\n'), "the last line is whole: {text}");
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

/// The verdicts among the lines of a file, by challenge.
fn verdicts(path: &Path) -> Vec<String> {
    let ids = lines(path).into_iter().filter_map(|line| line["challenge_id"].as_str().map(str::to_owned));
    ids.collect()
}

async fn wait_for_health(validator: &TestValidator, expected: ServingStatus) {
    let endpoint = Endpoint::from_shared(format!("http://{}", validator.address)).unwrap();
    let mut client = HealthClient::new(endpoint.connect().await.unwrap());
    for service in SERVICES {
        loop {
            let answer = client.check(HealthCheckRequest { service: service.into() }).await.unwrap().into_inner();
            if answer.status() == expected {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_torn_line_is_kept_aside_at_start_and_glued_to_nothing() {
    let (folder, policy) = logged();
    let log = folder.path().join("log");
    fs::write(&log, "{\"challenge_id\":\"first\"}\n{\"challenge_id\":\"tor").unwrap();
    let mut validator = TestValidator::start(&policy).await;
    let said = validator.daemon.log().iter().find(|line| line.contains("the torn end was moved")).cloned();
    let said: Value = serde_json::from_str(&said.expect("a warning")).unwrap();
    let kept = said["kept"].as_str().unwrap();
    assert!(kept.starts_with(&format!("{}.torn-", log.display())), "{kept}");
    assert_eq!(fs::read_to_string(kept).unwrap(), "{\"challenge_id\":\"tor");
    let miner = TestMiner::start(validator.address, 1, &[]);
    validator.wait_for_miner(miner.key, true).await;
    validator.challenge(miner.key, Some(Mode::Audit)).await.unwrap().expect_pass();
    // Killed as soon as the verdict is known: the line is there.
    validator.daemon.kill();
    let found = verdicts(&log);
    assert_eq!((found.len(), found[0].as_str()), (2, "first"));
}

/// The disk takes a part of the line, then nothing, then has room again.
#[tokio::test(flavor = "multi_thread")]
async fn no_verdict_is_lost_on_a_full_disk_and_none_is_given_out_before_it_is_written() {
    let (folder, policy) = logged();
    let log = folder.path().join("log");
    fs::write(&log, format!("{{\"before\":\"{}\"}}\n", "x".repeat(BEFORE_BYTES))).unwrap();
    let mut validator = TestValidator::start(&policy).await;
    let mut miner = TestMiner::start(validator.address, 1, &[]);
    validator.wait_for_miner(miner.key, true).await;
    validator.challenge(miner.key, Some(Mode::Audit)).await.unwrap().expect_pass();
    wait_for_health(&validator, ServingStatus::Serving).await;
    miner.daemon.wait_for("verdict: pass");
    let whole = fs::metadata(&log).unwrap().len();

    validator.daemon.limit_file_bytes(Some(whole + 100));
    let challenge = validator.ask(miner.key, Some(Mode::Audit)).await.unwrap();
    let ruling = tokio::spawn(challenge.ruling());
    let error = validator.daemon.wait_for("verdicts cannot be written");
    assert!(error["error"].as_str().unwrap().contains("File too large"), "{error}");
    wait_for_health(&validator, ServingStatus::NotServing).await;
    let refused = validator.ask(miner.key, Some(Mode::Audit)).await.unwrap_err();
    assert_eq!(refused.code(), Some(ProblemCode::NotPossible), "{refused}");
    // Longer than the session would live if it were held up.
    tokio::time::sleep(Duration::from_secs(2)).await;
    validator.wait_for_miner(miner.key, true).await;
    assert!(!ruling.is_finished(), "nobody has the verdict yet");
    let heard = miner.daemon.log().iter().filter(|line| line.contains("verdict: ")).count();
    assert_eq!(heard, 1, "not even the miner");
    let text = fs::read(&log).unwrap();
    assert!(text.len() as u64 <= whole + 100 && text[..whole as usize].ends_with(b"}\n"));

    validator.daemon.limit_file_bytes(None);
    ruling.await.unwrap().unwrap().expect_pass();
    wait_for_health(&validator, ServingStatus::Serving).await;
    miner.daemon.wait_for("verdict: pass");
    validator.challenge(miner.key, Some(Mode::Audit)).await.unwrap().expect_pass();
    let mut found = verdicts(&log);
    assert_eq!(found.len(), 3);
    found.dedup();
    assert_eq!(found.len(), 3, "each once");
}

/// A miner that is challenged while nothing can be written is asked again later, and a validator that has to end says
/// what it could not write.
#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_written_at_the_end_is_in_the_programs_log() {
    let flags = vec!["--verdict-log=/dev/full".to_owned(), "--drain-timeout-s=0".to_owned()];
    let mut validator = TestValidator::start(&Policy { flags, ..Policy::default() }).await;
    let miner = TestMiner::start(validator.address, 1, &[]);
    validator.wait_for_miner(miner.key, true).await;
    let challenge = validator.ask(miner.key, Some(Mode::Audit)).await.unwrap();
    validator.daemon.wait_for("verdicts cannot be written");
    let refused = validator.ask(miner.key, None).await.unwrap_err();
    let why = refused.to_string();
    assert!(why.contains("/dev/full") && why.contains("No space left"), "{why}");
    validator.daemon.terminate();
    let line = validator.daemon.wait_for("this verdict is not in the verdict log");
    let verdict: Value = serde_json::from_str(line["verdict"].as_str().unwrap()).unwrap();
    assert_eq!((&verdict["outcome"], &verdict["miner_key"]), (&"pass".into(), &miner.key.to_string().into()));
    assert_eq!(validator.daemon.wait().code(), Some(74));
    drop(challenge);
}

/// As logrotate does it.
#[tokio::test(flavor = "multi_thread")]
async fn a_renamed_log_is_opened_anew_on_sighup() {
    let (folder, policy) = logged();
    let (log, old) = (folder.path().join("log"), folder.path().join("log.1"));
    let mut validator = TestValidator::start(&policy).await;
    let miner = TestMiner::start(validator.address, 1, &[]);
    validator.wait_for_miner(miner.key, true).await;
    let challenge = async || validator.challenge(miner.key, Some(Mode::Audit)).await.unwrap().expect_pass().clone();
    challenge().await;
    fs::rename(&log, &old).unwrap();
    challenge().await;
    assert_eq!(verdicts(&old).len(), 2);
    validator.daemon.hang_up();
    validator.daemon.wait_for("opened anew");
    validator.challenge(miner.key, Some(Mode::Audit)).await.unwrap().expect_pass();
    assert_eq!((verdicts(&old).len(), verdicts(&log).len()), (2, 1));
    // What is known of devices goes on too.
    let head = &lines(&log)[0];
    assert_eq!(head["miner_key"], miner.key.to_string());
    assert_eq!(head["known_devices"].as_array().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_validators_do_not_write_one_log() {
    let (folder, policy) = logged();
    let _first = TestValidator::start(&policy).await;
    let log = folder.path().join("log").display().to_string();
    let own = |name: &str| folder.path().join(name).display().to_string();
    let second = daemon::run(
        "assay-validator",
        [
            "serve".to_owned(),
            "--listen=127.0.0.1:0".to_owned(),
            "--mode=audit".to_owned(),
            "--backend=cpu".to_owned(),
            "--cpu-memory=8MiB".to_owned(),
            format!("--key-file={}", own("key")),
            format!("--control-socket={}", own("socket")),
            format!("--verdict-log={log}"),
        ],
    );
    assert_eq!(second.status.code(), Some(78));
    let said = String::from_utf8_lossy(&second.stderr);
    assert!(said.contains(&log) && said.contains("give each validator a file of its own (verdict_log)"), "{said}");
}
