//! Certificates of an authority: wrong ones, expired ones, and one that is renewed.

use assay_integration_tests::authority::Authority;
use assay_integration_tests::daemon::run;
use assay_integration_tests::miner::TestMiner;
use assay_integration_tests::validator::{Policy, TestValidator};

fn command(validator: &TestValidator, command: &str) -> String {
    let socket = format!("--control-socket={}", validator.socket.display());
    let output = run("assay-validator", [command, &socket]);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!("{}{}", text(&output.stdout), text(&output.stderr))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_is_for_its_host_and_its_time_and_is_renewed_while_the_validator_runs() {
    let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (authority, stranger) = (Authority::new(), Authority::new());
    let trusted = authority.file(other.path());
    let files = stranger.issue(folder.path(), &["127.0.0.1"], 2099);
    let flags =
        vec![format!("--tls-cert={}", files.certificate.display()), format!("--tls-key={}", files.key.display())];
    let mut validator = TestValidator::start(&Policy { flags: flags.clone(), ..Policy::default() }).await;
    let trusts = format!("--validator-ca={}", trusted.display());
    let mut miner = TestMiner::start_at(&format!("assay://{}", validator.address), &[&trusts], Vec::new());
    miner.daemon.wait_for("no authority that is trusted here issued");
    // Another host's certificate.
    let _ = authority.issue(folder.path(), &["other.example", "10.0.0.1"], 2099);
    validator.daemon.hang_up();
    let line = miner.daemon.wait_for("is not for 127.0.0.1").to_string();
    assert!(line.contains("other.example") && line.contains("10.0.0.1"), "{line}");
    // One that has expired: the validator says so, and the miner tries on.
    let _ = authority.issue(folder.path(), &["127.0.0.1"], 2020);
    assert!(command(&validator, "reload").contains("tls_cert"));
    validator.daemon.wait_for("the certificate in tls_cert expired on 2020-12-31");
    miner.daemon.wait_for("the server's certificate expired on 2020-12-31");
    assert!(command(&validator, "status").contains("expired on 2020-12-31"));
    let key = format!("--key-file={}", folder.path().join("none.key").display());
    let check = ["config", "check", &key, &flags[0], &flags[1]];
    let checked = run("assay-validator", check);
    let said = String::from_utf8_lossy(&checked.stderr);
    assert!(checked.status.success() && said.contains("warning: the certificate in tls_cert expired on"), "{said}");
    assert!(command(&validator, "address").contains("expires on 2020-12-31"));
    // One that ends soon is served and warned of; a malformed file changes nothing.
    let _ = authority.issue(folder.path(), &["127.0.0.1"], 2099);
    assert!(command(&validator, "reload").contains("tls_cert"));
    validator.wait_for_miner(miner.key, true).await;
    validator.challenge(miner.key, None).await.unwrap().expect_pass();
    std::fs::write(&files.certificate, "nothing").unwrap();
    let refused = command(&validator, "reload");
    assert!(refused.contains("nothing has changed") && refused.contains("no certificate in PEM"), "{refused}");
    miner.restart();
    miner.daemon.wait_for("connected: waiting");
    // A miner that pins the key gets the validator's own certificate.
    let pinned = TestMiner::start_at(&format!("assay://{}#{}", validator.address, validator.key), &[], Vec::new());
    validator.wait_for_miner(pinned.key, true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_session_proves_the_given_key_whatever_an_authority_says() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let files = authority.issue(folder.path(), &["127.0.0.1"], 2099);
    let flags =
        vec![format!("--tls-cert={}", files.certificate.display()), format!("--tls-key={}", files.key.display())];
    let validator = TestValidator::start(&Policy { flags, ..Policy::default() }).await;
    let trusts = format!("--validator-ca={}", authority.file(folder.path()).display());
    let wrong = format!("assay://{}#{}", validator.address, "8a".repeat(32));
    let mut miner = TestMiner::start_at(&wrong, &[&trusts], Vec::new());
    miner.daemon.wait_for(&format!("the validator's key is {}", validator.key));
    assert_eq!(miner.daemon.wait().code(), Some(78));
    let right = format!("assay://{}#{}", validator.address, validator.key);
    let miner = TestMiner::start_at(&right, &[&trusts], Vec::new());
    validator.wait_for_miner(miner.key, true).await;
}

#[test]
fn a_validator_without_its_certificate_does_not_start() {
    let folder = tempfile::tempdir().unwrap();
    let files = Authority::new().issue(folder.path(), &["a"], 2099);
    std::fs::remove_file(&files.key).unwrap();
    let output = run(
        "assay-validator",
        [
            "serve".to_owned(),
            "--listen=127.0.0.1:0".to_owned(),
            format!("--key-file={}", folder.path().join("validator.key").display()),
            format!("--control-socket={}", folder.path().join("control.sock").display()),
            format!("--tls-cert={}", files.certificate.display()),
            format!("--tls-key={}", files.key.display()),
        ],
    );
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(78) && text.contains("server.key"), "{text}");
}
