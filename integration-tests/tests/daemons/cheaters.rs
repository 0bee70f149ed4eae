//! A dishonest miner against a real validator, where connections, memory or time matter: all other lies are in
//! `simulation/cheaters`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use assay_integration_tests::daemon::PATIENCE;
use assay_integration_tests::dishonest::{Disguise, DishonestMiner, Lies, ProbeLie, WorkLie, rewrite};
use assay_integration_tests::stage::Stage;
use assay_integration_tests::validator::{Policy, TestValidator};
use assay_protocol::message::{MinerMessage, OpeningsChunk, OpeningsPart, Stop, StopCode, ValidatorMessage};
use assay_protocol::verdict::{Mode, ReasonCode};

/// Sessions that send too much at the same time.
const LONG_SESSIONS: u8 = 16;
/// Bound of a session's memory: a window of 8 MiB, a message that is read and one that is judged.
const SESSION_BYTES: u64 = 16 << 20;
/// Bound of the memory that a validator keeps of ended sessions.
const KEPT_BYTES: u64 = 1 << 20;

/// "Device lost", as soon as the drawn positions are known.
fn breaks_off(lies: &Lies) {
    lies.in_what_goes_out(|message| match message {
        MinerMessage::OpeningsChunk(chunk) => vec![MinerMessage::Abort(Stop {
            challenge_id: chunk.challenge_id,
            code: StopCode::DeviceLost,
            detail: "a test".into(),
        })],
        other => vec![other],
    });
}

/// A broken connection counts like an abort, also over several sessions.
#[tokio::test(flavor = "multi_thread")]
async fn connections_broken_after_positions_were_named() {
    let validator = TestValidator::start(&Policy::default()).await;
    for round in 1..=3 {
        let miner = DishonestMiner::connect(validator.address, &Disguise::new(&[14])).await;
        validator.wait_for_miner(miner.key, true).await;
        // The openings never come.
        miner.lies.in_what_goes_out(|message| match message {
            MinerMessage::OpeningsChunk(_) => Vec::new(),
            other => vec![other],
        });
        let mut challenge = validator.ask(miner.key, Some(Mode::Audit)).await.unwrap();
        challenge.wait_for_phase("openings").await;
        miner.vanish();
        let expected = if round < 3 { ReasonCode::Abandoned } else { ReasonCode::AbandonedRepeatedly };
        challenge.ruling().await.unwrap().expect(expected);
        validator.wait_for_miner(miner.key, false).await;
    }
}

/// A new connection does not lead to another draw.
#[tokio::test(flavor = "multi_thread")]
async fn no_challenge_on_connecting_after_an_abandoned_one() {
    let flags = vec!["--challenge-on-connect=true".to_owned(), "--challenge-interval-s=600".to_owned()];
    let mut validator = TestValidator::start(&Policy { flags, ..Policy::default() }).await;
    let miner = DishonestMiner::connect(validator.address, &Disguise::new(&[14])).await;
    breaks_off(&miner.lies);
    validator.daemon.wait_for("abandoned");
    drop(miner);
    let miner = DishonestMiner::connect(validator.address, &Disguise::new(&[14])).await;
    validator.wait_for_miner(miner.key, true).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let started = validator.daemon.log().iter().filter(|line| line.contains("challenge started")).count();
    assert_eq!(started, 1, "{:#?}", validator.daemon.log());
    // Another one is challenged as ever, and an operator may ask.
    let disguise = Disguise { seed: 2, first_device: 2, ..Disguise::new(&[14]) };
    let other = DishonestMiner::connect(validator.address, &disguise).await;
    validator.daemon.wait_for("\"pass\"");
    validator.challenge(miner.key, Some(Mode::Audit)).await.unwrap().expect_pass();
    drop(other);
}

/// A miner that gives up is as late as one whose answer comes too late.
#[tokio::test(flavor = "multi_thread")]
async fn work_and_probes_beyond_their_deadlines() {
    let policy = Policy { commit_deadline_s: 2, probe_deadline_ms: 2000, ..Policy::default() };
    let stage = Stage::new(&policy, &[14]).await;
    let time = Duration::from_secs(30);
    stage.miner.lies.in_work(WorkLie::Slow(time));
    stage.challenge(Mode::Replay).await.expect(ReasonCode::CommitmentLate);
    stage.miner.lies.stop();
    stage.miner.lies.in_probe(ProbeLie::Slow(time));
    stage.challenge(Mode::Audit).await.expect(ReasonCode::ProbeLate);
    stage.miner.lies.stop();
    stage.challenge(Mode::Audit).await.expect_pass();
}

