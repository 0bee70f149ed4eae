//! Honest miners on slow links.

use assay_integration_tests::miner::TestMiner;
use assay_integration_tests::proxy::{Link, Proxy};
use assay_integration_tests::validator::{Policy, TestValidator};
use assay_protocol::verdict::{Mode, ReasonCode};

/// Some 250 kB of openings.
fn policy(deadline_s: u64, least_kb_per_s: u64) -> Policy {
    let flags = vec![format!("--policy-fields=link_min_kb_per_s={least_kb_per_s}")];
    // On such a link three intervals are less than the openings take.
    Policy {
        samples: 16,
        segments: 8,
        openings_deadline_s: deadline_s,
        ping_interval_ms: 1500,
        flags,
        ..Policy::default()
    }
}

/// A validator, and a miner whose bytes pass at this rate.
async fn on_a_link(policy: &Policy, bytes_per_s: u64) -> (TestValidator, TestMiner, Proxy) {
    let validator = TestValidator::start(policy).await;
    let link = Link { bytes_per_s, delay: std::time::Duration::from_millis(50) };
    let proxy = Proxy::start_on_a_link(validator.address, link).await;
    let miner = TestMiner::start(proxy.address, 1, &[]);
    validator.wait_for_miner(miner.key, true).await;
    (validator, miner, proxy)
}

/// The deadline of two seconds is for the openings' time beside that of their bytes, which is four times as long.
#[tokio::test(flavor = "multi_thread")]
async fn openings_that_take_longer_than_their_deadline() {
    let (validator, miner, _proxy) = on_a_link(&policy(2, 8), 32_000).await;
    for _ in 0..2 {
        validator.challenge(miner.key, Some(Mode::Audit)).await.unwrap().expect_pass();
    }
}

/// The same link, where the operator asks for more.
#[tokio::test(flavor = "multi_thread")]
async fn a_link_slower_than_the_policy_asks_for() {
    let (validator, miner, _proxy) = on_a_link(&policy(1, 200), 32_000).await;
    let ruling = validator.challenge(miner.key, Some(Mode::Audit)).await.unwrap();
    let detail = &ruling.expect(ReasonCode::OpeningsLate).verdict.reasons[0].detail;
    assert!(detail.contains("beside the time in which they come at 200 kB/s or more"), "{detail}");
    validator.wait_for_miner(miner.key, true).await;
}
