//! Daemons that start, drain, stop, come back, and refuse.

use assay_integration_tests::daemon;
use assay_integration_tests::miner::TestMiner;
use assay_integration_tests::validator::{Policy, TestValidator};
use assay_protocol::verdict::{Mode, ReasonCode};
use assay_work::PublicKey;

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_miner_drains_at_once() {
    let (validator, mut miner) = TestMiner::with_validator(&Policy::default(), 1, &[]).await;
    miner.daemon.terminate();
    assert_eq!(miner.daemon.wait().code(), Some(0));
    validator.wait_for_miner(miner.key, false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_miner_ends_its_challenge_before_it_drains() {
    let (validator, mut miner) = TestMiner::with_validator(&Policy::default(), 1, &[]).await;
    let held = miner.daemon.hold_devices();
    let challenge = validator.ask(miner.key, Some(Mode::Audit)).await.unwrap();
    miner.daemon.wait_for("working");
    miner.daemon.terminate();
    miner.daemon.wait_for("draining");
    drop(held);
    challenge.ruling().await.unwrap().expect_pass();
    assert_eq!(miner.daemon.wait().code(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_validator_drains_at_once_and_takes_its_socket_with_it() {
    let (mut validator, _miner) = TestMiner::with_validator(&Policy::default(), 1, &[]).await;
    validator.daemon.terminate();
    assert_eq!(validator.daemon.wait().code(), Some(0));
    assert!(!validator.socket.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_validator_ends_its_challenges_before_it_drains() {
    let (mut validator, mut miner) = TestMiner::with_validator(&Policy::default(), 1, &[]).await;
    let held = miner.daemon.hold_devices();
    let challenge = validator.ask(miner.key, Some(Mode::Audit)).await.unwrap();
    miner.daemon.wait_for("working");
    validator.daemon.terminate();
    validator.daemon.wait_for("draining");
    drop(held);
    challenge.ruling().await.unwrap().expect_pass();
    assert_eq!(validator.daemon.wait().code(), Some(0));
}

/// A challenge that the time to drain cuts short is no miner's failure.
#[tokio::test(flavor = "multi_thread")]
async fn a_validator_that_may_not_wait_stops_its_challenges() {
    let policy = Policy { iterations: 30_000, flags: vec!["--drain-timeout-s=0".into()], ..Policy::default() };
    let (mut validator, mut miner) = TestMiner::with_validator(&policy, 1, &[]).await;
    let challenge = validator.ask(miner.key, Some(Mode::Audit)).await.unwrap();
    miner.daemon.wait_for("working");
    validator.daemon.terminate();
    challenge.ruling().await.unwrap().expect(ReasonCode::ValidatorDraining);
    assert_eq!(validator.daemon.wait().code(), Some(75), "a challenge was cut short");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_miner_comes_back_when_its_validator_does() {
    let (mut validator, miner) = TestMiner::with_validator(&Policy::default(), 1, &[]).await;
    validator.challenge(miner.key, Some(Mode::Audit)).await.unwrap().expect_pass();
    // Once by its own wish, once without a word.
    validator.daemon.terminate();
    validator.restart().await;
    validator.wait_for_miner(miner.key, true).await;
    validator.challenge(miner.key, Some(Mode::Audit)).await.unwrap().expect_pass();
    validator.daemon.kill();
    validator.restart().await;
    validator.wait_for_miner(miner.key, true).await;
    validator.challenge(miner.key, Some(Mode::Audit)).await.unwrap().expect_pass();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_miner_serves_the_validator_that_it_is_told_to_and_no_other() {
    let validator = TestValidator::start(&Policy::default()).await;
    let at = |key: PublicKey| TestMiner::start_at(&format!("{}#{key}", validator.address), &[], Vec::new());
    let right = at(validator.key);
    validator.wait_for_miner(right.key, true).await;
    let other = PublicKey([0x42; 32]);
    let mut wrong = at(other);
    assert_eq!(wrong.daemon.wait().code(), Some(78), "only its operator can mend that");
    let said = wrong.daemon.log().join("\n");
    assert!(said.contains(&validator.key.to_string()) && said.contains(&other.to_string()), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_miner_that_is_not_on_the_list_ends() {
    let flags = vec![format!("--allowed-miners={}", PublicKey([0x42; 32]))];
    let validator = TestValidator::start(&Policy { flags, ..Policy::default() }).await;
    let mut miner = TestMiner::start_pinned(&validator, &[]);
    assert_eq!(miner.daemon.wait().code(), Some(78));
    assert!(miner.daemon.log().join("\n").contains("not on the validator's list"));
    // In plaintext any program on this machine could say so, and it dials again.
    let mut miner = TestMiner::start(validator.address, 1, &[]);
    for _ in 0..3 {
        miner.daemon.wait_for("not on the validator's list");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_taken_is_not_taken_over() {
    let validator = TestValidator::start(&Policy::default()).await;
    let folder = tempfile::tempdir().unwrap();
    let key = format!("--key-file={}", folder.path().join("key").display());
    let taken = format!("--control-socket={}", validator.socket.display());
    let free = format!("--control-socket={}", folder.path().join("sock").display());
    let same = format!("--listen={}", validator.address);
    let cheap = "--backend=cpu --cpu-memory=8MiB --cpu-threads=1 --mode=audit";
    for (listen, socket) in [("--listen=127.0.0.1:0", &taken), (&same, &free)] {
        let arguments = ["serve", listen, socket, &key].into_iter().chain(cheap.split(' '));
        let second = daemon::run("assay-validator", arguments);
        assert_eq!(second.status.code(), Some(74), "{}", String::from_utf8_lossy(&second.stderr));
    }
    assert!(validator.miners().await.is_empty(), "the first one serves on");
}

/// Resident memory of a process, in bytes.
fn resident_bytes(process: i32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("the process runs");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("it has memory");
    1024 * line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).expect("a number of KiB")
}

/// Waits until a process holds no more than this.
async fn wait_until_at_most(process: i32, bytes: u64) {
    for _ in 0..600 {
        if resident_bytes(process) <= bytes {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    panic!("it still holds {} bytes, not {bytes}", resident_bytes(process));
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_is_kept_for_the_next_challenge_and_given_back_when_none_comes() {
    const SLOTS_BYTES: u64 = 48 << 20;
    let policy = Policy { n: 1024, max_matrices: 48, ..Policy::default() };
    let validator = TestValidator::start(&policy).await;
    let flags =
        |keeps: u32| ["--cpu-memory=80MiB".to_owned(), format!("--idle-release-s={keeps}"), "--log=debug".into()];
    for (keeps, is_kept) in [(0, false), (15, true)] {
        let flags = flags(keeps);
        let mut miner = TestMiner::start(validator.address, 1, &flags.each_ref().map(String::as_str));
        validator.wait_for_miner(miner.key, true).await;
        let worker = *miner.daemon.workers(1).values().next().expect("a worker");
        let before = resident_bytes(worker);
        for _ in 0..2 {
            validator.challenge(miner.key, Some(Mode::Audit)).await.unwrap().expect_pass();
        }
        if is_kept {
            assert!(resident_bytes(worker) >= before + SLOTS_BYTES, "it was given back before its time");
            miner.daemon.wait_for("releasing the devices' memory");
        }
        wait_until_at_most(worker, before + SLOTS_BYTES / 2).await;
    }
}
