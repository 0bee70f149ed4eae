//! Kinds of work: each is proven end to end, they come in turn, and a verdict shows the rates of all.

use assay_api::BeginChallenge;
use assay_integration_tests::daemon;
use assay_integration_tests::miner::TestMiner;
use assay_integration_tests::stage::Stage;
use assay_integration_tests::validator::{Policy, Ruling, TestValidator};
use assay_protocol::message::{MinerMessage, SignedChecksum, Stop, StopCode};
use assay_protocol::verdict::{Mode, ReasonCode};
use assay_work::Precision;

/// Judges again every case that a validator kept.
fn rejudge(validator: &TestValidator) -> String {
    let key_file = format!("--key-file={}", validator.file("validator.key").display());
    let output = daemon::run("assay-validator", ["rejudge", &key_file]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The kinds of which a verdict's first device shows a rate.
fn kinds_shown(ruling: &Ruling) -> Vec<u32> {
    let rates = &ruling.verdict.devices[0].rates;
    assert!(rates.iter().all(|rate| rate.tops > 0.0 && rate.detour >= 1.0 && rate.unix_seconds > 0), "{rates:?}");
    rates.iter().map(|rate| rate.precision).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_passes_by_replay_and_by_audit() {
    let policy = Policy { iterations: 2, keeps_passes_percent: Some(100), ..Policy::default() };
    let (validator, _miner) = TestMiner::with_validator(&policy, 2, &[]).await;
    for precision in Precision::ALL {
        for mode in [Mode::Replay, Mode::ReplaySample, Mode::Audit] {
            let request = BeginChallenge { precision: Some(precision), mode: Some(mode), ..BeginChallenge::default() };
            let ruling = validator.run(request).await.unwrap();
            let verdict = &ruling.expect_pass().verdict;
            assert_eq!(verdict.precision, precision.code());
            let whole = verdict.whole.as_ref().unwrap();
            // Twelve slots of which four are leaves, in two iterations.
            let products = 8 * 2 * precision.multiply_accumulates_of_product(256);
            assert_eq!(whole.multiply_accumulates_low, products, "{precision}");
        }
    }
    assert_eq!(rejudge(&validator), "18 cases: 18 the same to the bit\n");
}

/// Regression test: a miner that declined the kinds that it lacks was asked for the others alone.
#[tokio::test(flavor = "multi_thread")]
async fn a_kind_that_a_miner_declines_comes_again() {
    let stage = Stage::new(&Policy { flags: vec!["--kinds=f16,int8".to_owned()], ..Policy::default() }, &[14]).await;
    stage.miner.lies.in_what_goes_out(|message| match message {
        MinerMessage::Commitment(SignedChecksum { challenge_id, .. }) => {
            vec![MinerMessage::Declined(Stop { challenge_id, code: StopCode::Busy, detail: String::new() })]
        }
        MinerMessage::DeviceRoots(_) => Vec::new(),
        other => vec![other],
    });
    for _ in 0..2 {
        let ruling = stage.challenge(Mode::Audit).await;
        assert_eq!(ruling.expect(ReasonCode::MinerBusy).verdict.precision, 2);
    }
    stage.miner.lies.stop();
    let judged = [stage.challenge(Mode::Audit).await, stage.challenge(Mode::Audit).await];
    assert_eq!(judged.map(|ruling| ruling.expect_pass().verdict.precision), [2, 1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn kinds_come_in_turn_and_a_verdict_shows_the_rates_of_all() {
    let flags = vec!["--kinds=fp8,int8,f16".to_owned()];
    let policy = Policy { flags, keeps_passes_percent: Some(100), ..Policy::default() };
    let (validator, miner) = TestMiner::with_validator(&policy, 1, &[]).await;
    let mut seen = Vec::new();
    for _ in 0..4 {
        let ruling = validator.challenge(miner.key, Some(Mode::Audit)).await.unwrap();
        ruling.expect_pass();
        seen.push((ruling.verdict.precision, kinds_shown(&ruling)));
    }
    let expected = [(5, vec![5]), (1, vec![1, 5]), (2, vec![1, 2, 5]), (5, vec![1, 2, 5])];
    assert_eq!(seen, expected);
    assert_eq!(rejudge(&validator), "4 cases: 4 the same to the bit\n");
}
