//! Linked probes answered without reaching the memory of other devices. The work and the probe of each device's own slots
//! are right, and so are the lines opened.

use assay_integration_tests::dishonest::LinkLie;
use assay_integration_tests::stage::Stage;
use assay_integration_tests::validator::Policy;
use assay_protocol::verdict::{Mode, ReasonCode};

/// Three devices of uneven memory.
async fn stage(flags: &[&str]) -> Stage {
    let asked = ["--linked-probe=true", "--linked-expect-gb-per-s=0.01"].iter().chain(flags);
    let policy = Policy { max_matrices: 22, flags: asked.map(|&flag| flag.to_owned()).collect(), ..Policy::default() };
    Stage::new(&policy, &[5, 9, 20]).await
}

async fn caught(lie: LinkLie, code: ReasonCode) {
    let stage = stage(&[]).await;
    stage.challenge(Mode::Audit).await.expect_pass();
    stage.miner.lies.in_linked_probe(lie);
    let ruling = stage.challenge(Mode::Audit).await;
    ruling.expect(code);
    let detail = &ruling.verdict.reasons[0].detail;
    assert!(detail.contains("linked probe"), "{detail}");
    assert_eq!(ruling.verdict.link, None, "nothing was shown");
    stage.miner.lies.stop();
    stage.challenge(Mode::Audit).await.expect_pass();
}

#[tokio::test(flavor = "multi_thread")]
async fn lines_of_other_devices_skipped() {
    caught(LinkLie::SkippedLines, ReasonCode::ResidencyState).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lines_of_other_devices_from_a_stale_copy() {
    caught(LinkLie::StaleCopy, ReasonCode::ResidencyState).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rounds_that_do_not_wait_for_other_devices() {
    caught(LinkLie::RoundsAtOnce, ReasonCode::ResidencyState).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn digests_of_one_device_withheld() {
    caught(LinkLie::WithheldDigests, ReasonCode::DigestsLate).await;
}

/// A link of 40 kB/s between the devices of a host that is two: the walk is right, and says how slow the link is.
#[tokio::test(flavor = "multi_thread")]
async fn a_device_behind_a_slow_link() {
    let stage = stage(&["--linked-min-gb-per-s=0.00008"]).await;
    stage.challenge(Mode::Audit).await.expect_pass();
    stage.miner.lies.behind_a_link(40_000);
    let ruling = stage.challenge(Mode::Audit).await;
    ruling.expect(ReasonCode::LinkSlow);
    let link = ruling.verdict.link.as_ref().expect("it was walked");
    assert!(link.gb_per_s < 0.00008, "{link:?}");
    stage.miner.lies.stop();
    stage.challenge(Mode::Audit).await.expect_pass();
}
