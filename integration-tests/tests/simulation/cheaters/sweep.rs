//! Sweeps answered without summing all of the memory. The work and the probe are right, and so are the rows opened.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use assay_integration_tests::dishonest::{SweepLie, rewrite};
use assay_policy::challenge::{LinkedPolicy, Policy};
use assay_protocol::message::{MinerMessage, OpenTarget, OpeningsPart, ValidatorMessage};
use assay_protocol::verdict::{Mode, ReasonCode};

use super::stage::{REPLAY_AND_AUDIT, Stage, usual};

fn swept() -> Policy {
    Policy { sweep: true, ..usual() }
}

fn stage() -> Stage {
    Stage::new(swept(), &[7, 7])
}

fn caught(lie: SweepLie) {
    stage().catches(&REPLAY_AND_AUDIT, ReasonCode::ResidencySum, |lies| lies.in_sweep(lie));
}

#[test]
fn sums_of_another_memory() {
    caught(SweepLie::OtherMemory);
}

#[test]
fn sums_under_the_weights_of_another_round() {
    caught(SweepLie::SameWeights);
}

/// Every second sample gives it away: 256 samples of a device miss all with a probability of 2⁻²⁵⁶.
#[test]
fn sums_of_half_of_the_rows() {
    caught(SweepLie::HalfOfRows);
}

#[test]
fn a_sum_that_does_not_lead_to_its_digest() {
    let bend = |message: &mut MinerMessage| {
        if let MinerMessage::OpeningsChunk(chunk) = message
            && let OpeningsPart::Sum(sum) = &mut chunk.part
        {
            sum.sum.bytes[0] ^= 1;
        }
    };
    stage().catches(&[Mode::Audit], ReasonCode::ResidencyPath, |lies| lies.in_what_goes_out(rewrite::each(bend)));
}

/// Every stage comes in its order, and the verdict has the figures of each device.
#[test]
fn a_sweep_follows_the_probes() {
    let linked = Some(LinkedPolicy { expect_gb_per_s: 0.01, min_gb_per_s: 0.0 });
    for (policy, probes) in [(swept(), 1), (Policy { linked, ..swept() }, 2)] {
        let mut stage = Stage::new(policy, &[7, 7]);
        let (walks, sweeps) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (seen_walks, seen_sweeps) = (walks.clone(), sweeps.clone());
        stage.lies.in_what_comes_in(move |message| {
            seen_walks.fetch_add(usize::from(matches!(message, ValidatorMessage::Probe { .. })), Ordering::SeqCst);
            if matches!(message, ValidatorMessage::Sweep { .. }) {
                assert_eq!(seen_walks.load(Ordering::SeqCst), probes, "the sweep comes last");
                seen_sweeps.fetch_add(1, Ordering::SeqCst);
            }
            if let ValidatorMessage::Open { items, .. } = &message {
                for item in items {
                    match &item.what {
                        OpenTarget::Segments(drawn) | OpenTarget::LinkedSegments(drawn) => assert_eq!(drawn.len(), 32),
                        OpenTarget::Sums(drawn) => assert_eq!(drawn.len(), 256),
                        OpenTarget::Samples { samples, .. } => assert_eq!(samples.len(), 130),
                    }
                }
            }
            message
        });
        let ruling = stage.challenge(Mode::Audit);
        let verdict = &ruling.expect_pass().verdict;
        assert_eq!((walks.load(Ordering::SeqCst), sweeps.load(Ordering::SeqCst)), (probes, 1));
        for device in &verdict.devices {
            let sweep = device.sweep.as_ref().expect("each device was swept");
            let slots = device.work.as_ref().unwrap().matrices;
            let bytes = u64::from(sweep.rounds) * slots * 256 * 256;
            assert_eq!((sweep.bytes, sweep.samples), (bytes, 256));
            assert!(sweep.share > sweep.open_sums && sweep.open_sums > 0.0);
        }
    }
}

/// A miner that says that it answers no sweep is not asked for one, and does not pass without.
#[test]
fn a_miner_without_sweeps_does_not_pass_where_one_is_asked() {
    let mut stage = Stage::new(swept(), &[14]);
    stage.challenge(Mode::Audit).expect_pass();
    stage.leave_sweeps_out();
    stage.challenge(Mode::Audit).expect(ReasonCode::MinerUnsupported);
    let mut stage = Stage::new(usual(), &[14]);
    stage.leave_sweeps_out();
    stage.challenge(Mode::Audit).expect_pass();
}
