//! Admission: join tokens, approvals, and operators' decisions about miners that are here.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use assay_integration_tests::daemon::{Daemon, PATIENCE, program, run};
use assay_integration_tests::miner::TestMiner;
use assay_integration_tests::postgres::Postgres;
use assay_integration_tests::raw::{hello, last_words, proof, proved, welcomed};
use assay_integration_tests::validator::{Policy, TestValidator};
use assay_protocol::identity::Identity;
use assay_protocol::message::{RefusedCode, ValidatorMessage};
use assay_protocol::verdict::{Mode, ReasonCode};
use assay_work::PublicKey;

use super::operator::{json, operate, plain};

async fn validator(enrolment: &str) -> TestValidator {
    let flags = vec![format!("--enrolment={enrolment}")];
    TestValidator::start(&Policy { flags, ..Policy::default() }).await
}

fn enroll(validator: &TestValidator, options: &str) -> String {
    let token = plain(validator, format!("enroll {options}").trim_end()).trim().to_owned();
    assert!(token.starts_with("assay-join-") && !token.contains(char::is_whitespace), "{token}");
    token
}

/// A file with a token, as an operator keeps it.
fn token_file(folder: &Path, token: &str) -> String {
    let path = folder.join("join-token");
    fs::write(&path, format!("{token}\n")).unwrap();
    format!("--join-token-file={}", path.display())
}

/// Waits for a miner that has to end for its operator; gives its log.
fn refused(miner: &mut TestMiner) -> String {
    assert_eq!(miner.daemon.wait().code(), Some(78), "{:?}", miner.daemon.log());
    miner.daemon.log().join("\n")
}

fn unix_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as i64
}

fn own_uid() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

