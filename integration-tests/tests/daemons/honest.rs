//! Honest miners pass, in every mode and with every shape of host.

use assay_api::{BeginChallenge, ProblemCode, VerdictsQuery};
use assay_integration_tests::miner::TestMiner;
use assay_integration_tests::stage::Stage;
use assay_integration_tests::validator::{Policy, Ruling, TestValidator};
use assay_protocol::verdict::Mode;
use assay_protocol::wire::v1::{self, Verdict};
use assay_records::VerdictRecord;

const MODES: [Mode; 3] = [Mode::Replay, Mode::ReplaySample, Mode::Audit];

/// Passes once in each mode, and gives the rulings.
async fn passes(policy: &Policy, devices: u32) -> Vec<Ruling> {
    let (validator, miner) = TestMiner::with_validator(policy, devices, &[]).await;
    let mut rulings = Vec::new();
    for mode in MODES {
        let ruling = validator.challenge(miner.key, Some(mode)).await.unwrap();
        ruling.expect_pass();
        assert_eq!(ruling.verdict.miner_key, miner.key.0);
        assert_eq!(ruling.verdict.validator_key, validator.key.0);
        assert_eq!(ruling.verdict.devices.len(), devices as usize);
        rulings.push(ruling);
    }
    rulings
}

/// The bytes that a device of ten products showed, by the formulas of WORK.md and the verdict's own figures.
fn bytes_shown(verdict: &Verdict) -> u64 {
    let (work, hiding) = (verdict.devices[0].work.as_ref().unwrap(), verdict.devices[0].hiding.as_ref().unwrap());
    let rate = 2.0 * work.multiply_accumulates_low as f64 / work.seconds;
    assert!((hiding.rate_per_s / rate - 1.0).abs() < 1e-6 && hiding.rate_is_shown_only, "{hiding:?}, not {rate}");
    // 64 walks of 8 steps; 64 lines of 64 bytes hold 64 elements each.
    let lines = work.probe_bytes as f64 / 64.0;
    let computed = rate * work.probe_seconds / (64.0 * 256.0 * lines);
    // A processor's buses.
    let over_buses = 1e9 * work.probe_seconds / (64.0 * lines);
    assert!((hiding.computed / computed - 1.0).abs() < 1e-6, "{hiding:?}, not {computed}");
    assert!((hiding.over_buses / over_buses - 1.0).abs() < 1e-6, "{hiding:?}, not {over_buses}");
    let x = computed + over_buses;
    let (open, rounds) = (1.0 - 0.05_f64.powf(1.0 / f64::from(work.segments)), lines / (64.0 * 8.0));
    let at_once = 64.0 * (1.0 + open * rounds);
    let share = x / 2.0 + (x * x / 4.0 + 2.0 * x * at_once / (12.0 * 1024.0)).sqrt();
    let share = ((share + open / 8.0) / (1.0 - open)).min(1.0);
    assert!((hiding.open_walks - open).abs() < 1e-6 && hiding.elsewhere == 0.0, "{hiding:?}, not {open}");
    assert!((hiding.share - share).abs() < 1e-6, "{hiding:?}, not {share}");
    let wrong = if verdict.mode() == v1::Mode::Audit { 1.0 - 0.05_f64.powf(1.0 / 128.0) } else { 0.0 };
    ((10 << 16) as f64 * (1.0 - hiding.share) * (1.0 - wrong)) as u64
}

#[tokio::test(flavor = "multi_thread")]
async fn one_device() {
    let rulings = passes(&Policy::default(), 1).await;
    for ruling in &rulings {
        let whole = ruling.verdict.whole.as_ref().unwrap();
        assert_eq!((whole.matrices, whole.bytes_held), (12, bytes_shown(&ruling.verdict)));
        assert_eq!(whole.multiply_accumulates_low, 10 << 24);
        assert!(whole.probe_bytes > 0 && whole.seconds > 0.0 && whole.probe_seconds > 0.0);
        assert_eq!(whole.segments, 32);
        let gb_per_s = whole.probe_bytes as f64 / whole.probe_seconds / 1e9;
        assert!((whole.probe_gb_per_s / gb_per_s - 1.0).abs() < 1e-9, "{whole:?}, not {gb_per_s}");
    }
    // The audit leaves out the share that may be wrong with a chance of 5 %.
    for (ruling, wrong) in [(&rulings[0], 0.0), (&rulings[2], 1.0 - 0.05_f64.powf(1.0 / 128.0))] {
        let whole = ruling.verdict.whole.as_ref().unwrap();
        let tops = 2.0 * f64::from(10 << 24) * (1.0 - wrong) / whole.seconds / 1e12;
        assert!((whole.tops / tops - 1.0).abs() < 1e-9, "{whole:?}, not {tops}");
    }
    // 5 % of the work wrong passes 128 samples with a probability of 0.95^128.
    let audit = &rulings[2].verdict;
    assert_eq!(audit.whole.as_ref().unwrap().samples, 128);
    let bound = audit.work_bounds.iter().find(|bound| bound.fraction == 0.05).unwrap();
    assert!((bound.log2_probability - 128.0 * 0.95_f64.log2()).abs() < 1e-9, "{bound:?}");
    assert!(rulings[0].verdict.work_bounds.is_empty(), "a replay leaves nothing to chance");
}

