//! One miner and several validators: each has its session and its turn, and none disturbs another.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use assay_integration_tests::daemon::{Daemon, PATIENCE, run};
use assay_integration_tests::miner::TestMiner;
use assay_integration_tests::validator::{Policy, TestValidator};
use assay_protocol::verdict::{Mode, ReasonCode};
use serde_json::Value;

/// A miner of several validators.
fn miner_of(validators: &[SocketAddr], flags: &[&str]) -> TestMiner {
    let others = validators[1..].iter().map(|address| format!("--validator={address}")).collect::<Vec<_>>();
    let flags: Vec<_> = others.iter().map(String::as_str).chain(flags.iter().copied()).collect();
    TestMiner::start(validators[0], 1, &flags)
}

/// A policy of challenges one after the other, which asks again soon where the miner was busy.
fn back_to_back(iterations: u32) -> Policy {
    let flags = ["--challenge-interval-s=1", "--policy-fields=busy_retry=1s"].map(str::to_owned).to_vec();
    Policy { iterations, challenge_on_connect: true, flags, ..Policy::default() }
}

fn status(miner: &TestMiner) -> Value {
    let key = format!("--key-file={}", miner.file("miner.key").display());
    let output = run("assay-miner", ["status", "--json", &key]);
    serde_json::from_slice(&output.stdout).expect("the miner's status is JSON")
}

