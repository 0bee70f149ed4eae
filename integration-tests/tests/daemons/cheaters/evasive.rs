//! Miners that break off, wait or do not read where that could help them, and what they get for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use assay_integration_tests::daemon::PATIENCE;
use assay_integration_tests::dishonest::{Disguise, DishonestMiner, Lies, rewrite};
use assay_integration_tests::stage::Stage;
use assay_integration_tests::validator::{Policy, TestValidator};
use assay_protocol::message::{MinerMessage, OpeningsPart, Stop, StopCode, ValidatorMessage};
use assay_protocol::verdict::{Mode, Outcome, ReasonCode};
use assay_work::ChallengeId;

fn stop(challenge_id: ChallengeId) -> Stop {
    Stop { challenge_id, code: StopCode::DeviceLost, detail: "a test".into() }
}

/// "Device lost", as soon as it is known what would be checked.
fn breaks_off(lies: &Lies) {
    lies.in_what_goes_out(|message| match message {
        MinerMessage::OpeningsChunk(chunk) => vec![MinerMessage::Abort(stop(chunk.challenge_id))],
        other => vec![other],
    });
}

/// Three of a miner's last twenty challenges are too many; before that the verdicts say how many there were.
#[tokio::test(flavor = "multi_thread")]
async fn challenges_broken_off_after_positions_were_named() {
    let stage = Stage::with_one_device().await;
    for count in 1..=2 {
        breaks_off(&stage.miner.lies);
        let ruling = stage.challenge(Mode::Audit).await;
        let verdict = &ruling.expect(ReasonCode::Abandoned).verdict;
        assert_eq!((verdict.abandoned_recently, verdict.recent_challenges), (count, 2 * count - 1));
        let detail = &verdict.reasons[0].detail;
        assert!(detail.contains("device_sick") && detail.contains("a test"), "the miner's own words: {detail}");
        stage.miner.lies.stop();
        // Whoever could choose between draws passes more often: the bounds say so.
        let passed = stage.challenge(Mode::Audit).await;
        assert_eq!(passed.expect_pass().verdict.abandoned_recently, count);
        let bound = passed.verdict.work_bounds.iter().find(|bound| bound.fraction == 0.05).unwrap();
        let expected = 128.0 * 0.95_f64.log2() + f64::from(count + 1).log2();
        assert!((bound.log2_probability - expected).abs() < 1e-9, "{bound:?}, not {expected}");
    }
    breaks_off(&stage.miner.lies);
    stage.challenge(Mode::Audit).await.expect(ReasonCode::AbandonedRepeatedly);
}

