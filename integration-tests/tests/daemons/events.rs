//! The validator's log, as the operator of a small fleet reads it.

use assay_integration_tests::daemon::Daemon;
use assay_integration_tests::dishonest::{Disguise, DishonestMiner, WorkLie};
use assay_integration_tests::miner::TestMiner;
use assay_integration_tests::validator::{Policy, TestValidator};
use assay_protocol::message::{MinerMessage, SignedChecksum, Stop, StopCode};
use assay_protocol::verdict::Mode;
use serde_json::Value;

/// The next line with this message, and all of its fields.
fn next(daemon: &mut Daemon, message: &str) -> Value {
    daemon.wait_for(&format!("\"message\":\"{message}"))
}

/// Requires that a line has these fields, and no field that is empty.
fn assert_fields(line: &Value, expected: &[(&str, Value)]) {
    for (name, value) in expected {
        assert_eq!(&line[name], value, "{name} in {line}");
    }
    for (name, value) in line.as_object().unwrap() {
        assert!(!value.is_null() && value != "", "{name} in {line}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_challenge_is_in_the_log_from_its_start_to_its_end() {
    let mut validator = TestValidator::start(&Policy::default()).await;
    let miner = TestMiner::start(validator.address, 2, &[]);
    let key = Value::from(miner.key.to_string());
    let connected = next(&mut validator.daemon, "miner connected");
    assert_fields(&connected, &[("miner", key.clone()), ("devices", 2.into()), ("level", "INFO".into())]);
    assert!(connected["agent"].as_str().unwrap().contains("assay-miner/"), "{connected}");
    let address = connected["address"].clone();
    assert!(address.as_str().unwrap().starts_with("127.0.0.1:"), "{connected}");
    validator.wait_for_miner(miner.key, true).await;
    let ruling = validator.challenge(miner.key, Some(Mode::Audit)).await.unwrap();
    let id =
        Value::from(ruling.expect_pass().verdict.challenge_id.iter().map(|b| format!("{b:02x}")).collect::<String>());
    let of_it = || vec![("challenge", id.clone()), ("miner", key.clone()), ("address", address.clone())];
    let started = next(&mut validator.daemon, "challenge started");
    assert_fields(&started, &of_it());
    let facts = [("n", 256), ("iterations", 1), ("devices", 2), ("slots", 12)];
    assert_fields(&started, &facts.map(|(name, number)| (name, number.into())));
    assert_fields(
        &started,
        &[("precision", "int8".into()), ("mode", "audit".into()), ("by", "operator".into()), ("level", "INFO".into())],
    );
    for phase in ["probe", "openings"] {
        let line = next(&mut validator.daemon, "challenge goes on");
        assert_fields(&line, &of_it());
        assert_fields(&line, &[("phase", phase.into())]);
        assert!(line["seconds"].is_number(), "{line}");
    }
    let passed = next(&mut validator.daemon, "pass");
    assert_fields(&passed, &of_it());
    assert_fields(&passed, &facts.map(|(name, number)| (name, number.into())));
    assert_fields(&passed, &[("precision", "int8".into()), ("mode", "audit".into()), ("level", "INFO".into())]);
    assert!(passed["seconds"].as_f64().unwrap() > 0.0 && passed["work_s"].is_number(), "{passed}");
    assert!(passed.get("reasons").is_none() && passed.get("details").is_none(), "{passed}");
    assert!(passed.get("link_gb_per_s").is_none(), "no linked probe was asked for: {passed}");
    drop(miner);
    let left = next(&mut validator.daemon, "miner left");
    assert_fields(&left, &[("miner", key), ("address", address)]);
    assert!(left["connected_s"].is_number(), "{left}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_went_wrong_is_in_the_log_with_its_detail() {
    let mut validator = TestValidator::start(&Policy::default()).await;
    let miner = DishonestMiner::connect(validator.address, &Disguise::new(&[14])).await;
    validator.wait_for_miner(miner.key, true).await;
    miner.lies.in_work(WorkLie::SkipElements);
    validator.challenge(miner.key, Some(Mode::Audit)).await.unwrap();
    let failed = next(&mut validator.daemon, "fail");
    assert_fields(&failed, &[("level", "WARN".into()), ("reasons", vec!["audit_element"].into())]);
    let detail = failed["details"][0].as_str().unwrap();
    assert!(
        detail.starts_with("audit_element") && detail.contains("an element is not what its formula gives"),
        "{detail}"
    );
    miner.lies.stop();
    // A decline: the miner's words are quoted.
    miner.lies.in_what_goes_out(|message| match message {
        MinerMessage::Commitment(SignedChecksum { challenge_id, .. }) => {
            vec![MinerMessage::Declined(Stop { challenge_id, code: StopCode::Busy, detail: "until \"noon\"".into() })]
        }
        MinerMessage::DeviceRoots(_) => Vec::new(),
        other => vec![other],
    });
    validator.challenge(miner.key, Some(Mode::Audit)).await.unwrap();
    let declined = next(&mut validator.daemon, "inconclusive");
    assert_fields(&declined, &[("reasons", vec!["miner_busy"].into())]);
    let detail = declined["details"][0].as_str().unwrap();
    assert!(detail.contains("until") && detail.contains("noon"), "{declined}");
}