/// Float work can be done in fewer operations than it counts.
#[tokio::test(flavor = "multi_thread")]
async fn work_of_f16_is_bounded_by_a_factor_of_its_own() {
    let policy = Policy { flags: vec!["--kinds=f16".to_owned()], ..Policy::default() };
    let rulings = passes(&policy, 1).await;
    let device = &rulings[0].verdict.devices[0];
    let (work, hiding) = (device.work.as_ref().unwrap(), device.hiding.as_ref().unwrap());
    let shown = work.multiply_accumulates_low as f64 / work.seconds;
    assert!((hiding.rate_per_s / shown / 2.5 - 1.0).abs() < 1e-6, "{hiding:?}, {shown} were shown");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_devices() {
    let rulings = passes(&Policy::default(), 2).await;
    let matrices: Vec<_> = rulings[0].verdict.devices.iter().map(|d| d.work.as_ref().unwrap().matrices).collect();
    assert_eq!(matrices, [6, 6]);
}

/// The validator has one device of its own, and replays the work of three.
#[tokio::test(flavor = "multi_thread")]
async fn three_devices_replayed_on_one() {
    passes(&Policy { max_matrices: 15, ..Policy::default() }, 3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn devices_of_uneven_weights() {
    let stage = Stage::new(&Policy { max_matrices: 22, ..Policy::default() }, &[5, 9, 20]).await;
    for mode in MODES {
        let ruling = stage.challenge(mode).await;
        let devices = &ruling.expect_pass().verdict.devices;
        let matrices: Vec<_> = devices.iter().map(|d| d.work.as_ref().unwrap().matrices).collect();
        // 22 · 5/34, 22 · 9/34 and 22 · 20/34, the one left over to the largest remainder.
        assert_eq!(matrices, [3, 6, 13]);
        let whole = ruling.verdict.whole.unwrap();
        let is_before = |work: v1::Work| work.seconds < whole.seconds && work.probe_seconds < whole.probe_seconds;
        assert!(devices.iter().all(|device| is_before(device.work.unwrap())), "each says before that it is done");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn several_iterations_of_which_one_is_checked() {
    let rulings = passes(&Policy { iterations: 3, ..Policy::default() }, 2).await;
    let checked: Vec<_> = rulings.iter().map(|r| r.verdict.iterations_checked).collect();
    assert_eq!(checked, [3, 2, 2], "the last one, and one of the others");
    assert!(!rulings[2].verdict.iteration_bounds.is_empty());
}

/// The audit asks for the early iterations too, which the miner computes again.
#[tokio::test(flavor = "multi_thread")]
async fn an_audit_of_early_iterations() {
    let rulings = passes(&Policy { iterations: 3, sampled_iterations: 3, ..Policy::default() }, 2).await;
    assert_eq!(rulings[2].verdict.iterations_checked, 3);
    assert!(rulings[2].verdict.iteration_bounds.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn larger_matrices() {
    passes(&Policy { n: 512, max_matrices: 6, ..Policy::default() }, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_operator_asks_for_counts_more_than_the_policy() {
    let (validator, _miner) = TestMiner::with_validator(&Policy::default(), 1, &[]).await;
    let request = BeginChallenge { n: Some(512), iterations: Some(2), samples: Some(40), ..BeginChallenge::default() };
    let ruling = validator.run(request).await.unwrap();
    let verdict = &ruling.expect_pass().verdict;
    assert_eq!((verdict.n, verdict.iterations), (512, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disconnect_between_challenges() {
    let (validator, mut miner) = TestMiner::with_validator(&Policy::default(), 2, &[]).await;
    let before = validator.challenge(miner.key, Some(Mode::Audit)).await.unwrap();
    miner.daemon.kill();
    validator.wait_for_miner(miner.key, false).await;
    miner.restart();
    validator.wait_for_miner(miner.key, true).await;
    let after = validator.challenge(miner.key, Some(Mode::Replay)).await.unwrap();
    let ids = |ruling: &Ruling| -> Vec<_> {
        ruling.expect_pass().verdict.devices.iter().map(|device| device.device_id.clone()).collect()
    };
    assert_eq!(ids(&before), ids(&after), "devices keep their names over a restart");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_miners_at_once() {
    let validator = TestValidator::start(&Policy::default()).await;
    let miners = [TestMiner::start(validator.address, 1, &[]), TestMiner::start(validator.address, 2, &[])];
    for miner in &miners {
        validator.wait_for_miner(miner.key, true).await;
    }
    let [first, second] = &miners;
    let (first, second) = tokio::join!(
        validator.challenge(first.key, Some(Mode::Replay)),
        validator.challenge(second.key, Some(Mode::Audit)),
    );
    assert_eq!(first.unwrap().expect_pass().verdict.devices.len(), 1);
    assert_eq!(second.unwrap().expect_pass().verdict.devices.len(), 2);
    let unnamed = validator.run(BeginChallenge::default()).await.unwrap_err();
    assert_eq!(unnamed.code(), Some(ProblemCode::SeveralMiners), "{unnamed}");
}

/// Without a command: the miner is challenged as it connects, and the verdict goes into the records.
#[tokio::test(flavor = "multi_thread")]
async fn a_challenge_on_connect() {
    let mut policy = Policy { flags: vec!["--mode=audit".into()], ..Policy::default() };
    policy.challenge_on_connect = true;
    let mut validator = TestValidator::start(&policy).await;
    let miner = TestMiner::start(validator.address, 1, &[]);
    validator.daemon.wait_for("\"pass\"");
    let query = VerdictsQuery { miner: Some(miner.key.to_string()), ..VerdictsQuery::default() };
    let verdicts: Vec<VerdictRecord> = validator.operator().list("/verdicts", &query, 2).await.unwrap();
    assert_eq!(verdicts.iter().map(|verdict| verdict.outcome.as_str()).collect::<Vec<_>>(), ["pass"]);
}
