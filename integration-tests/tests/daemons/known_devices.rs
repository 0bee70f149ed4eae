//! The known devices of a key, and its operator's expectations.

use std::fs;

use assay_integration_tests::daemon;
use assay_integration_tests::miner::{TestMiner, device_ids};
use assay_integration_tests::postgres::Postgres;
use assay_integration_tests::validator::{Policy, Ruling, TestValidator};
use assay_protocol::verdict::{Mode, ReasonCode};
use assay_protocol::wire::v1::Outcome;
use assay_work::DeviceId;

fn ids(devices: &[assay_protocol::wire::v1::NamedDevice]) -> Vec<DeviceId> {
    devices.iter().map(|device| DeviceId(device.device_id.clone().try_into().unwrap())).collect()
}

async fn audit(validator: &TestValidator, miner: &TestMiner) -> Ruling {
    validator.wait_for_miner(miner.key, true).await;
    validator.challenge(miner.key, Some(Mode::Audit)).await.unwrap()
}

/// A miner that passed with two devices and comes back with one, at a validator with these flags.
async fn with_one_of_two(flags: &[&str]) -> (TestValidator, TestMiner, [DeviceId; 2]) {
    let flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
    let validator = TestValidator::start(&Policy { flags, ..Policy::default() }).await;
    let mut miner = TestMiner::start(validator.address, 2, &[]);
    let both: [DeviceId; 2] = device_ids(&miner.file("miner.key"), 2).try_into().unwrap();
    let ruling = audit(&validator, &miner).await;
    ruling.expect_pass();
    assert!(ruling.verdict.missing_devices.is_empty() && ruling.verdict.new_devices.is_empty());
    comes_back(&validator, &mut miner, 1).await;
    (validator, miner, both)
}

/// The miner comes back with `devices` devices, once its last session is over.
async fn comes_back(validator: &TestValidator, miner: &mut TestMiner, devices: u32) {
    miner.daemon.kill();
    validator.wait_for_miner(miner.key, false).await;
    miner.restart_with(devices);
}