/// A broken connection counts like an abort, also over several sessions.
#[tokio::test(flavor = "multi_thread")]
async fn connections_broken_after_positions_were_named() {
    let validator = TestValidator::start(&Policy::default()).await;
    for round in 1..=3 {
        let miner = DishonestMiner::connect(validator.address, &Disguise::new(&[14])).await;
        validator.wait_for_miner(miner.key, true).await;
        // Whatever is to be opened never comes.
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

/// Connecting again is no way to another draw.
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

/// Longer than roots and digests may take, whatever the round trips are.
const LAG: Duration = Duration::from_secs(8);

/// Slots could move while roots or digests are on their way, if that time were on no clock.
#[tokio::test(flavor = "multi_thread")]
async fn roots_and_digests_that_lag() {
    // The lag is no silence: that would be shorter.
    let stage = Stage::new(&Policy { ping_interval_ms: 5000, ..Policy::default() }, &[14]).await;
    let lag = |is_late: fn(&MinerMessage) -> bool| {
        rewrite::each(move |message| {
            if is_late(message) {
                // What was sent before goes out meanwhile.
                tokio::task::block_in_place(|| std::thread::sleep(LAG));
            }
        })
    };
    let roots: fn(&MinerMessage) -> bool = |message| matches!(message, MinerMessage::DeviceRoots(_));
    let digests: fn(&MinerMessage) -> bool = |message| matches!(message, MinerMessage::DeviceDigests(_));
    for (reason, is_late) in [(ReasonCode::RootsLate, roots), (ReasonCode::DigestsLate, digests)] {
        stage.catches(&[Mode::Audit], reason, |lies| lies.in_what_goes_out(lag(is_late))).await;
    }
    let verdict = stage.challenge(Mode::Audit).await.expect_pass().verdict.clone();
    assert!(verdict.roots_ms.unwrap() < 2000.0 && verdict.digests_ms.unwrap() < 2000.0, "{verdict:?}");
    assert!(verdict.handover_ms.unwrap() < 5000.0, "{verdict:?}");
}

/// The commitment's head binds the roots: the probe goes out without them.
#[tokio::test(flavor = "multi_thread")]
async fn the_probe_does_not_wait_for_roots() {
    let stage = Stage::with_one_device().await;
    let probed = Arc::new(AtomicBool::new(false));
    let seen = probed.clone();
    stage.miner.lies.in_what_comes_in(move |message| {
        seen.fetch_or(matches!(message, ValidatorMessage::Probe { .. }), Ordering::SeqCst);
        message
    });
    stage.miner.lies.in_what_goes_out(|message| match message {
        MinerMessage::DeviceRoots(_) | MinerMessage::ProbeAnswer(_) | MinerMessage::DeviceDigests(_) => Vec::new(),
        other => vec![other],
    });
    stage.challenge(Mode::Audit).await.expect(ReasonCode::RootsLate);
    assert!(probed.load(Ordering::SeqCst));
    // An answer before the roots that it rests on has no place.
    stage.miner.lies.in_what_goes_out(|message| match message {
        MinerMessage::DeviceRoots(_) => Vec::new(),
        other => vec![other],
    });
    stage.challenge(Mode::Audit).await.expect(ReasonCode::Protocol);
    stage.miner.lies.stop();
    stage.challenge(Mode::Audit).await.expect_pass();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_challenge_declined_after_the_commitment() {
    let stage = Stage::with_one_device().await;
    let declines = |lies: &Lies| {
        lies.in_what_goes_out(|message| match &message {
            MinerMessage::Commitment(commitment) => {
                let declined = MinerMessage::Declined(stop(commitment.challenge_id));
                vec![message, declined]
            }
            _ => vec![message],
        });
    };
    stage.catches(&[Mode::Audit], ReasonCode::Protocol, declines).await;
}

/// Chunks that were asked for arrive after the first wrong one has ended the challenge; the miner stays.
#[tokio::test(flavor = "multi_thread")]
async fn openings_in_flight_when_the_challenge_ends() {
    let policy = Policy { segments: 4, samples: 2048, ping_interval_ms: 60_000, ..Policy::default() };
    let stage = Stage::new(&policy, &[14]).await;
    stage.challenge(Mode::Audit).await.expect_pass();
    let sent = Arc::new(AtomicUsize::new(0));
    let counted = sent.clone();
    let mut is_first = true;
    stage.miner.lies.in_what_goes_out(rewrite::each(move |message| {
        let MinerMessage::OpeningsChunk(chunk) = message else { return };
        counted.fetch_add(1, Ordering::SeqCst);
        if let OpeningsPart::Segment(segment) = &mut chunk.part
            && std::mem::take(&mut is_first)
        {
            segment.lines[0].bytes[0] ^= 1;
        }
    }));
    // The verdict is slow to arrive: until then the miner sends what it was asked for.
    stage.miner.lies.in_what_comes_in(|mut message| {
        // The first challenge's verdict may still be on its way.
        if let ValidatorMessage::Verdict(verdict) = &mut message
            && verdict.outcome != Outcome::Pass
        {
            verdict.challenge_id = ChallengeId([0; 16]);
        }
        message
    });
    stage.challenge(Mode::Audit).await.expect(ReasonCode::ResidencyPath);
    let start = Instant::now();
    while sent.load(Ordering::SeqCst) < 2048 {
        assert!(start.elapsed() < PATIENCE, "the miner does not send all");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    let connected = stage.validator.miners().await;
    assert!(connected.iter().any(|miner| miner.miner_key == stage.miner.key), "it was shown out");
}

/// What was not asked for is counted as ever.
#[tokio::test(flavor = "multi_thread")]
async fn openings_that_nobody_asked_for() {
    let stage = Stage::new(&Policy { ping_interval_ms: 60_000, ..Policy::default() }, &[14]).await;
    stage.miner.lies.in_what_goes_out(|message| match message {
        MinerMessage::OpeningsChunk(chunk) if chunk.part == OpeningsPart::End && chunk.item == 1 => {
            vec![MinerMessage::OpeningsChunk(chunk); 3000]
        }
        other => vec![other],
    });
    // The verdict is out with the first of them; the flood that follows ends the session.
    let _ = stage.challenge(Mode::Audit).await;
    stage.validator.wait_for_miner(stage.miner.key, false).await;
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
