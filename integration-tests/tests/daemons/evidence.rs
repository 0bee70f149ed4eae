//! Evidence: kept of verdicts other than passes, judged again to the bit, refused where it was changed.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use assay_api::BeginChallenge;
use assay_integration_tests::daemon::{self, PATIENCE};
use assay_integration_tests::evidence::judged_again;
use assay_integration_tests::miner::TestMiner;
use assay_integration_tests::stage::Stage;
use assay_integration_tests::validator::{Policy, TestValidator};
use assay_protocol::message::MinerMessage;
use assay_protocol::verdict::{Mode, ReasonCode};
use assay_records::VerdictRecord;
use serde_json::Value;

const MODES: [Mode; 3] = [Mode::Audit, Mode::Replay, Mode::ReplaySample];

/// A validator that keeps this percentage of passes, and a connected miner.
async fn validator_that_keeps(percent: u32) -> (TestValidator, TestMiner) {
    let policy = Policy { keeps_passes_percent: Some(percent), ..Policy::default() };
    let (validator, miner) = TestMiner::with_validator(&policy, 1, &[]).await;
    (validator, miner)
}

/// The objects in the folder of a validator's evidence.
fn objects(validator: &TestValidator) -> Vec<PathBuf> {
    let entries = fs::read_dir(validator.file("evidence")).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.extension().is_some_and(|end| end == "zst")).collect()
}

/// `rejudge` of a validator's evidence: the exit code, and the output.
fn rejudge(validator: &TestValidator, arguments: &[&str]) -> (i32, String) {
    let key_file = format!("--key-file={}", validator.file("validator.key").display());
    let output = daemon::run("assay-validator", ["rejudge", &key_file].iter().chain(arguments));
    let text = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    (output.status.code().unwrap_or_else(|| panic!("{errors}")), text)
}

/// A fleet policy whose light challenges say this.
fn policy(folder: &Path, light: &str) -> String {
    let path = folder.join("policy.toml");
    fs::write(&path, format!("[[group]]\nname = \"default\"\n[group.light]\n{light}\n")).unwrap();
    format!("--policy={}", path.display())
}

/// Challenges for more memory than there is: no challenge is made.
async fn unmade(validator: &TestValidator, miner: &TestMiner) {
    let request = BeginChallenge {
        miner: Some(miner.key.to_string()),
        mode: Some(Mode::Audit),
        n: Some(32_768),
        ..BeginChallenge::default()
    };
    validator.run(request).await.unwrap().expect(ReasonCode::NotEnoughMemory);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_verdict_comes_out_again_and_a_changed_case_is_refused() {
    let (validator, miner) = validator_that_keeps(100).await;
    for mode in MODES {
        validator.challenge(miner.key, Some(mode)).await.unwrap().expect_pass();
    }
    unmade(&validator, &miner).await;
    let judged = judged_again(&validator.file("evidence"));
    let outcomes: Vec<_> = judged.iter().map(|again| again.given.outcome.as_str()).collect();
    assert_eq!(outcomes.iter().filter(|outcome| **outcome == "pass").count(), 3);
    assert_eq!(outcomes.iter().filter(|outcome| **outcome == "inconclusive").count(), 1);
    // The verdicts of `rejudge` are those that were given out, to the bit.
    let recorded: Vec<VerdictRecord> = validator.operator().list("/verdicts", &(), 5).await.unwrap();
    for again in &judged {
        let verdict = again.verdict.as_ref().unwrap().get();
        assert!(recorded.iter().any(|record| record.verdict.get() == verdict), "not recorded: {verdict}");
    }

    assert_eq!(rejudge(&validator, &[]), (0, "4 cases: 4 the same to the bit\n".to_owned()));
    let (code, lines) = rejudge(&validator, &["--since=7d", "--json"]);
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((code, lines.len()), (0, 4));
    assert!(lines.iter().all(|line| line["is_same"] == true && line["changes"] == false), "{lines:#?}");
    let pass = judged.iter().find(|again| again.given.outcome == "pass").unwrap();
    let id = pass.challenge_id.to_string();
    assert_eq!(rejudge(&validator, &[&id[..12]]).1, format!("{id}  pass -> the same\n1 case: 1 the same to the bit\n"));

    // No miner can show 99 % of so little memory.
    let folder = tempfile::tempdir().unwrap();
    let stricter = policy(folder.path(), "min_held_percent = 99");
    let (code, text) = rejudge(&validator, &[&stricter]);
    assert_eq!(code, 0, "{text}");
    assert_eq!(text.matches("pass -> fail residency_share").count(), 3, "{text}");
    assert!(text.ends_with("4 cases: 1 the same to the bit, 3 with another outcome or other reasons\n"), "{text}");

    let object = objects(&validator).into_iter().max_by_key(|path| fs::metadata(path).unwrap().len()).unwrap();
    let whole = fs::read(&object).unwrap();
    let mut changed = whole.clone();
    changed[whole.len() / 2] ^= 1;
    fs::write(&object, &changed).unwrap();
    let (code, text) = rejudge(&validator, &[]);
    assert_eq!(code, 65, "{text}");
    assert!(text.contains("was changed: its bytes hash to"), "{text}");
    assert!(text.ends_with("4 cases: 3 the same to the bit, 1 refused\n"), "{text}");
    fs::remove_file(&object).unwrap();
    let (code, text) = rejudge(&validator, &[]);
    assert!(code == 65 && text.contains("is not in the store"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pass_that_is_not_drawn_leaves_nothing() {
    let (validator, miner) = validator_that_keeps(0).await;
    for mode in MODES {
        validator.challenge(miner.key, Some(mode)).await.unwrap().expect_pass();
    }
    // A write that was under way ends without help.
    let until = Instant::now() + PATIENCE;
    while fs::read_dir(validator.file("evidence")).unwrap().count() > 0 {
        assert!(Instant::now() < until, "what was not kept is left");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    unmade(&validator, &miner).await;
    assert_eq!(objects(&validator).len(), 1);
    assert_eq!(rejudge(&validator, &[]), (0, "1 case: 1 the same to the bit\n".to_owned()));
}

/// The miner commits too late. A longer deadline would have let the challenge go on, with an unknown outcome.
#[tokio::test(flavor = "multi_thread")]
async fn evidence_that_ends_decides_nothing_beyond() {
    let policy_of_then = Policy { commit_deadline_s: 1, ..Policy::default() };
    let stage = Stage::new(&policy_of_then, &[14]).await;
    stage.miner.lies.in_what_goes_out(|message| {
        if matches!(message, MinerMessage::Commitment(_)) {
            std::thread::sleep(Duration::from_millis(1500));
        }
        vec![message]
    });
    stage.challenge(Mode::Audit).await.expect(ReasonCode::CommitmentLate);
    let folder = tempfile::tempdir().unwrap();
    let longer = policy(folder.path(), "commit_deadline = \"60s\"");
    let (code, text) = rejudge(&stage.validator, &[&longer]);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("fail commitment_late -> the evidence ends before a verdict"), "{text}");
}
