//! A validator's own key: configured, trusted on first use, or another one.

use assay_integration_tests::daemon::run;
use assay_integration_tests::miner::TestMiner;
use assay_integration_tests::validator::{Policy, TestValidator};
use assay_protocol::identity::Identity;
use assay_protocol::verdict::Mode;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

/// The exit code of a miner whose operator has to act.
const CONFIG: Option<i32> = Some(78);

/// The output of `assay-validator address`.
fn told(validator: &TestValidator, flags: &[&str]) -> String {
    let own = [
        format!("--control-socket={}", validator.socket.display()),
        format!("--key-file={}", validator.file("validator.key").display()),
    ];
    let flags = flags.iter().map(|flag| (*flag).to_owned());
    let output = run("assay-validator", ["address".to_owned()].into_iter().chain(own).chain(flags));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("a text").trim_end().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_honest_miner_that_was_told_the_address_passes() {
    let validator = TestValidator::start(&Policy::default()).await;
    let target = told(&validator, &[]);
    assert_eq!(target, format!("assay://{}#{}", validator.address, validator.key));
    let miner = TestMiner::start_at(&target, &[], Vec::new());
    validator.wait_for_miner(miner.key, true).await;
    for mode in [Mode::Replay, Mode::Audit] {
        validator.challenge(miner.key, Some(mode)).await.unwrap().expect_pass();
    }
    assert!(!miner.file("known_validators").exists(), "the key was told, not kept");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_of_ipv6_does_as_well() {
    let validator = TestValidator::start_on(&Policy::default(), "[::1]:0").await;
    let target = told(&validator, &[]);
    assert!(target.starts_with("assay://[::1]:"), "{target}");
    let miner = TestMiner::start_at(&target, &[], Vec::new());
    validator.wait_for_miner(miner.key, true).await;
    assert!(validator.miners().await[0].address.starts_with("[::1]:"));
    validator.challenge(miner.key, None).await.unwrap().expect_pass();
    // Plaintext as before.
    let plain = TestMiner::start(validator.address, 1, &[]);
    validator.wait_for_miner(plain.key, true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_address_has_the_key_of_the_running_validator_or_without_one_that_of_the_key_file() {
    let mut validator = TestValidator::start(&Policy::default()).await;
    let socket = format!("--control-socket={}", validator.socket.display());
    let (new, other) = (validator.file("new.key"), validator.file("other.key"));
    let other_key = Identity::load_or_create(&other).unwrap().public_key();
    for (file, said) in [(&new, "does not exist".to_owned()), (&other, format!("has {other_key}"))] {
        let refused = run("assay-validator", ["address", &socket, &format!("--key-file={}", file.display())]);
        let why = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(refused.status.code() == CONFIG && refused.stdout.is_empty(), "{refused:?}");
        assert!(why.contains(&said) && why.contains(&validator.key.to_string()), "{why}");
    }
    assert!(!new.exists(), "no key is made that nobody uses");
    let configuration = validator.file("other.toml");
    std::fs::write(&configuration, format!("key_file = {:?}\n", other.display().to_string())).unwrap();
    let told = run("assay-validator", ["address", &socket, &format!("--config={}", configuration.display())]);
    assert!(String::from_utf8_lossy(&told.stdout).contains(&validator.key.to_string()), "{told:?}");
    assert!(String::from_utf8_lossy(&told.stderr).contains(&format!("has {other_key}")), "{told:?}");
    validator.daemon.terminate();
    validator.daemon.wait();
    let key_file = validator.file("validator.key");
    let file = format!("--key-file={}", key_file.display());
    let listening = || run("assay-validator", ["address", "--json", "--control-socket=/nonexistent", &file]);
    let told: serde_json::Value = serde_json::from_slice(&listening().stdout).expect("JSON");
    assert_eq!(told["address"], format!("assay://127.0.0.1:7400#{}", validator.key));
    // None is made beside its records, as for `serve`.
    std::fs::remove_file(&key_file).unwrap();
    let refused = listening();
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == CONFIG && why.contains("restore it") && !key_file.exists(), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_key_ends_the_miner_with_a_sentence() {
    let validator = TestValidator::start(&Policy::default()).await;
    let expected = Identity::from_seed(&[42; 32]).public_key();
    let mut miner = TestMiner::start_at(&format!("assay://{}#{expected}", validator.address), &[], Vec::new());
    let line = miner.daemon.wait_for("cannot serve this validator").to_string();
    for part in [&validator.key.to_string(), &expected.to_string(), "assay-validator address"] {
        assert!(line.contains(part), "{part} in {line}");
    }
    assert_eq!(miner.daemon.wait().code(), CONFIG);
    assert!(validator.miners().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_was_trusted_on_first_use_must_not_change() {
    let mut validator = TestValidator::start(&Policy::default()).await;
    let target = format!("assay://{}", validator.address);
    let mut miner = TestMiner::start_at(&target, &["--trust-on-first-use"], Vec::new());
    miner.daemon.wait_for("trusted on first use");
    validator.wait_for_miner(miner.key, true).await;
    let kept = std::fs::read_to_string(miner.file("known_validators")).unwrap();
    let line = kept.lines().find(|line| line.starts_with(&validator.address.to_string())).unwrap();
    assert!(line.contains(&validator.key.to_string()), "{kept}");
    // The same validator again, after the miner's restart: nothing more is kept.
    miner.restart();
    miner.daemon.wait_for("connected: waiting");
    assert_eq!(std::fs::read_to_string(miner.file("known_validators")).unwrap(), kept);
    // Another validator in its place.
    validator.daemon.kill();
    let address = validator.address.to_string();
    let other = TestValidator::start_on(&Policy::default(), &address).await;
    let line = miner.daemon.wait_for("cannot serve this validator").to_string();
    for part in
        [&validator.key.to_string(), &other.key.to_string(), "has changed", "remove line 3 of", " UTC, now it is"]
    {
        assert!(line.contains(part), "{part} in {line}");
    }
    assert_eq!(miner.daemon.wait().code(), CONFIG);
    // As it says: without the line the new key is trusted.
    std::fs::write(miner.file("known_validators"), "").unwrap();
    miner.restart();
    other.wait_for_miner(miner.key, true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_key_another_machine_is_refused_before_it_is_dialled() {
    let mut miner = TestMiner::start_at("validator.invalid:7400", &[], Vec::new());
    let line = miner.daemon.wait_for("nothing says which validator is the right one").to_string();
    assert!(line.contains("assay-validator address") && line.contains("--trust-on-first-use"), "{line}");
    assert_eq!(miner.daemon.wait().code(), CONFIG);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_tls_is_named_and_tried_again() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        }
    });
    let mut miner = TestMiner::start_at(&format!("assay://{address}"), &["--trust-on-first-use"], Vec::new());
    for _ in 0..2 {
        miner.daemon.wait_for("the server does not speak TLS");
    }
    let mut plain = TestMiner::start(address, 1, &[]);
    plain.daemon.wait_for("the server speaks HTTP/1: it is no validator");
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_in_place_of_a_handshake_ends_its_connection_alone() {
    let validator = TestValidator::start(&Policy::default()).await;
    for garbage in [&[22][..], &[22, 3, 1, 0, 5, 1, 0, 0, 1, 3], &[22; 20_000], &[0; 100], b"GET / HTTP/1.1\r\n\r\n"] {
        let mut stream = tokio::net::TcpStream::connect(validator.address).await.unwrap();
        // It may be closed before all of it was sent.
        let _ = stream.write_all(garbage).await;
    }
    let miner = TestMiner::start_at(&told(&validator, &[]), &[], Vec::new());
    validator.wait_for_miner(miner.key, true).await;
}
