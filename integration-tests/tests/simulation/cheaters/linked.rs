//! Linked probes answered without reaching the memory of other devices. The work and the probe of each device's own slots
//! are right, and so are the lines opened.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use assay_integration_tests::dishonest::LinkLie;
use assay_policy::challenge::{LinkedPolicy, Policy};
use assay_protocol::message::MinerMessage;
use assay_protocol::verdict::{Mode, ReasonCode};

use super::stage::{Stage, usual};

/// Three devices of uneven memory.
fn stage() -> Stage {
    let linked = Some(LinkedPolicy { expect_gb_per_s: 0.01, min_gb_per_s: 0.0 });
    Stage::new(Policy { max_matrices: 22, linked, ..usual() }, &[5, 9, 20])
}

fn caught(lie: LinkLie, code: ReasonCode) {
    let mut stage = stage();
    stage.challenge(Mode::Audit).expect_pass();
    stage.lies.in_linked_probe(lie);
    let ruling = stage.challenge(Mode::Audit);
    ruling.expect(code);
    let detail = &ruling.verdict.reasons[0].detail;
    assert!(detail.contains("linked probe"), "{detail}");
    assert_eq!(ruling.verdict.link, None, "nothing was shown");
    stage.lies.stop();
    stage.challenge(Mode::Audit).expect_pass();
}

#[test]
fn lines_of_other_devices_skipped() {
    caught(LinkLie::SkippedLines, ReasonCode::ResidencyState);
}

#[test]
fn lines_of_other_devices_from_a_stale_copy() {
    caught(LinkLie::StaleCopy, ReasonCode::ResidencyState);
}

#[test]
fn rounds_that_do_not_wait_for_other_devices() {
    caught(LinkLie::RoundsAtOnce, ReasonCode::ResidencyState);
}

#[test]
fn digests_of_one_device_withheld() {
    caught(LinkLie::WithheldDigests, ReasonCode::DigestsLate);
}

/// Those of the probe before, while the linked one runs: the detail says which are meant.
#[test]
fn digests_of_the_first_probe_withheld() {
    let mut stage = stage();
    let answered = AtomicBool::new(false);
    stage.lies.in_what_goes_out(move |message| match message {
        MinerMessage::DeviceDigests(_) => Vec::new(),
        MinerMessage::ProbeAnswer(_) if answered.swap(true, Ordering::SeqCst) => Vec::new(),
        other => vec![other],
    });
    let ruling = stage.challenge(Mode::Audit);
    ruling.expect(ReasonCode::DigestsLate);
    let detail = &ruling.verdict.reasons[0].detail;
    assert!(detail.starts_with("first probe: nothing complete came"), "{detail}");
}

/// A miner that says that its devices reach no other's memory shows no rate between them.
#[test]
fn no_linked_probe_where_a_rate_is_asked_for() {
    let linked = Some(LinkedPolicy { expect_gb_per_s: 0.01, min_gb_per_s: 1e-9 });
    let mut stage = Stage::new(Policy { linked, ..usual() }, &[7, 7]);
    let shows = |stage: &mut Stage| stage.challenge_with_lag(Mode::Audit, (is_answer, Duration::from_millis(1)));
    shows(&mut stage).expect_pass();
    stage.leave_links_out();
    let ruling = shows(&mut stage);
    assert!(ruling.expect(ReasonCode::LinkSlow).verdict.link.is_none());
}

fn is_answer(message: &MinerMessage) -> bool {
    matches!(message, MinerMessage::ProbeAnswer(_))
}