fn record(validator: &TestValidator, key: PublicKey) -> serde_json::Value {
    json(validator, &format!("show {key}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_lets_in_one_miner_with_its_labels() {
    let (validator, folder) = (validator("token").await, tempfile::tempdir().unwrap());
    let log = refused(&mut TestMiner::start_pinned(&validator, &[]));
    assert!(log.contains("takes new miners by join token") && log.contains("join_token_file"), "{log}");

    let token = enroll(&validator, "--label rack=7 --label operator=north --expires 1h");
    let file = token_file(folder.path(), &token);
    let mut miner = TestMiner::start(validator.address, 1, &[&file]);
    validator.wait_for_miner(miner.key, true).await;
    miner.daemon.wait_for("the join token is forgotten");
    validator.challenge(miner.key, Some(Mode::Audit)).await.unwrap().expect_pass();
    let known = record(&validator, miner.key);
    assert_eq!((&known["status"], &known["admitted"]), (&"approved".into(), &"approved".into()), "{known}");
    assert_eq!(known["labels"], serde_json::json!({ "rack": "7", "operator": "north" }));

    // Once more, by another key: it was used.
    let log = refused(&mut TestMiner::start_pinned(&validator, &[&file]));
    assert!(log.contains("the join token has been used by another key"), "{log}");
    // The same miner with the same settings: its key is known, and the token is not checked.
    miner.restart();
    validator.wait_for_miner(miner.key, true).await;
    fs::remove_file(folder.path().join("join-token")).unwrap();
    miner.restart();
    miner.daemon.wait_for("the file is gone, and this miner has its key");
    validator.wait_for_miner(miner.key, true).await;

    let tokens = json(&validator, "enroll --list");
    assert_eq!(tokens[0]["used_by"], known["id"], "{tokens}");
    assert!(tokens[0]["created_by"].is_string() && tokens[0].get("token").is_none());
    for entry in fs::read_dir(validator.file(".")).unwrap() {
        let path = entry.unwrap().path();
        let is_kept =
            fs::read(&path).is_ok_and(|bytes| bytes.windows(token.len()).any(|part| part == token.as_bytes()));
        assert!(!is_kept, "only the token's hash is kept, not in {}", path.display());
    }
}

/// Regression test: records that were missing for a while ended each miner of the fleet for good.
#[tokio::test(flavor = "multi_thread")]
async fn a_miner_that_was_let_in_waits_for_records_to_come_back() {
    let (mut validator, folder) = (validator("token").await, tempfile::tempdir().unwrap());
    let file = token_file(folder.path(), &enroll(&validator, ""));
    let mut miner = TestMiner::start_pinned(&validator, &[&file]);
    validator.wait_for_miner(miner.key, true).await;
    fs::remove_file(folder.path().join("join-token")).unwrap();
    let (records, aside) = (validator.file("validator.db"), validator.file("aside.db"));
    validator.daemon.terminate();
    validator.daemon.wait();
    fs::rename(&records, &aside).unwrap();
    validator.restart().await;
    miner.daemon.wait_for("takes new miners by join token");
    validator.daemon.terminate();
    validator.daemon.wait();
    fs::rename(&aside, &records).unwrap();
    validator.restart().await;
    validator.wait_for_miner(miner.key, true).await;
}

/// By its own word, not only while the old key vouches for it.
#[tokio::test(flavor = "multi_thread")]
async fn the_new_key_of_an_approved_miner_is_approved() {
    let (mut validator, folder) = (validator("token").await, tempfile::tempdir().unwrap());
    let file = token_file(folder.path(), &enroll(&validator, ""));
    let mut miner = TestMiner::start(validator.address, 1, &[&file]);
    validator.wait_for_miner(miner.key, true).await;
    // The validator has read the decisions again, once a second where there are new ones, and reads them no more.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let key_file = format!("--key-file={}", miner.file("miner.key").display());
    let rotated = run("assay-miner", ["key", "rotate", &key_file]);
    let new: PublicKey = String::from_utf8(rotated.stdout).unwrap().trim().parse().unwrap();
    miner.restart();
    validator.wait_for_miner(new, true).await;
    let is_approved = async {
        while record(&validator, new)["admitted"] != "approved" {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, is_approved).await.expect("it is approved");
    assert!(!validator.daemon.log().join("\n").contains("allowed_miners"), "there is no such list");
    let old = &miner.key.to_string()[..8];
    let asked = operate(&validator, &format!("challenge --miner {old}"));
    assert!(asked.out.starts_with("PASS"), "by its old key: {} {}", asked.out, asked.errors);
}

/// Also at a validator of the same records where the newer key has not been, and for a session there.
#[tokio::test(flavor = "multi_thread")]
async fn an_approved_miners_older_key_counts_no_more() {
    let database = Postgres::shared().database();
    let flags = vec!["--enrolment=approve".to_owned(), format!("--records={}&sslmode=disable", database.url())];
    let policy = Policy { flags, ping_interval_ms: 30_000, ..Policy::default() };
    let [here, there, stale] = [&policy; 3].map(TestValidator::start);
    let (here, there, stale) = tokio::join!(here, there, stale);
    let old = Identity::from_seed(&[0x31; 32]);
    let following = |seed: u8| {
        let (new, until) = (Identity::from_seed(&[seed; 32]), unix_ms() as u64 / 1000 + 3600);
        new.clone().following(&[old.succeed(new.public_key(), until)], old.public_key())
    };
    let (new, thief) = (following(0x33), following(0x35));
    plain(&here, &format!("approve {}", old.public_key()));
    let (mut copy, welcome) = welcomed(&there, &hello(&old)).await;
    copy.say(proof(&hello(&old), &welcome, &old)).await;
    assert!(matches!(copy.hear().await, Some(ValidatorMessage::Accepted(_))));
    // The others have read the decisions again for the approval, and do so no more.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let said = proved(&here, &hello(&new), &new).await;
    assert!(matches!(said, ValidatorMessage::Accepted(_)), "{said:?}");
    for (validator, first, copy) in [(&here, 1, None), (&stale, 0, None), (&there, 0, Some(copy))] {
        if let Some(copy) = copy {
            let told = last_words(copy).await;
            assert!(told.contains("has connected with a newer key"), "{told}");
        }
        let mut comes = [
            (&thief, RefusedCode::Pending, "waits for the validator's operator"),
            (&old, RefusedCode::NotAllowed, "has connected with a newer key"),
        ];
        comes.rotate_left(first);
        for (identity, code, why) in comes {
            match proved(validator, &hello(identity), identity).await {
                ValidatorMessage::Refused { code: said, detail, .. } if said == code => {
                    assert!(detail.contains(why), "{detail}")
                }
                other => panic!("{}: no such refusal but {other:?}", identity.public_key()),
            }
        }
        let said = proved(validator, &hello(&new), &new).await;
        assert!(matches!(said, ValidatorMessage::Accepted(_)), "{said:?}");
    }
}

/// Also where a key is let in without a token, or waits.
#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_is_used_expired_or_unknown_lets_nobody_in() {
    for enrolment in ["token", "approve", "open"] {
        let (validator, folder) = (validator(enrolment).await, tempfile::tempdir().unwrap());
        let expired = enroll(&validator, "--expires 1s");
        let expired_ms = unix_ms() + 1000;
        let (used, unknown) = (enroll(&validator, ""), format!("assay-join-{}", "0".repeat(64)));
        let miner = TestMiner::start(validator.address, 1, &[&token_file(folder.path(), &used)]);
        validator.wait_for_miner(miner.key, true).await;
        while unix_ms() <= expired_ms {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        for (token, why) in [
            (expired.as_str(), "has expired"),
            (&unknown, "is unknown"),
            ("assay-join-7", "is unknown"),
            (&used, "has been used by another key"),
        ] {
            let log = refused(&mut TestMiner::start_pinned(&validator, &[&token_file(folder.path(), token)]));
            assert!(log.contains(why) && !log.contains(token), "{enrolment}: {why}: {log}");
            assert!(!log.contains("accepted: "), "{enrolment}: {log}");
        }
        assert_eq!(validator.miners().await.len(), 1, "{enrolment}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_is_none_is_refused_at_once() {
    let (validator, folder) = (validator("token").await, tempfile::tempdir().unwrap());
    let mut miner = TestMiner::start(validator.address, 1, &[&token_file(folder.path(), "two words")]);
    assert!(refused(&mut miner).contains("a join token is one word"));
    let missing = format!("--join-token-file={}", folder.path().join("missing").display());
    // A key from an earlier start is there: the file is not asked for, and the validator is.
    assert!(refused(&mut TestMiner::start_pinned(&validator, &[&missing])).contains("by join token"));
    assert!(validator.miners().await.is_empty());
    for (options, why) in [("--expires 0s", "expires"), ("--expires 9999w", "expires"), ("--label rack", "NAME=VALUE")]
    {
        let said = operate(&validator, &format!("enroll {options}"));
        assert!(said.code == 64 && said.errors.contains(why), "{}: {}", said.code, said.errors);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_comes_from_standard_input_or_the_environment() {
    let (validator, folder) = (validator("token").await, tempfile::tempdir().unwrap());
    let variable = ("ASSAY_MINER_JOIN_TOKEN".to_owned(), OsString::from(enroll(&validator, "")));
    let miner = TestMiner::start_in(validator.address, 1, &[], vec![variable]);
    validator.wait_for_miner(miner.key, true).await;

    let _ = token_file(folder.path(), &enroll(&validator, "--label from=stdin"));
    let key_file = folder.path().join("miner.key");
    let mut shell = Command::new("sh");
    shell.args(["-c", "file=$1; shift; exec \"$0\" \"$@\" < \"$file\""]).arg(program("assay-miner"));
    shell.arg(folder.path().join("join-token")).args([
        "run",
        "--join-token-file=-",
        "--backend=cpu",
        "--cpu-devices=1",
    ]);
    shell.args(["--cpu-memory=8MiB", "--cpu-threads=1", "--telemetry=off", "--log-format=json"]);
    shell.args([format!("--validator={}", validator.address), format!("--key-file={}", key_file.display())]);
    let mut first_start = Daemon::spawn(shell.env("ASSAY_MINER_CONFIG", "/dev/null"));
    first_start.wait_for("the join token is forgotten");
    let key = Identity::load_or_create(&key_file).unwrap().public_key();
    validator.wait_for_miner(key, true).await;
    assert_eq!(record(&validator, key)["labels"]["from"], "stdin");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_waits_until_an_operator_approves_it() {
    let mut validator = validator("approve").await;
    let mut miner = TestMiner::start(validator.address, 2, &[]);
    let key = miner.key;
    miner.daemon.wait_for("this key waits for the validator's operator");
    let waiting = json(&validator, "miners --status pending");
    assert_eq!(waiting[0]["key"], key.to_string(), "{waiting}");
    assert_eq!((&waiting[0]["address"], waiting.as_array().unwrap().len()), (&"127.0.0.1".into(), 1));
    assert_eq!(
        json(&validator, &format!("devices --miner {key}")).as_array().unwrap().len(),
        2,
        "what it says of itself"
    );
    assert!(validator.miners().await.is_empty());
    let error = validator.challenge(key, None).await.unwrap_err();
    assert!(error.to_string().contains("is not connected"), "{error}");

    // The code, and the time to come back.
    let stranger = Identity::from_seed(&[0x51; 32]);
    let answered = answer(&validator, &stranger).await;
    let ValidatorMessage::Refused { code: RefusedCode::Pending, retry_after: Some(after), .. } = answered else {
        panic!("{answered:?}")
    };
    assert!(after >= Duration::from_secs(1), "{after:?}");

    let said = plain(&validator, &format!("approve {}", &key.to_string()[..8]));
    assert_eq!(said.trim(), format!("miner {key}: pending → approved"));
    validator.wait_for_miner(key, true).await;
    validator.challenge(key, Some(Mode::Audit)).await.unwrap().expect_pass();
    let actions = record(&validator, key)["actions"].clone();
    assert_eq!((&actions[0]["action"], actions[0]["actor"]["uid"].as_u64()), (&"approve".into(), Some(own_uid())));
    assert!(!actions[0]["actor"]["name"].as_str().unwrap().is_empty(), "{actions}");

    // It stays so, and one that never came is approved by its whole key.
    validator.daemon.kill();
    validator.restart().await;
    validator.wait_for_miner(key, true).await;
    let said = operate(&validator, &format!("approve {}", "ab".repeat(8)));
    assert!(said.code == 2 && said.errors.contains("takes its whole key"), "{}", said.errors);
    let other = Identity::from_seed(&[0x52; 32]);
    plain(&validator, &format!("approve {}", other.public_key()));
    assert!(matches!(answer(&validator, &other).await, ValidatorMessage::Accepted(_)));
}

/// The validator's answer to a miner with this key that proves it.
async fn answer(validator: &TestValidator, identity: &Identity) -> ValidatorMessage {
    proved(validator, &hello(identity), identity).await
}

/// A stranger who names a key learns nothing of the records about it.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_known_of_a_key_is_said_to_its_holder_alone() {
    let validator = validator("token").await;
    let [unknown, approved, suspended, revoked] = [1, 2, 3, 4].map(|seed| Identity::from_seed(&[0x60 + seed; 32]));
    for (action, identity) in [("approve", &approved), ("approve", &suspended), ("suspend", &suspended)] {
        plain(&validator, &format!("{action} {}", identity.public_key()));
    }
    for action in ["approve", "revoke"] {
        plain(&validator, &format!("{action} {}", revoked.public_key()));
    }
    let stranger = Identity::from_seed(&[0x65; 32]);
    for (named, code) in [
        (&unknown, Some(RefusedCode::JoinToken)),
        (&approved, None),
        (&suspended, Some(RefusedCode::Suspended)),
        (&revoked, Some(RefusedCode::NotAllowed)),
    ] {
        let to_stranger = proved(&validator, &hello(named), &stranger).await;
        assert!(matches!(to_stranger, ValidatorMessage::Refused { code: RefusedCode::Signature, .. }));
        match answer(&validator, named).await {
            ValidatorMessage::Refused { code: found, .. } => assert_eq!(Some(found), code),
            other => assert!(code.is_none() && matches!(other, ValidatorMessage::Accepted(_)), "{other:?}"),
        }
    }
}

/// Neither is waited for: a running challenge ends with the session.
#[tokio::test(flavor = "multi_thread")]
async fn a_miner_that_is_suspended_or_revoked_is_gone_with_its_challenge() {
    let policy = Policy { iterations: 60_000, ..Policy::default() };
    let validator = TestValidator::start(&policy).await;
    let mut miner = TestMiner::start_pinned(&validator, &[]);
    let key = miner.key;
    for (action, word, status) in [("suspend", "suspended", "suspended"), ("revoke", "revoked", "revoked")] {
        validator.wait_for_miner(key, true).await;
        let challenge = validator.ask(key, Some(Mode::Audit)).await.unwrap();
        miner.daemon.wait_for("working");
        plain(&validator, &format!("{action} {key}"));
        let ruling = challenge.ruling().await.unwrap();
        ruling.expect(ReasonCode::Cancelled);
        assert!(ruling.verdict.reasons[0].detail.contains(word), "{:?}", ruling.verdict.reasons);
        validator.wait_for_miner(key, false).await;
        assert_eq!(record(&validator, key)["status"], status);
        if action == "suspend" {
            // The refusal says so, and when to come back; resumed, the miner is admitted again.
            miner.daemon.wait_for("the validator refused this miner (Suspended)");
            plain(&validator, &format!("resume {key}"));
            miner.restart();
        }
    }
    let log = refused(&mut miner);
    assert!(log.contains("this key was revoked by the validator's operator"), "{log}");
    let said = operate(&validator, &format!("resume {key}"));
    assert!(said.code == 2 && said.errors.contains("this miner is revoked"), "{}", said.errors);
    let actions = record(&validator, key)["actions"].clone();
    let details: Vec<_> = actions.as_array().unwrap().iter().map(|action| action["detail"].as_str().unwrap()).collect();
    assert_eq!(details, ["approved → revoked", "suspended → approved", "pending → suspended"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn labels_are_set_and_taken_away_by_operators() {
    let validator = validator("open").await;
    let (one, other) = (TestMiner::start(validator.address, 1, &[]), TestMiner::start(validator.address, 1, &[]));
    for key in [one.key, other.key] {
        validator.wait_for_miner(key, true).await;
    }
    let prefix = &one.key.to_string()[..12];
    let said = plain(&validator, &format!("label {prefix} rack=7 operator=north"));
    assert_eq!(said.trim(), format!("miner {}: operator=north rack=7", one.key));
    plain(&validator, &format!("label {prefix} rack=8 -operator"));
    assert_eq!(record(&validator, one.key)["labels"], serde_json::json!({ "rack": "8" }));
    let labelled = json(&validator, "miners --label rack=8");
    assert_eq!((labelled.as_array().unwrap().len(), &labelled[0]["key"]), (1, &one.key.to_string().into()));
    assert_eq!(json(&validator, "miners --label rack=7"), serde_json::json!([]));
    assert_eq!(json(&validator, "miners --all").as_array().unwrap().len(), 2);
    for (edit, code) in [("rack", 64), ("=7", 64), ("--json", 64), ("rack=1 -rack", 64)] {
        let said = operate(&validator, &format!("label {prefix} {edit}"));
        assert_eq!(said.code, code, "{edit}: {}", said.errors);
    }
    let actions = record(&validator, one.key)["actions"].clone();
    assert_eq!((&actions[0]["action"], actions.as_array().unwrap().len()), (&"label".into(), 2));
}

/// An operator talks to one validator; the others have the same records.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_decided_at_one_validator_holds_at_the_other() {
    let database = Postgres::shared().database();
    let flags = vec!["--enrolment=approve".to_owned(), format!("--records={}&sslmode=disable", database.url())];
    let policy = Policy { flags, ..Policy::default() };
    let (here, there) = (TestValidator::start(&policy).await, TestValidator::start(&policy).await);
    let mut miner = TestMiner::start(there.address, 1, &[]);
    miner.daemon.wait_for("this key waits for the validator's operator");
    plain(&here, &format!("approve {}", miner.key));
    there.wait_for_miner(miner.key, true).await;
    let in_state = |state: &str| {
        let listed = |validator| json(validator, &format!("miners --state {state}")).as_array().unwrap().len();
        [&here, &there].map(listed)
    };
    there.challenge(miner.key, Some(Mode::Audit)).await.unwrap().expect_pass();
    assert_eq!(in_state("passing"), [1, 1]);
    // Each word counts at both at once, and a pass does not undo it.
    let says =
        |word: &str| plain(&here, &format!("{word} {}", miner.key)).trim().rsplit(' ').next().unwrap().to_owned();
    assert_eq!(says("quarantine"), "quarantined");
    there.challenge(miner.key, Some(Mode::Audit)).await.unwrap().expect_pass();
    assert_eq!((in_state("passing"), in_state("quarantined")), ([0, 0], [1, 1]));
    let reason = record(&there, miner.key)["reason"]["why"].clone();
    assert!(reason.as_str().unwrap().starts_with("it is in quarantine until an operator releases it"), "{reason}");
    assert_eq!(says("release"), "failed");
    for _ in 0..3 {
        there.challenge(miner.key, Some(Mode::Audit)).await.unwrap().expect_pass();
    }
    assert_eq!(in_state("passing"), [1, 1], "the passes that it owed are there");
    assert_eq!(operate(&here, &format!("release {}", miner.key)).code, 2, "it is in no quarantine");
    says("suspend");
    assert_eq!((in_state("passing"), in_state("suspended")), ([0, 0], [1, 1]));
    there.wait_for_miner(miner.key, false).await;
    miner.daemon.wait_for("the validator refused this miner (Suspended)");
    says("resume");
    assert_eq!(in_state("enrolled"), [1, 1], "it is attested by its next pass");
    says("revoke");
    assert_eq!((in_state("revoked"), in_state("passing")), ([1, 1], [0, 0]));
    let actions: Vec<_> = record(&here, miner.key)["actions"].as_array().unwrap().iter().rev().cloned().collect();
    let names: Vec<_> = actions.iter().map(|action| action["action"].as_str().unwrap()).collect();
    assert_eq!(names, ["approve", "quarantine", "release", "suspend", "resume", "revoke"]);
}
