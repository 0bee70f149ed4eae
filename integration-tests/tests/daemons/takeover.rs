//! Two sessions of one key.

use std::time::Duration;

use assay_integration_tests::miner::TestMiner;
use assay_integration_tests::raw::{RawMiner, encoded, hello, proof, welcomed};
use assay_integration_tests::validator::{Policy, TestValidator};
use assay_protocol::identity::Identity;
use assay_protocol::message::{DeviceClaim, Hello, Inventory, MinerMessage, RefusedCode, StopCode, ValidatorMessage};
use assay_protocol::verdict::Mode;
use assay_work::DeviceId;

/// A session of this key, with one device, that has said its proof, and the answer to it.
async fn proved(validator: &TestValidator, identity: &Identity) -> (RawMiner, ValidatorMessage) {
    let device = DeviceClaim {
        id: DeviceId([1; 16]),
        name: "a device".into(),
        backend: "cpu".into(),
        detail: String::new(),
        total_bytes: 1 << 30,
        free_bytes: 1 << 30,
        slots: DeviceClaim::max_slots(1 << 30),
        precisions: vec![assay_work::Precision::Int8],
        claimed_hardware: None,
    };
    let hello = Hello { inventory: Inventory { devices: vec![device], ..Inventory::default() }, ..hello(identity) };
    let (mut miner, welcome) = welcomed(validator, &hello).await;
    miner.say(proof(&hello, &welcome, identity)).await;
    let answer = miner.hear().await.expect("an answer");
    (miner, answer)
}

/// The last message to a session.
async fn goodbye(mut miner: RawMiner) -> (StopCode, String) {
    loop {
        match miner.hear().await {
            Some(ValidatorMessage::Goodbye(code, detail)) => return (code, detail),
            Some(ValidatorMessage::Ping(sequence)) => miner.say(encoded(MinerMessage::Pong(sequence))).await,
            other => panic!("no goodbye but {other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_challenge_under_way_is_not_taken_over_and_ends_in_its_verdict() {
    let mut validator = TestValidator::start(&Policy::default()).await;
    let mut miner = TestMiner::start(validator.address, 1, &[]);
    let identity = Identity::load_or_create(&miner.file("miner.key")).unwrap();
    validator.wait_for_miner(miner.key, true).await;
    let address = validator.miners().await[0].address.clone();
    let held = miner.daemon.hold_devices();
    let challenge = validator.ask(miner.key, Some(Mode::Audit)).await.unwrap();
    miner.daemon.wait_for("working");
    let (_second, answer) = proved(&validator, &identity).await;
    let ValidatorMessage::Refused { code: RefusedCode::InChallenge, detail, .. } = answer else { panic!("{answer:?}") };
    assert!(detail.contains(&format!("from {address}")) && detail.contains("key_file"), "{detail}");
    let line = validator.daemon.wait_for("miner refused");
    assert_eq!(line["other_address"], address.as_str(), "{line}");
    assert_eq!(line["miner"], miner.key.to_string(), "{line}");
    assert!(line["address"].as_str().unwrap() != address, "{line}");
    drop(held);
    challenge.ruling().await.unwrap().expect_pass();
    assert_eq!(validator.miners().await[0].address, address, "it is still the same session");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_session_is_taken_over_and_both_sides_are_told() {
    let mut validator = TestValidator::start(&Policy::default()).await;
    let identity = Identity::from_seed(&[0x77; 32]);
    let (first, answer) = proved(&validator, &identity).await;
    assert!(matches!(answer, ValidatorMessage::Accepted(_)), "{answer:?}");
    let before = validator.miners().await[0].address.clone();
    let (_second, answer) = proved(&validator, &identity).await;
    assert!(matches!(answer, ValidatorMessage::Accepted(_)), "{answer:?}");
    let after = validator.miners().await[0].address.clone();
    assert_ne!(before, after);
    let (code, detail) = goodbye(first).await;
    assert_eq!(code, StopCode::Busy);
    assert!(detail.contains(&format!("from {after}")) && detail.contains("key_file"), "{detail}");
    let line = validator.daemon.wait_for("this session took over");
    assert_eq!((&line["address"], &line["previous_address"]), (&after.into(), &before.into()), "{line}");
    assert!(line["message"].as_str().unwrap().contains("key_file"), "{line}");
}

/// A miner that lost its connection in the middle of a challenge, without the validator's notice, gets in once the
/// validator has noticed.
#[tokio::test(flavor = "multi_thread")]
async fn a_miner_whose_connection_broke_in_a_challenge_comes_back() {
    let policy = Policy { ping_interval_ms: 2000, ..Policy::default() };
    let validator = TestValidator::start(&policy).await;
    let identity = Identity::from_seed(&[0x78; 32]);
    let (_silent, _) = proved(&validator, &identity).await;
    validator.wait_for_miner(identity.public_key(), true).await;
    let asked = validator.ask(identity.public_key(), Some(Mode::Audit)).await;
    let mut refused = 0;
    loop {
        match proved(&validator, &identity).await.1 {
            ValidatorMessage::Refused { code: RefusedCode::InChallenge, .. } => refused += 1,
            ValidatorMessage::Accepted(_) => break,
            other => panic!("{other:?}"),
        }
        // Below the rate at which a key may begin sessions.
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    assert!(asked.is_ok() && refused > 0, "{asked:?}, {refused}");
}
