//! Keys that change, and keys that are revoked.

use std::fs;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use assay_integration_tests::daemon::run;
use assay_integration_tests::miner::{TestMiner, device_ids};
use assay_integration_tests::raw::{hello, last_words, proof, proved, welcomed};
use assay_integration_tests::validator::{Policy, TestValidator};
use assay_protocol::identity::Identity;
use assay_protocol::message::{RefusedCode, ValidatorMessage};
use assay_protocol::verdict::{Mode, ReasonCode};
use assay_work::{Precision, PublicKey};

use super::reload::{Configured, allowing};

/// Rotates a program's key: the new key, and the output about it.
fn rotate(program: &str, key_file: &Path, overlap: &str) -> (PublicKey, String) {
    let flags = [format!("--key-file={}", key_file.display()), format!("--overlap={overlap}")];
    let output = run(program, ["key", "rotate"].map(str::to_owned).iter().chain(&flags));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    (String::from_utf8(output.stdout).unwrap().trim().parse().unwrap(), said)
}

fn revoking(keys: &[PublicKey]) -> String {
    format!("revoked_miners = {:?}\n", keys.iter().map(ToString::to_string).collect::<Vec<_>>())
}

fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// Before the rotation, with the old key after it, with the new key by the old one's word, and by its own.
#[tokio::test(flavor = "multi_thread")]
async fn a_miner_with_a_new_key_is_the_miner_that_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let policy = Policy { flags: vec!["--kinds=fp8,int8,f16".to_owned()], ..Policy::default() };
    let mut configured = Configured::start(policy, "").await;
    let mut miner = TestMiner::start(configured.validator.address, 2, &[]);
    let (old, key_file, stolen) = (miner.key, miner.file("miner.key"), folder.path().join("stolen.key"));
    configured.reload(&allowing(&[old]));
    configured.validator.wait_for_miner(old, true).await;
    configured.validator.challenge(old, Some(Mode::Audit)).await.unwrap().expect_pass();
    fs::copy(&key_file, &stolen).unwrap();
    let ids = device_ids(&key_file, 2);

    let (new, said) = rotate("assay-miner", &key_file, "1h");
    let restart = format!("The running miner, process {}, goes on with the key", miner.daemon.id());
    assert!(said.contains(&restart) && said.contains(&old.to_string()), "{said}");
    configured.validator.challenge(old, Some(Mode::Audit)).await.unwrap().expect_pass();
    assert_eq!(device_ids(&key_file, 2), ids, "the devices are the same");

    miner.restart_with(1);
    let line = configured.validator.daemon.wait_for("put the new key in its place");
    assert_eq!((&line["miner"], &line["follows"]), (&new.to_string().into(), &old.to_string().into()), "{line}");
    configured.validator.wait_for_miner(new, true).await;
    configured.validator.wait_for_miner(old, false).await;
    let ruling = configured.validator.challenge(new, Some(Mode::Audit)).await.unwrap();
    ruling.expect(ReasonCode::DeviceMissing);
    assert_eq!(ruling.verdict.precision, Precision::F16.code(), "the turn of the miner");
    let missing = &ruling.verdict.missing_devices[0].device_id;
    assert!(ids.iter().any(|id| id.0.as_slice() == missing.as_slice()), "what the old key showed is missed");

    // The operator does as the line says; the old key has no owner any more.
    configured.reload(&allowing(&[new]));
    let mut thief = TestMiner::start_as(configured.validator.address, &stolen, &[]);
    thief.daemon.wait_for("the validator refused this miner (NotAllowed)");
    configured.validator.daemon.kill();
    configured.validator.restart().await;
    configured.validator.wait_for_miner(new, true).await;
    let ruling = configured.validator.challenge(new, Some(Mode::Audit)).await.unwrap();
    ruling.expect(ReasonCode::DeviceMissing);
    miner.daemon.kill();
    configured.validator.wait_for_miner(new, false).await;
    miner.restart_with(2);
    configured.validator.wait_for_miner(new, true).await;
    let ruling = configured.validator.challenge(new, Some(Mode::Audit)).await.unwrap();
    ruling.expect_pass();
    assert!(ruling.verdict.new_devices.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_overlap_that_is_over_admits_nobody_and_says_so() {
    let (old, new) = (Identity::from_seed(&[0x31; 32]), Identity::from_seed(&[0x33; 32]));
    let flags = vec![format!("--allowed-miners={}", old.public_key())];
    let validator = TestValidator::start(&Policy { flags, ping_interval_ms: 10_000, ..Policy::default() }).await;
    let until = |until| {
        let statement = old.succeed(new.public_key(), until);
        hello(&new.clone().following(&[statement], old.public_key()))
    };
    let said = format!("this key followed {}, which the validator's operator had let in, until", old.public_key());
    match proved(&validator, &until(unix_seconds()), &new).await {
        ValidatorMessage::Refused { code: RefusedCode::NotAllowed, detail, .. } => {
            assert!(detail.contains(&said), "{detail}")
        }
        other => panic!("no refusal but {other:?}"),
    }
    // A session ends with the overlap that it stands on.
    let soon = until(unix_seconds() + 8);
    let (miner, welcome) = welcomed(&validator, &soon).await;
    miner.say(proof(&soon, &welcome, &new)).await;
    let detail = last_words(miner).await;
    assert!(detail.contains(&said), "{detail}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_miner_follows_the_key_that_it_pins_to_the_next_one() {
    let mut validator = TestValidator::start(&Policy::default()).await;
    let (old, key_file) = (validator.key, validator.file("validator.key"));
    let mut miner = TestMiner::start_at(&format!("{}#{old}", validator.address), &[], Vec::new());
    validator.wait_for_miner(miner.key, true).await;
    let (new, said) = rotate("assay-validator", &key_file, "1h");
    assert!(said.contains(&format!("The running validator, process {}, goes on", validator.daemon.id())), "{said}");
    let ruling = validator.challenge(miner.key, Some(Mode::Audit)).await.unwrap();
    assert_eq!(ruling.expect_pass().verdict.validator_key, old.0);

    validator.daemon.kill();
    validator.restart().await;
    let line = miner.daemon.wait_for("the validator's key follows the configured one, and is kept");
    assert_eq!((&line["validator"], &line["level"]), (&new.to_string().into(), &"INFO".into()), "{line}");
    validator.wait_for_miner(miner.key, true).await;
    let ruling = validator.challenge(miner.key, Some(Mode::Audit)).await.unwrap();
    assert_eq!(ruling.expect_pass().verdict.validator_key, new.0);

    // This miner has the new key now; one that has the old key alone follows no more.
    fs::remove_file(key_file.with_extension("key.successors")).unwrap();
    validator.daemon.kill();
    validator.restart().await;
    validator.wait_for_miner(miner.key, true).await;
    let mut late = TestMiner::start_at(&format!("{}#{old}", validator.address), &[], Vec::new());
    assert_eq!(late.daemon.wait().code(), Some(78));
    let log = late.daemon.log().join("\n");
    assert!(log.contains(&new.to_string()) && log.contains(&old.to_string()), "{log}");
}

/// A challenge of a revoked key is not waited for, and a new key does not avoid that.
#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_miner_is_gone_with_its_challenge() {
    let mut configured = Configured::start(Policy { iterations: 60_000, ..Policy::default() }, "").await;
    let [mut busy, mut idle, kept] = [(); 3].map(|()| TestMiner::start_pinned(&configured.validator, &[]));
    let keys = [busy.key, idle.key, kept.key];
    configured.reload(&allowing(&keys));
    for key in keys {
        configured.validator.wait_for_miner(key, true).await;
    }
    let challenge = configured.validator.ask(busy.key, Some(Mode::Audit)).await.unwrap();
    busy.daemon.wait_for("working");
    configured.reload(&(allowing(&keys) + &revoking(&[busy.key, idle.key])));
    let ruling = challenge.ruling().await.unwrap();
    ruling.expect(ReasonCode::Cancelled);
    assert!(ruling.verdict.reasons[0].detail.contains("revoked"), "{:?}", ruling.verdict.reasons);
    for miner in [&mut busy, &mut idle] {
        assert_eq!(miner.daemon.wait().code(), Some(78), "only its operator can mend that");
        let log = miner.daemon.log().join("\n");
        assert!(log.contains("this key was revoked by the validator's operator"), "{log}");
        configured.validator.wait_for_miner(miner.key, false).await;
    }
    assert_eq!(configured.validator.miners().await.len(), 1, "the third one stays");

    rotate("assay-miner", &idle.file("miner.key"), "1h");
    idle.restart();
    assert_eq!(idle.daemon.wait().code(), Some(78));
    let log = idle.daemon.log().join("\n");
    assert!(log.contains("vouches for nobody") && log.contains(&idle.key.to_string()), "{log}");
}

/// A key by which another one was admitted is revoked: the other one goes, too.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_stands_on_a_revoked_one_goes_with_it() {
    let mut configured = Configured::start(Policy::default(), "").await;
    let mut miner = TestMiner::start_pinned(&configured.validator, &[]);
    configured.reload(&allowing(&[miner.key]));
    configured.validator.wait_for_miner(miner.key, true).await;
    let (new, _) = rotate("assay-miner", &miner.file("miner.key"), "1h");
    miner.restart();
    configured.validator.wait_for_miner(new, true).await;
    configured.reload(&(allowing(&[miner.key]) + &revoking(&[miner.key])));
    assert_eq!(miner.daemon.wait().code(), Some(78));
    assert!(miner.daemon.log().join("\n").contains("vouches for nobody"));
    // Its own line on the list mends it.
    configured.reload(&(allowing(&[new]) + &revoking(&[miner.key])));
    miner.restart();
    configured.validator.wait_for_miner(new, true).await;
}

#[test]
fn what_cannot_be_rotated_is_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("miner.key");
    let flag = format!("--key-file={}", path.display());
    for program in ["assay-miner", "assay-validator"] {
        let missing = run(program, ["key", "rotate", &flag]);
        assert_eq!(missing.status.code(), Some(74), "{missing:?}");
        assert!(!path.exists());
        let key = run(program, ["key", &flag]).stdout;
        let text = fs::read(&path).unwrap();
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o640)).unwrap();
        let exposed = run(program, ["key", "rotate", &flag]);
        let said = String::from_utf8(exposed.stderr).unwrap();
        assert!(exposed.status.code() == Some(78) && said.contains("chmod 600"), "{said}");
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        for (overlap, code) in [("366d", 64), ("30", 64)] {
            assert_eq!(run(program, ["key", "rotate", &flag, "--overlap", overlap]).status.code(), Some(code));
        }
        assert_eq!((fs::read(&path).unwrap(), run(program, ["key", &flag]).stdout), (text, key));
        fs::remove_file(&path).unwrap();
    }
}
