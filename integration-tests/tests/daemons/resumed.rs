//! Miners that lose their connection without the validator's notice, and come back.

use std::time::Duration;

use assay_api::BeginChallenge;
use assay_integration_tests::miner::TestMiner;
use assay_integration_tests::proxy::{Link, Proxy};
use assay_integration_tests::validator::{Policy, TestValidator};
use assay_protocol::verdict::{Mode, ReasonCode};

/// A validator that detects no lost connection for as long as a test waits.
fn patient() -> Policy {
    Policy { ping_interval_ms: 60_000, ..Policy::default() }
}

/// The miner was entered again at once: it was never refused, and a challenge passes.
async fn is_back(validator: &TestValidator, miner: &mut TestMiner) {
    let request = BeginChallenge { miner: Some(miner.key.to_string()), iterations: Some(1), ..Default::default() };
    miner.daemon.wait_for("connected: waiting for challenges");
    validator.run(request).await.unwrap().expect_pass();
    let refused: Vec<_> = miner.daemon.log().iter().filter(|line| line.contains("refused this miner")).collect();
    assert!(refused.is_empty(), "{refused:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_miner_takes_its_place_back_in_the_middle_of_a_challenge() {
    let mut validator = TestValidator::start(&Policy { iterations: 60_000, ..patient() }).await;
    let proxy = Proxy::start(validator.address).await;
    let mut miner = TestMiner::start(proxy.address, 1, &[]);
    miner.daemon.wait_for("connected: waiting for challenges");
    let challenge = validator.ask(miner.key, Some(Mode::Audit)).await.unwrap();
    miner.daemon.wait_for("\"message\":\"working\"");
    proxy.cut();
    let ruling = challenge.ruling().await.unwrap();
    let detail = &ruling.expect(ReasonCode::Disconnected).verdict.reasons[0].detail;
    assert!(detail.contains("lost its connection, and came back from 127.0.0.1"), "{detail}");
    is_back(&validator, &mut miner).await;
    validator.daemon.wait_for("this session took over");
}

/// A lost connection does not free a miner from a challenge whose positions are named.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_lost_while_openings_come_counts_as_one() {
    let validator = TestValidator::start(&Policy { samples: 16, segments: 8, ..patient() }).await;
    let link = Link { bytes_per_s: 64_000, delay: Duration::from_millis(10) };
    let proxy = Proxy::start_on_a_link(validator.address, link).await;
    let mut miner = TestMiner::start(proxy.address, 1, &[]);
    miner.daemon.wait_for("connected: waiting for challenges");
    let mut challenge = validator.ask(miner.key, Some(Mode::Audit)).await.unwrap();
    challenge.wait_for_phase("openings").await;
    proxy.cut();
    challenge.ruling().await.unwrap().expect(ReasonCode::Abandoned);
    is_back(&validator, &mut miner).await;
}
