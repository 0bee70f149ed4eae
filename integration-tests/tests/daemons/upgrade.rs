//! This release beside the one before it, whose programs `scripts/check-upgrade` builds: miners of either attest to
//! validators of the other, and both share records through a rolling upgrade.

#![cfg(target_os = "linux")]

use std::collections::BTreeSet;
use std::ffi::OsString;

use assay_api::BeginChallenge;
use assay_integration_tests::daemon::{Daemon, PROGRAMS, run};
use assay_integration_tests::miner::TestMiner;
use assay_integration_tests::postgres::Postgres;
use assay_integration_tests::validator::{Policy, Ruling, TestValidator};
use assay_protocol::verdict::Mode;
use assay_records::{Records, VerdictFilter};
use assay_work::Precision;

/// The variable with the folder of the programs before.
const BEFORE: &str = "ASSAY_RELEASE_BEFORE";

#[derive(Clone, Copy)]
enum Release {
    Before,
    This,
}

impl Release {
    fn environment(self) -> Vec<(String, OsString)> {
        let folder =
            || std::env::var_os(BEFORE).unwrap_or_else(|| panic!("{BEFORE} is unset: run scripts/check-upgrade"));
        match self {
            Self::Before => vec![(PROGRAMS.to_owned(), folder())],
            Self::This => Vec::new(),
        }
    }

    async fn validator(self, flags: &[String]) -> TestValidator {
        let policy = Policy { flags: flags.to_vec(), environment: self.environment(), ..Policy::default() };
        TestValidator::start(&policy).await
    }

    /// Drains a validator and starts it again in this release.
    async fn take_over(self, validator: &mut TestValidator) {
        validator.daemon.terminate();
        validator.daemon.wait();
        validator.environment = self.environment();
        validator.restart().await;
    }

    fn miner(self, validators: &[&TestValidator]) -> TestMiner {
        let others = validators[1..].iter().map(|other| format!("--validator={}", other.address)).collect::<Vec<_>>();
        let flags: Vec<_> = others.iter().map(String::as_str).collect();
        TestMiner::start_in(validators[0].address, 1, &flags, self.environment())
    }

    fn replay_worker(self, url: &str) -> Daemon {
        let flags = "replay-worker --backend=cpu --cpu-devices=1 --cpu-memory=32MiB --cpu-threads=1";
        let arguments: Vec<_> = flags.split(' ').map(str::to_owned).chain([format!("--records={url}")]).collect();
        let mut worker = Daemon::start_in("assay-validator", &arguments, &self.environment());
        worker.wait_for("taking replays");
        worker
    }
}

/// The number of entries of a validator's log, which this release finds whole.
fn logged(validator: &TestValidator) -> usize {
    let key = validator.key.to_string();
    let folder = validator.file(&format!("verdict-log/{key}")).display().to_string();
    let checked = run("assay-validator", ["log", "verify", &folder, "--validator", &key]);
    let said = String::from_utf8(checked.stdout).unwrap() + &String::from_utf8(checked.stderr).unwrap();
    let entries = said.split_once("holds: ").and_then(|(_, rest)| rest.split(' ').next()?.parse().ok());
    entries.unwrap_or_else(|| panic!("the log of {key}: {said}"))
}

/// This release's check of a receipt, with the keys that its validator serves.
fn verify(validator: &TestValidator, ruling: &Ruling) {
    let (token, keys) = (validator.file("receipt.jwt"), validator.file("receipt.jwks.json").display().to_string());
    std::fs::write(&token, ruling.verdict.receipt.as_ref().expect("each verdict has a receipt")).unwrap();
    let checked = run("assay-validator", ["receipt", "verify", &token.display().to_string(), "--keys", &keys]);
    // The code of a small pass is that of its warning; 65 would be a receipt that does not verify.
    let said = [checked.stdout, checked.stderr].map(|said| String::from_utf8_lossy(&said).into_owned()).join("");
    assert!(matches!(checked.status.code(), Some(0 | 2)), "{:?}: {said}", checked.status.code());
}

