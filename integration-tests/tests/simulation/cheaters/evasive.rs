//! Miners that break off, wait or do not read where that could help them, and the verdicts on them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use assay_integration_tests::dishonest::{Lies, rewrite};
use assay_policy::Policy;
use assay_protocol::message::{MinerMessage, OpeningsPart, Stop, StopCode, ValidatorMessage};
use assay_protocol::verdict::{Mode, ReasonCode};
use assay_work::ChallengeId;

use super::stage::{Stage, usual};

fn stop(challenge_id: ChallengeId) -> Stop {
    Stop { challenge_id, code: StopCode::DeviceLost, detail: "a test".into() }
}

/// "Device lost", as soon as the drawn positions are known.
fn breaks_off(lies: &Lies) {
    lies.in_what_goes_out(|message| match message {
        MinerMessage::OpeningsChunk(chunk) => vec![MinerMessage::Abort(stop(chunk.challenge_id))],
        other => vec![other],
    });
}

/// Three of a miner's last twenty challenges are too many; before that the verdicts say how many there were.
#[test]
fn challenges_broken_off_after_positions_were_named() {
    let mut stage = Stage::with_one_device();
    for count in 1..=2 {
        breaks_off(&stage.lies);
        let ruling = stage.challenge(Mode::Audit);
        let verdict = &ruling.expect(ReasonCode::Abandoned).verdict;
        assert_eq!((verdict.abandoned_recently, verdict.recent_challenges), (count, 2 * count - 1));
        let detail = &verdict.reasons[0].detail;
        assert!(detail.contains("device_sick") && detail.contains("a test"), "the miner's own words: {detail}");
        stage.lies.stop();
        // A miner that could choose between draws passes more often, and the bounds account for it.
        let passed = stage.challenge(Mode::Audit);
        assert_eq!(passed.expect_pass().verdict.abandoned_recently, count);
        let bound = passed.verdict.work_bounds.iter().find(|bound| bound.fraction == 0.05).unwrap();
        let expected = 128.0 * 0.95_f64.log2() + f64::from(count + 1).log2();
        assert!((bound.log2_probability - expected).abs() < 1e-9, "{bound:?}, not {expected}");
        // The probe's 32 segments of 8 steps, and its walks that stay open.
        let bound = passed.verdict.probe_bounds.iter().find(|bound| bound.fraction == 0.05).unwrap();
        let expected = 256.0 * 0.95_f64.log2() + f64::from(count + 1).log2();
        assert!((bound.log2_probability - expected).abs() < 1e-9, "{bound:?}, not {expected}");
        let open = passed.verdict.devices[0].hiding.as_ref().unwrap().open_walks;
        let expected = 1.0 - (0.05 / f64::from(count + 1)).powf(1.0 / 32.0);
        assert!((open - expected).abs() < 1e-9, "{open}, not {expected}");
    }
    breaks_off(&stage.lies);
    stage.challenge(Mode::Audit).expect(ReasonCode::AbandonedRepeatedly);
}

/// Slots could move while roots or digests are on their way, if that time were on no clock.
#[test]
fn roots_and_digests_that_lag() {
    let mut stage = Stage::with_one_device();
    let roots: fn(&MinerMessage) -> bool = |message| matches!(message, MinerMessage::DeviceRoots(_));
    let digests: fn(&MinerMessage) -> bool = |message| matches!(message, MinerMessage::DeviceDigests(_));
    for (reason, is_late) in [(ReasonCode::RootsLate, roots), (ReasonCode::DigestsLate, digests)] {
        // Longer than they may take, and shorter than a miner may be silent.
        stage.catches_late(&[Mode::Audit], reason, (is_late, Duration::from_secs(13)));
    }
}

/// The commitment's head binds the roots: the probe goes out without them.
#[test]
fn the_probe_does_not_wait_for_roots() {
    let mut stage = Stage::with_one_device();
    let probed = Arc::new(AtomicBool::new(false));
    let seen = probed.clone();
    stage.lies.in_what_comes_in(move |message| {
        seen.fetch_or(matches!(message, ValidatorMessage::Probe { .. }), Ordering::SeqCst);
        message
    });
    stage.lies.in_what_goes_out(|message| match message {
        MinerMessage::DeviceRoots(_) | MinerMessage::ProbeAnswer(_) | MinerMessage::DeviceDigests(_) => Vec::new(),
        other => vec![other],
    });
    stage.challenge(Mode::Audit).expect(ReasonCode::RootsLate);
    assert!(probed.load(Ordering::SeqCst));
    // An answer before the roots that it rests on has no place.
    stage.lies.in_what_goes_out(|message| match message {
        MinerMessage::DeviceRoots(_) => Vec::new(),
        other => vec![other],
    });
    stage.challenge(Mode::Audit).expect(ReasonCode::Protocol);
    stage.lies.stop();
    stage.challenge(Mode::Audit).expect_pass();
}

/// Chunks that were asked for arrive after the first wrong one has ended the challenge; the miner stays.
#[test]
fn openings_in_flight_when_the_challenge_ends() {
    let mut stage = Stage::new(Policy { segments: 4, samples: 2048, ..usual() }, &[14]);
    let mut is_first = true;
    stage.lies.in_what_goes_out(rewrite::each(move |message| {
        let MinerMessage::OpeningsChunk(chunk) = message else { return };
        if let OpeningsPart::Segment(segment) = &mut chunk.part
            && std::mem::take(&mut is_first)
        {
            segment.lines[0].bytes[0] ^= 1;
        }
    }));
    stage.challenge(Mode::Audit).expect(ReasonCode::ResidencyPath);
    assert!(stage.waiting() >= 2048, "the rest is on its way");
    assert!(stage.is_connected(), "it was shown out");
}

/// Messages that were not asked for count like any other.
#[test]
fn openings_that_nobody_asked_for() {
    let mut stage = Stage::with_one_device();
    stage.lies.in_what_goes_out(|message| match message {
        MinerMessage::OpeningsChunk(chunk) if chunk.part == OpeningsPart::End && chunk.item == 1 => {
            vec![MinerMessage::OpeningsChunk(chunk); 3000]
        }
        other => vec![other],
    });
    // The verdict is out with the first of them; the flood that follows ends the session.
    stage.challenge(Mode::Audit);
    assert!(!stage.is_connected());
}