/// Waits until the status is as it is to be.
async fn wait_for_status(miner: &TestMiner, is: impl Fn(&Value) -> bool) -> Value {
    let until = Instant::now() + PATIENCE;
    loop {
        let shown = status(miner);
        if is(&shown["status"]) {
            return shown["status"].clone();
        }
        assert!(Instant::now() < until, "the status never is as waited for: {shown:#}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Waits for `passes` passes in a validator's log.
fn wait_for_passes(daemon: &mut Daemon, passes: usize) {
    for _ in 0..passes {
        daemon.wait_for("\"message\":\"pass\"");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_has_its_session_and_status_shows_both() {
    let (first, second) =
        (TestValidator::start(&Policy::default()).await, TestValidator::start(&Policy::default()).await);
    let miner = miner_of(&[first.address, second.address], &[]);
    for validator in [&first, &second] {
        validator.wait_for_miner(miner.key, true).await;
        validator.challenge(miner.key, Some(Mode::Audit)).await.unwrap().expect_pass();
    }
    let shown = wait_for_status(&miner, |status| status["verdicts"]["pass"] == 2).await;
    for (shown, validator) in shown["validators"].as_array().unwrap().iter().zip([&first, &second]) {
        assert_eq!(shown["address"], validator.address.to_string());
        assert_eq!(shown["connection"]["validator_key"], validator.key.to_string());
        assert!(shown["connection"]["connected_since"].is_u64(), "{shown:#}");
        assert_eq!((&shown["last_verdict"]["outcome"], &shown["verdicts"]["pass"]), (&"pass".into(), &1.into()));
    }
    assert_eq!(shown["validators"].as_array().unwrap().len(), 2);
}

/// The join token is for the first one alone: another one could use it in the miner's place.
#[tokio::test(flavor = "multi_thread")]
async fn the_join_token_is_shown_to_the_first_alone() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, format!("assay-join-{}", "0".repeat(64))).unwrap();
    // The first one is away. The second would refuse a token that it does not know.
    let (away, second) = ("127.0.0.1:9".parse().unwrap(), TestValidator::start(&Policy::default()).await);
    let miner = miner_of(&[away, second.address], &[&format!("--join-token-file={}", file.display())]);
    second.wait_for_miner(miner.key, true).await;
}

/// The second challenge is declined while the first runs, and the memory of the first one is right for all afterwards.
#[tokio::test(flavor = "multi_thread")]
async fn a_challenge_while_another_validators_runs_is_declined_as_busy() {
    let (first, second) =
        (TestValidator::start(&Policy::default()).await, TestValidator::start(&Policy::default()).await);
    let mut miner = miner_of(&[first.address, second.address], &["--idle-release-s=0"]);
    first.wait_for_miner(miner.key, true).await;
    second.wait_for_miner(miner.key, true).await;
    let offered = |miners: Vec<assay_api::MinerConnection>| miners[0].claimed_devices.clone();
    let before = offered(second.miners().await);
    let held = miner.daemon.hold_devices();
    let challenge = first.ask(miner.key, Some(Mode::Audit)).await.unwrap();
    miner.daemon.wait_for("\"message\":\"working\"");
    let busy = second.challenge(miner.key, Some(Mode::Audit)).await.unwrap();
    let detail = &busy.expect(ReasonCode::MinerBusy).verdict.reasons[0].detail;
    assert!(detail.contains("a challenge of another validator") && !detail.contains("127.0.0.1"), "{detail}");
    let line = miner.daemon.wait_for("declined a challenge");
    assert_eq!(line["validator"], second.address.to_string(), "{line}");
    assert_eq!(offered(second.miners().await), before, "memory that the other's challenge takes is not missing");
    drop(held);
    challenge.ruling().await.unwrap().expect_pass();
    // It was declined, so it is first.
    first.challenge(miner.key, Some(Mode::Audit)).await.unwrap().expect(ReasonCode::MinerBusy);
    let mut ruling = second.challenge(miner.key, Some(Mode::Audit)).await.unwrap();
    let until = Instant::now() + PATIENCE;
    // The devices are free a moment after the verdict is out.
    while ruling.verdict.reasons.iter().any(|reason| reason.detail.contains("a challenge of another validator")) {
        assert!(Instant::now() < until, "{:?}", ruling.verdict);
        ruling = second.challenge(miner.key, Some(Mode::Audit)).await.unwrap();
    }
    ruling.expect_pass();
    assert_eq!(offered(second.miners().await), before);
    // The devices are free a moment after the verdict is out.
    let until = Instant::now() + PATIENCE;
    let again = loop {
        let again = first.challenge(miner.key, Some(Mode::Audit)).await.unwrap();
        if again.verdict.reasons.is_empty() || Instant::now() > until {
            break again;
        }
    };
    again.expect_pass();
}

/// Both challenge on their own, again and again, and longer than their interval: each gets its turns.
#[tokio::test(flavor = "multi_thread")]
async fn two_that_challenge_all_the_time_both_get_their_turns() {
    let policy = back_to_back(100);
    let (mut first, mut second) = (TestValidator::start(&policy).await, TestValidator::start(&policy).await);
    let _miner = miner_of(&[first.address, second.address], &[]);
    wait_for_passes(&mut first.daemon, 2);
    wait_for_passes(&mut second.daemon, 2);
    let failed =
        [&mut first, &mut second].map(|v| v.daemon.log().iter().any(|line| line.contains("\"message\":\"fail\"")));
    assert_eq!(failed, [false; 2]);
}

/// One holds the devices with work without end, and lets the turns that are kept for it lapse; the other has its turns.
#[tokio::test(flavor = "multi_thread")]
async fn one_whose_challenges_never_end_starves_nobody() {
    let hostile = TestValidator::start(&Policy { challenge_on_connect: true, ..back_to_back(60_000) }).await;
    let mut honest = TestValidator::start(&back_to_back(1)).await;
    let _miner = miner_of(&[hostile.address, honest.address], &["--max-challenge-s=1"]);
    wait_for_passes(&mut honest.daemon, 3);
}

/// One is down, one refuses the key, one has another key than its miner expects: the last one is served.
#[tokio::test(flavor = "multi_thread")]
async fn one_that_is_down_and_one_that_refuses_do_not_disturb_the_third() {
    let flags = vec![format!("--allowed-miners={}", "ab".repeat(32))];
    let refuses = TestValidator::start(&Policy { flags, ..Policy::default() }).await;
    let serves = TestValidator::start(&Policy::default()).await;
    let gone = TestValidator::start(&Policy::default()).await;
    let down = gone.address;
    drop(gone);
    let others = [down, serves.address].map(|address| format!("--validator={address}"));
    let mut miner = TestMiner::start_pinned(&refuses, &[&others[0], &others[1]]);
    let line = miner.daemon.wait_for("not served any more");
    assert_eq!(line["validator"], refuses.address.to_string(), "{line}");
    serves.wait_for_miner(miner.key, true).await;
    serves.challenge(miner.key, Some(Mode::Audit)).await.unwrap().expect_pass();
    let shown = wait_for_status(&miner, |status| status["verdicts"]["pass"] == 1).await;
    let why = shown["validators"][0]["ended"]["why"].as_str().unwrap();
    assert!(why.contains("not on the validator's list"), "{why}");
    assert!(shown["validators"][1]["connection"]["last_error"].is_object(), "{shown:#}");
    miner.daemon.terminate();
    assert_eq!(miner.daemon.wait().code(), Some(0), "it served one of them, and drained");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_miner_that_all_refuse_ends_with_an_error_for_its_operator() {
    let flags = vec![format!("--allowed-miners={}", "ab".repeat(32))];
    let policy = Policy { flags, ..Policy::default() };
    let (first, second) = (TestValidator::start(&policy).await, TestValidator::start(&policy).await);
    let mut miner = TestMiner::start_pinned(&first, &[&format!("--validator={}#{}", second.address, second.key)]);
    assert_eq!(miner.daemon.wait().code(), Some(78));
    let log = miner.daemon.log().join("\n");
    assert!(log.contains("the miner can serve none of its validators"), "{log}");
}