/// As many segments as were drawn, of 4 MB each: a session that kept them until the item's end kept 128 MB.
#[tokio::test(flavor = "multi_thread")]
async fn segments_of_too_many_lines_in_many_sessions() {
    // All miners are in this process, which is busy for seconds with what they send.
    let validator = TestValidator::start(&Policy { ping_interval_ms: 10_000, ..Policy::default() }).await;
    let mut miners = Vec::new();
    for i in 0..LONG_SESSIONS {
        let disguise = Disguise { seed: 1 + i, first_device: 1 + i, ..Disguise::new(&[14]) };
        let miner = DishonestMiner::connect(validator.address, &disguise).await;
        validator.wait_for_miner(miner.key, true).await;
        validator.challenge(miner.key, Some(Mode::Audit)).await.unwrap().expect_pass();
        miner.lies.in_what_goes_out(rewrite::each(|message| {
            if let MinerMessage::OpeningsChunk(OpeningsChunk { part: OpeningsPart::Segment(segment), .. }) = message {
                let mut line = segment.lines[0].clone();
                line.bytes.resize(3900, 1);
                segment.lines = vec![line; 1000];
            }
        }));
        miners.push(miner);
    }
    let before = validator.daemon.memory();
    let mut challenges = Vec::new();
    for miner in &miners {
        challenges.push(validator.ask(miner.key, Some(Mode::Audit)).await.unwrap());
    }
    let mut rulings = Vec::new();
    for challenge in challenges {
        rulings.push(challenge.ruling().await.unwrap());
    }
    let most = before.peak_bytes + u64::from(LONG_SESSIONS) * SESSION_BYTES;
    let peak = validator.daemon.memory().peak_bytes;
    assert!(peak <= most, "{peak} bytes were in use at once, {most} may be");
    for ruling in rulings {
        ruling.expect(ReasonCode::ResidencyRows);
    }
    drop(miners);
    let until = Instant::now() + PATIENCE;
    while validator.daemon.memory().now_bytes > before.now_bytes + KEPT_BYTES {
        assert!(Instant::now() < until, "{:?} after {before:?}", validator.daemon.memory());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// A miner that has opened everything is not needed for the verdict, and gets it while its other half is open.
#[tokio::test(flavor = "multi_thread")]
async fn a_stream_half_closed_behind_the_last_opening() {
    let mut stage = Stage::new(&Policy { max_matrices: 40, ..Policy::default() }, &[60]).await;
    stage.challenge(Mode::Replay).await.expect_pass();
    let heard = Arc::new(AtomicBool::new(false));
    let verdict = heard.clone();
    stage.miner.lies.in_what_comes_in(move |message| {
        verdict.fetch_or(matches!(message, ValidatorMessage::Verdict(_)), Ordering::SeqCst);
        message
    });
    stage.miner.lies.in_half_closing();
    let ruling = stage.challenge(Mode::Replay).await;
    assert!(ruling.expect_pass().phases.iter().any(|phase| phase == "replay"));
    let _ = stage.miner.ended().await;
    assert!(heard.load(Ordering::SeqCst), "the miner hears the verdict");
}

/// A link of 15 kB/s between the devices of a host that is two: the walk is right, and says how slow the link is.
#[tokio::test(flavor = "multi_thread")]
async fn a_device_behind_a_slow_link() {
    let flags = [
        "--policy-fields=linked_probe=true",
        "--policy-fields=linked_expect_gb_per_s=0.01",
        "--policy-fields=linked_min_gb_per_s=0.00003",
    ];
    let flags = flags.map(str::to_owned).to_vec();
    let stage = Stage::new(&Policy { max_matrices: 22, flags, ..Policy::default() }, &[5, 9, 20]).await;
    stage.challenge(Mode::Audit).await.expect_pass();
    stage.miner.lies.behind_a_link(15_000);
    let ruling = stage.challenge(Mode::Audit).await;
    ruling.expect(ReasonCode::LinkSlow);
    let link = ruling.verdict.link.as_ref().expect("it was walked");
    assert!(link.gb_per_s < 0.00003, "{link:?}");
    stage.miner.lies.stop();
    stage.challenge(Mode::Audit).await.expect_pass();
}