/// A pass of a miner at each of these validators, in a mode; their challenges.
async fn pass_at(validators: &[&TestValidator], miners: &[&TestMiner], mode: Mode) -> BTreeSet<String> {
    let mut passed = BTreeSet::new();
    for validator in validators {
        for miner in miners {
            validator.wait_for_miner(miner.key, true).await;
            let ruling = validator.challenge(miner.key, Some(mode)).await.unwrap();
            verify(validator, ruling.expect_pass());
            passed.insert(hex::encode(&ruling.verdict.challenge_id));
        }
    }
    passed
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the programs of the release before: scripts/check-upgrade"]
async fn miners_attest_across_releases() {
    for (ours, theirs) in [(Release::This, Release::Before), (Release::Before, Release::This)] {
        let validator = ours.validator(&[]).await;
        let miner = theirs.miner(&[&validator]);
        for mode in Mode::ALL {
            pass_at(&[&validator], &[&miner], mode).await;
        }
        for precision in [Precision::F16, Precision::Fp8, Precision::Fp4, Precision::Field, Precision::Network] {
            let request = BeginChallenge {
                miner: Some(miner.key.to_string()),
                mode: Some(Mode::Audit),
                precision: Some(precision),
                ..BeginChallenge::default()
            };
            validator.run(request).await.unwrap().expect_pass();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the programs of the release before: scripts/check-upgrade"]
async fn two_releases_share_records_through_a_rolling_upgrade() {
    let database = Postgres::shared().database();
    let flags = [format!("--records={}", database.url()), "--replay-locally=false".to_owned()];
    let (mut first, mut second) = (Release::Before.validator(&flags).await, Release::Before.validator(&flags).await);
    let miners = [Release::Before.miner(&[&first, &second]), Release::This.miner(&[&first, &second])];
    let miners: Vec<_> = miners.iter().collect();
    let old_worker = Release::Before.replay_worker(&database.url());
    let mut passed = pass_at(&[&first, &second], &miners, Mode::Replay).await;
    // One is upgraded, and the replay worker is not.
    Release::This.take_over(&mut first).await;
    passed.extend(pass_at(&[&first, &second], &miners, Mode::Replay).await);
    // The other is started again, in the release that is not the newest any more.
    Release::Before.take_over(&mut second).await;
    drop(old_worker);
    let _new_worker = Release::This.replay_worker(&database.url());
    passed.extend(pass_at(&[&first, &second], &miners, Mode::Replay).await);
    Release::This.take_over(&mut second).await;
    passed.extend(pass_at(&[&first, &second], &miners, Mode::Audit).await);

    let records = Records::open(&database.location()).await.unwrap();
    let kept = records.verdicts(&VerdictFilter { limit: Some(100), ..VerdictFilter::default() }).await.unwrap();
    let kept: Vec<_> = kept.into_iter().map(|verdict| verdict.challenge).collect();
    let distinct: BTreeSet<_> = kept.iter().cloned().collect();
    assert_eq!((kept.len(), distinct.len()), (distinct.len(), kept.len()), "none twice");
    assert!(passed.is_subset(&distinct), "{passed:?} {distinct:?}");
    for validator in [&mut first, &mut second] {
        validator.daemon.terminate();
        validator.daemon.wait();
    }
    assert_eq!(logged(&first) + logged(&second), kept.len());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the programs of the release before: scripts/check-upgrade"]
async fn a_file_of_records_is_upgraded_and_taken_back() {
    let mut validator = Release::Before.validator(&[]).await;
    let miner = Release::This.miner(&[&validator]);
    let mut verdicts = 0;
    for release in [Release::This, Release::Before, Release::This] {
        verdicts += pass_at(&[&validator], &[&miner], Mode::Audit).await.len();
        release.take_over(&mut validator).await;
    }
    verdicts += pass_at(&[&validator], &[&miner], Mode::Audit).await.len();
    validator.daemon.terminate();
    validator.daemon.wait();
    assert_eq!((verdicts, logged(&validator)), (4, 4));
}