/// The device of both that a verdict does not have.
fn lost(ruling: &Ruling, both: [DeviceId; 2]) -> DeviceId {
    let took_part: Vec<_> = ruling.verdict.devices.iter().map(|device| device.device_id.clone()).collect();
    assert_eq!(took_part.len(), 1);
    both.into_iter().find(|id| *id.0.as_slice() != *took_part[0]).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_device_is_no_pass_until_it_is_back() {
    let (mut validator, mut miner, both) = with_one_of_two(&[]).await;
    let ruling = audit(&validator, &miner).await;
    ruling.expect(ReasonCode::DeviceMissing);
    let lost = lost(&ruling, both);
    assert_eq!(ids(&ruling.verdict.missing_devices), [lost]);
    assert_eq!(ruling.verdict.reasons[0].device_id.as_deref(), Some(lost.0.as_slice()));
    assert!(ruling.verdict.whole.as_ref().unwrap().tops > 0.0, "what was shown is shown");
    let line = validator.daemon.wait_for("\"message\":\"inconclusive\"");
    assert!(line["missing"][0].as_str().unwrap().starts_with(&lost.to_string()), "{line}");
    comes_back(&validator, &mut miner, 2).await;
    audit(&validator, &miner).await.expect_pass();
    // A third one is new, once.
    comes_back(&validator, &mut miner, 3).await;
    let ruling = audit(&validator, &miner).await;
    ruling.expect_pass();
    assert_eq!(ruling.verdict.new_devices.len(), 1);
    assert!(audit(&validator, &miner).await.verdict.new_devices.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_device_only_warns_where_the_operator_says_so() {
    let (mut validator, miner, both) = with_one_of_two(&["--policy-fields=device_missing=warn"]).await;
    let ruling = audit(&validator, &miner).await;
    ruling.expect_pass();
    assert_eq!(ids(&ruling.verdict.missing_devices), [lost(&ruling, both)]);
    // It is a pass that an operator should look at.
    validator.daemon.wait_for("\"missing\":");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_device_fails_where_the_operator_says_so() {
    let (validator, miner, both) = with_one_of_two(&["--policy-fields=device_missing=fail"]).await;
    let ruling = audit(&validator, &miner).await;
    ruling.expect(ReasonCode::DeviceGone);
    assert_eq!(ids(&ruling.verdict.missing_devices), [lost(&ruling, both)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_validator_that_was_killed_still_knows_the_devices() {
    let (mut validator, miner, _) = with_one_of_two(&[]).await;
    validator.daemon.kill();
    validator.restart().await;
    audit(&validator, &miner).await.expect(ReasonCode::DeviceMissing);
    // Once more: that verdict is in the records now, and changes nothing.
    validator.daemon.kill();
    validator.restart().await;
    audit(&validator, &miner).await.expect(ReasonCode::DeviceMissing);
}

/// Devices that one validator saw count at another one of the same records, which asks seconds later.
#[tokio::test(flavor = "multi_thread")]
async fn another_validator_of_the_same_records_knows_the_devices() {
    let database = Postgres::shared().database();
    let flags = vec![format!("--records={}", database.url())];
    let policy = Policy { flags, ..Policy::default() };
    let (first, second) = (TestValidator::start(&policy).await, TestValidator::start(&policy).await);
    let mut miner = TestMiner::start(first.address, 2, &[&format!("--validator={}", second.address)]);
    audit(&first, &miner).await.expect_pass();
    miner.daemon.kill();
    for validator in [&first, &second] {
        validator.wait_for_miner(miner.key, false).await;
    }
    miner.restart_with(1);
    audit(&second, &miner).await.expect(ReasonCode::DeviceMissing);
    audit(&first, &miner).await.expect(ReasonCode::DeviceMissing);
}

/// Devices that an operator had the validator forget stay forgotten when it starts again.
#[tokio::test(flavor = "multi_thread")]
async fn a_device_that_was_forgotten_is_not_missed_any_more() {
    let (mut validator, miner, _) = with_one_of_two(&[]).await;
    audit(&validator, &miner).await.expect(ReasonCode::DeviceMissing);
    let socket = format!("--control-socket={}", validator.socket.display());
    let forgot = daemon::run("assay-validator", ["forget", &miner.key.to_string(), &socket, "--json"]);
    let forgot: serde_json::Value = serde_json::from_slice(&forgot.stdout).unwrap();
    assert_eq!(forgot["devices"], 2);
    validator.daemon.kill();
    validator.restart().await;
    let ruling = audit(&validator, &miner).await;
    ruling.expect_pass();
    assert!(ruling.verdict.missing_devices.is_empty() && ruling.verdict.new_devices.is_empty());
}

/// Each expectation alone: met by the host as it is, and missed where more is asked for.
#[tokio::test(flavor = "multi_thread")]
async fn each_expectation_is_held_against_the_verdict() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("fleet.toml");
    fs::write(&file, "").unwrap();
    let flags = ["--policy-fields=bus_gb_per_s=0,rate_factor=1", &format!("--fleet-policy={}", file.display())];
    let flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
    let mut validator = TestValidator::start(&Policy { flags, ..Policy::default() }).await;
    let miner = TestMiner::start(validator.address, 2, &[]);
    let own = device_ids(&miner.file("miner.key"), 2);
    audit(&validator, &miner).await.expect_pass();
    let cases = [
        ("devices = 2".to_owned(), "devices = 3".to_owned(), "2 of 3 devices"),
        (format!("device_ids = [\"{}\"]", own[1]), format!("device_ids = [\"{}\"]", "ab".repeat(16)), "took no part"),
        ("model = \"CPU\"".to_owned(), "model = \"H200\"".to_owned(), "a claim of \"H200\" is expected"),
        ("min_tops = 0.001".to_owned(), "min_tops = 1e6".to_owned(), "TOPS of int8 were shown"),
        ("min_memory = \"0B\"".to_owned(), "min_memory = \"1TiB\"".to_owned(), "GiB of memory were shown"),
        ("min_gb_per_s = 0.001".to_owned(), "min_gb_per_s = 1e6".to_owned(), "the probe read"),
    ];
    let expect = |lines: &str| fs::write(&file, format!("[[miner]]\nkey = \"{}\"\n{lines}\n", miner.key)).unwrap();
    for (met, missed, said) in cases {
        expect(&met);
        validator.daemon.kill();
        validator.restart().await;
        audit(&validator, &miner).await.expect_pass();
        expect(&missed);
        validator.daemon.kill();
        validator.restart().await;
        let ruling = audit(&validator, &miner).await;
        assert_eq!(ruling.verdict.outcome(), Outcome::Fail, "{missed}");
        for reason in &ruling.verdict.reasons {
            assert_eq!((reason.code.as_str(), reason.class.as_str()), ("expectation_missed", "short"), "{reason:?}");
            assert!(reason.detail.contains(said), "{reason:?}");
        }
    }
    // Another key's expectation does not apply to this one.
    fs::write(&file, format!("[[miner]]\nkey = \"{}\"\ndevices = 9\n", "ab".repeat(32))).unwrap();
    validator.daemon.kill();
    validator.restart().await;
    audit(&validator, &miner).await.expect_pass();
}
