//! One daemon for a key: a second one with the same key file does not start, and two with copies of it do not take over
//! from each other for ever.

use std::path::Path;

use std::time::{Duration, Instant};

use assay_integration_tests::daemon::{Daemon, PATIENCE, run};
use assay_integration_tests::miner::TestMiner;
use assay_integration_tests::proxy::Proxy;
use assay_integration_tests::validator::{Policy, TestValidator};
use assay_protocol::verdict::Mode;

/// An address where no server listens.
const NOWHERE: &str = "--validator=127.0.0.1:9";

fn arguments(key_file: &Path) -> Vec<String> {
    let device = ["run", NOWHERE, "--backend=cpu", "--cpu-memory=8MiB", "--cpu-threads=1", "--telemetry=off"];
    device.map(str::to_owned).into_iter().chain([format!("--key-file={}", key_file.display())]).collect()
}

#[test]
fn a_second_miner_with_the_same_key_file_does_not_start() {
    let folder = tempfile::tempdir().unwrap();
    let key_file = folder.path().join("miner.key");
    let mut first = Daemon::start("assay-miner", &arguments(&key_file));
    first.wait_for("connecting again");
    // A second one that started would go on for ever.
    let mut second = Daemon::start("assay-miner", &arguments(&key_file));
    assert_eq!(second.wait().code(), Some(78));
    let said = second.wait_for("error: ").to_string();
    let process = format!("assay-miner, process {}, since 20", first.id());
    for part in [process.as_str(), " UTC", "stop that one first", "another --key-file"] {
        assert!(said.contains(part), "{part} in {said}");
    }
    // The first one goes on, and the lock file that it leaves when it is killed is no obstacle.
    first.kill();
    assert!(folder.path().join("miner.key.lock").exists());
    Daemon::start("assay-miner", &arguments(&key_file)).wait_for("connecting again");
}

/// Other commands read the key beside a miner that runs.
#[test]
fn the_lock_keeps_no_command_off() {
    let folder = tempfile::tempdir().unwrap();
    let key_file = folder.path().join("miner.key");
    let mut first = Daemon::start("assay-miner", &arguments(&key_file));
    first.wait_for("connecting again");
    let key = format!("--key-file={}", key_file.display());
    let devices = run("assay-miner", ["devices", "--backend=cpu", "--cpu-memory=8MiB", "--telemetry=off", &key]);
    assert_eq!(devices.status.code(), Some(0), "{devices:?}");
}

/// Root may write everywhere, so the lock file is a folder here.
#[test]
fn a_folder_that_cannot_hold_the_lock_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let key_file = folder.path().join("miner.key");
    std::fs::create_dir(folder.path().join("miner.key.lock")).unwrap();
    let mut miner = Daemon::start("assay-miner", &arguments(&key_file));
    assert_eq!(miner.wait().code(), Some(78));
    let said = miner.wait_for("error: ").to_string();
    assert!(said.contains("miner.key.lock") && said.contains("must be writable"), "{said}");
}

/// The one that another daemon takes over from stays away for minutes, and says why: two never take over from each
/// other all the time.
#[tokio::test(flavor = "multi_thread")]
async fn of_two_miners_with_copies_of_a_key_the_second_one_stays() {
    let validator = TestValidator::start(&Policy::default()).await;
    let mut first = TestMiner::start(validator.address, 1, &[]);
    validator.wait_for_miner(first.key, true).await;
    let mut second = TestMiner::start_as(validator.address, &first.file("miner.key"), &[]);
    assert_eq!(second.key, first.key);
    let said = first.daemon.wait_for("took over").to_string();
    for part in ["another session of this key, from 127.0.0.1:", "took over", "give each a key of its own"] {
        assert!(said.contains(part), "{part} in {said}");
    }
    first.daemon.wait_for("connecting again");
    second.daemon.wait_for("connected: waiting for challenges");
    validator.challenge(second.key, Some(Mode::Audit)).await.unwrap().expect_pass();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_challenge_is_not_ended_by_a_second_miner_with_its_key() {
    let validator = TestValidator::start(&Policy::default()).await;
    let mut first = TestMiner::start(validator.address, 1, &[]);
    validator.wait_for_miner(first.key, true).await;
    let held = first.daemon.hold_devices();
    let running = validator.ask(first.key, Some(Mode::Audit)).await.unwrap();
    first.daemon.wait_for("working");
    let mut second = TestMiner::start_as(validator.address, &first.file("miner.key"), &[]);
    // It is refused, and tries again.
    let said = second.daemon.wait_for("a challenge of this key is under way in another session").to_string();
    assert!(said.contains("127.0.0.1:") && said.contains("give each a key of its own"), "{said}");
    second.daemon.wait_for("connecting again");
    drop(held);
    running.ruling().await.unwrap().expect_pass();
    // Now it takes over, and the first one stays away.
    second.daemon.wait_for("connected: waiting for challenges");
    first.daemon.wait_for("took over");
}

/// A miner whose own connection broke is not a second miner: it takes its place again and goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_miner_that_connects_again_ends_nothing() {
    let validator = TestValidator::start(&Policy { ping_interval_ms: 500, ..Policy::default() }).await;
    let proxy = Proxy::start(validator.address).await;
    let mut miner = TestMiner::start(proxy.address, 1, &[]);
    validator.wait_for_miner(miner.key, true).await;
    for _ in 0..3 {
        miner.daemon.wait_for("connected: waiting for challenges");
        // The validator still has the old session when the new one comes.
        proxy.cut();
    }
    miner.daemon.wait_for("connected: waiting for challenges");
    validator.challenge(miner.key, Some(Mode::Audit)).await.unwrap().expect_pass();
    // A validator that was away finds it too.
    let mut validator = validator;
    validator.daemon.kill();
    validator.restart().await;
    validator.wait_for_miner(miner.key, true).await;
}

/// Cut off in a challenge and started again, it knows nothing of its session: it is refused until the validator has
/// noticed, and then served again.
#[tokio::test(flavor = "multi_thread")]
async fn a_miner_started_again_in_a_challenge_comes_back() {
    let policy = Policy { iterations: 60_000, ping_interval_ms: 5000, ..Policy::default() };
    let validator = TestValidator::start(&policy).await;
    let proxy = Proxy::start(validator.address).await;
    let mut miner = TestMiner::start(proxy.address, 1, &[]);
    validator.wait_for_miner(miner.key, true).await;
    let running = validator.ask(miner.key, Some(Mode::Audit)).await.unwrap();
    miner.daemon.wait_for("working");
    proxy.cut();
    miner.restart();
    miner.daemon.wait_for("a challenge of this key is under way in another session");
    running.ruling().await.unwrap();
    miner.daemon.wait_for("connected: waiting for challenges");
    let until = Instant::now() + PATIENCE;
    while validator.ask(miner.key, Some(Mode::Audit)).await.is_err() {
        assert!(Instant::now() < until, "it is never challenged again");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// The proof of a connection that it lost comes late: its own old session takes over from its new one.
#[tokio::test(flavor = "multi_thread")]
async fn a_miner_that_takes_over_from_itself_goes_on() {
    let validator = TestValidator::start(&Policy { ping_interval_ms: 5000, ..Policy::default() }).await;
    let proxy = Proxy::start_slow(validator.address).await;
    let mut miner = TestMiner::start(proxy.address, 1, &[]);
    miner.daemon.wait_for("connected: waiting for challenges");
    miner.daemon.wait_for("another session of this key");
    miner.daemon.wait_for("connected: waiting for challenges");
    validator.challenge(miner.key, Some(Mode::Audit)).await.unwrap().expect_pass();
}
