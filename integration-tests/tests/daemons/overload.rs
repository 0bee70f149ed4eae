//! A validator that is overloaded: no miner fails for it, and requests beyond its capacity are refused or wait.

use std::time::Duration;

use assay_api::ProblemCode;
use assay_integration_tests::daemon::PATIENCE;
use assay_integration_tests::dialled;
use assay_integration_tests::dishonest::{Disguise, DishonestMiner, WorkLie};
use assay_integration_tests::miner::TestMiner;
use assay_integration_tests::raw::{Line, dial, encoded, hello};
use assay_integration_tests::stage::Stage;
use assay_integration_tests::validator::{Policy, TestValidator};
use assay_protocol::identity::Identity;
use assay_protocol::message::{MinerMessage, RefusedCode, ValidatorMessage};
use assay_protocol::verdict::{Mode, ReasonCode};
use tokio::io::AsyncReadExt;
use tokio::task::JoinSet;

/// An address of this machine that dials too often.
const BUSY: [u8; 4] = [127, 0, 0, 3];

/// As many challenges run at once as may; the others come after them, and an operator's is refused meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn challenges_take_turns() {
    let flags = vec!["--max-challenges=1".to_owned()];
    let policy = Policy { flags, challenge_on_connect: true, ..Policy::default() };
    let mut validator = TestValidator::start(&policy).await;
    let miners = [1, 2, 3].map(|_| TestMiner::start(validator.address, 1, &[]));
    let (mut running, mut passed) = (0, 0);
    while passed < miners.len() {
        let line = validator.daemon.wait_for("\"challenge\":");
        match line["message"].as_str() {
            Some("challenge started") => running += 1,
            Some("pass") => (running, passed) = (running - 1, passed + 1),
            _ => {}
        }
        assert!(running <= 1, "{line}");
    }
    let slow = DishonestMiner::connect(validator.address, &Disguise::new(&[14])).await;
    slow.lies.in_work(WorkLie::Slow(Duration::from_secs(60)));
    validator.daemon.wait_for("challenge started");
    let refused = validator.challenge(miners[0].key, Some(Mode::Audit)).await.unwrap_err();
    assert_eq!(refused.code(), Some(ProblemCode::Overloaded), "{refused}");
    drop(slow);
    validator.daemon.wait_for("disconnected");
    validator.challenge(miners[0].key, Some(Mode::Audit)).await.unwrap().expect_pass();
}

/// The commitment comes in time and is read too late.
#[tokio::test(flavor = "multi_thread")]
async fn a_validator_that_was_held_up_fails_nobody_for_it() {
    let policy = Policy { commit_deadline_s: 5, ping_interval_ms: 60_000, ..Policy::default() };
    let mut stage = Stage::new(&policy, &[14]).await;
    stage.miner.lies.in_work(WorkLie::Slow(Duration::from_secs(2)));
    let (asked, mut heard) = tokio::sync::mpsc::unbounded_channel();
    stage.miner.lies.in_what_comes_in(move |message| {
        if matches!(message, ValidatorMessage::Challenge(_)) {
            // The test may have ended.
            let _ = asked.send(());
        }
        message
    });
    let running = stage.validator.ask(stage.miner.key, Some(Mode::Audit)).await.unwrap();
    heard.recv().await.expect("the challenge comes");
    stage.validator.daemon.hold_up(Duration::from_secs(6));
    running.ruling().await.unwrap().expect(ReasonCode::ValidatorOverloaded);
    // A miner that is late through its own fault fails, also where the validator was held up long before.
    stage.miner.lies.in_work(WorkLie::Slow(Duration::from_secs(15)));
    let mut ruling = None;
    // Near the deadline this machine itself may hold it up, but not each time.
    for _ in 0..3 {
        let running = stage.validator.ask(stage.miner.key, Some(Mode::Audit)).await.unwrap();
        heard.recv().await.expect("the challenge comes");
        stage.validator.daemon.hold_up(Duration::from_millis(500));
        let of_this = ruling.insert(running.ruling().await.unwrap());
        if of_this.verdict.reasons.iter().all(|reason| reason.code != ReasonCode::ValidatorOverloaded.name()) {
            break;
        }
    }
    ruling.expect("it was asked").expect(ReasonCode::CommitmentLate);
}

/// It reads the messages that its miner sent meanwhile after the time by which it takes a silent one for gone.
#[tokio::test(flavor = "multi_thread")]
async fn a_validator_that_stood_still_takes_no_miner_for_gone() {
    let policy = Policy { ping_interval_ms: 1000, ..Policy::default() };
    let mut stage = Stage::new(&policy, &[14]).await;
    stage.miner.lies.in_work(WorkLie::Slow(Duration::from_secs(60)));
    let running = stage.validator.ask(stage.miner.key, Some(Mode::Audit)).await.unwrap();
    stage.validator.daemon.wait_for("challenge started");
    stage.validator.daemon.hold_up(Duration::from_secs(8));
    let ruling = running.ruling().await.unwrap();
    ruling.expect(ReasonCode::ValidatorOverloaded);
}

/// An address that dials too often is refused with a time to come back, or closed at once; another one is served.
#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_dials_too_often_is_told_when_to_come_back() {
    let flags = vec!["--max-address-connects-per-s=1".to_owned()];
    let validator = TestValidator::start(&Policy { flags, ..Policy::default() }).await;
    let first = || encoded(MinerMessage::Hello(hello(&Identity::from_seed(&[7; 32]))));
    // More than the ten that are let in at once: some more are, while they dial.
    for _ in 0..13 {
        dial(validator.address, BUSY).await;
    }
    let line = Line::open(validator.address, BUSY).await;
    let mut miner = line.miner(first()).await.unwrap();
    let answer = tokio::time::timeout(PATIENCE, miner.hear()).await.unwrap();
    let Some(ValidatorMessage::Refused { code: RefusedCode::Overloaded, retry_after: Some(after), .. }) = answer else {
        panic!("it is told so: {answer:?}")
    };
    assert!(after >= Duration::from_secs(1), "{after:?}");
    let mut closed = 0_u32;
    let mut open = JoinSet::new();
    for _ in 0..40 {
        // It may be reset before the system says that it stands.
        match dialled::dial(validator.address, BUSY).await {
            Ok(mut stream) => drop(open.spawn(async move { matches!(stream.read(&mut [0]).await, Ok(0) | Err(_)) })),
            Err(_) => closed += 1,
        }
    }
    let until = tokio::time::Instant::now() + PATIENCE;
    while closed < 10 {
        let ended = tokio::time::timeout_at(until, open.join_next()).await.expect("ten of 40 are closed");
        closed += u32::from(ended.expect("one is open").unwrap());
    }
    let other = Line::open(validator.address, [127, 0, 0, 1]).await;
    let mut miner = other.miner(first()).await.unwrap();
    assert!(matches!(miner.hear().await, Some(ValidatorMessage::Welcome(_))));
}
