//! The management library's facts reach the miner's log and the validator; its errors reach neither. The library is a
//! stand-in that knows the processor's devices by their ids.

use assay_integration_tests::daemon::{PATIENCE, run, run_in};
use assay_integration_tests::miner::{TestMiner, device_ids};
use assay_integration_tests::standin;
use assay_integration_tests::standin_nvml::{Build, StandinNvml, uuid};
use assay_integration_tests::validator::{Policy, Ruling, TestValidator};
use assay_protocol::claims::{ConfidentialComputing, Hardware};
use assay_protocol::identity::Identity;
use assay_protocol::verdict::Mode;
use assay_protocol::wire::v1;
use assay_work::DeviceId;
use serde_json::Value;
use std::ffi::OsString;
use std::path::Path;
use std::time::Instant;

const STRANGER: DeviceId = DeviceId([0x5a; 16]);

/// A validator, and a miner with a library made for its devices.
async fn pair(devices: u32, library: impl FnOnce(&[DeviceId]) -> StandinNvml) -> (TestValidator, TestMiner) {
    let validator = TestValidator::start(&Policy { iterations: 40, ..Policy::default() }).await;
    let miner = TestMiner::start_for(validator.address, devices, &[], |ids| library(ids).environment());
    validator.wait_for_miner(miner.key, true).await;
    (validator, miner)
}

async fn challenge(validator: &TestValidator, miner: &TestMiner) -> Ruling {
    let ruling = validator.challenge(miner.key, Some(Mode::Audit)).await.unwrap();
    ruling.expect_pass();
    ruling
}

/// Challenges until one lasted long enough for every device to have been read; each of them passes.
async fn challenge_with_telemetry(validator: &TestValidator, miner: &TestMiner) -> Vec<v1::Telemetry> {
    let until = Instant::now() + PATIENCE;
    loop {
        let devices = challenge(validator, miner).await.verdict.devices;
        let told: Option<Vec<_>> = devices.into_iter().map(|device| device.claimed_telemetry).collect();
        if let Some(told) = told {
            return told;
        }
        assert!(Instant::now() < until, "no challenge comes with telemetry");
    }
}

/// The hardware that a validator knows of a miner's devices.
async fn hardware(validator: &TestValidator) -> Vec<Option<Hardware>> {
    let devices = validator.miners().await.remove(0).claimed_devices;
    devices.into_iter().map(|device| device.hardware).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_sensors_show_is_told_as_a_claim() {
    let (validator, mut miner) = pair(2, |ids| StandinNvml::new(Build::Whole, ids)).await;
    for telemetry in challenge_with_telemetry(&validator, &miner).await {
        assert!(telemetry.samples > 0);
        let temperature = telemetry.temperature_c.unwrap();
        assert!(60 <= temperature.min && temperature.max <= 62, "{temperature:?}");
        let power = telemetry.power_mw.unwrap();
        assert!(640_000 <= power.min && power.max <= 642_000, "{power:?}");
        assert_eq!(telemetry.sm_clock_mhz, Some(v1::Spread { min: 1590, mean: 1590, max: 1590 }));
        assert_eq!(telemetry.memory_clock_mhz, Some(v1::Spread { min: 2619, mean: 2619, max: 2619 }));
        assert_eq!(telemetry.gpu_utilisation_percent.unwrap().mean, 99);
        assert_eq!(telemetry.memory_utilisation_percent.unwrap().mean, 57);
        assert_eq!(telemetry.memory_used_max_bytes, Some(100 << 30));
        let reasons: Vec<_> = telemetry.throttle_reasons().collect();
        assert_eq!(reasons, [v1::ThrottleReason::SwPowerCap, v1::ThrottleReason::SwThermal]);
        // One corrected error comes with each look after the first; the others were there before.
        assert_eq!(
            (telemetry.ecc_corrected, telemetry.ecc_uncorrected),
            (Some(u64::from(telemetry.samples) - 1), Some(0))
        );
    }
    let line = miner.daemon.wait_for("telemetry: ");
    let text = line["message"].as_str().unwrap();
    assert!(text.contains(" °C") && text.contains("1590 MHz SM, 2619 MHz memory, 99 % GPU"), "{text}");
    assert_eq!(line["level"], "INFO");
    assert_eq!(miner.daemon.wait_for("it was slowed down (sw_thermal)")["level"], "WARN");
    let found: Vec<Value> = validator.operator().list("/verdicts", &(), 1).await.unwrap();
    let devices = &found[0]["verdict"]["devices"];
    assert_eq!(devices[0]["claimed_telemetry"]["throttle_reasons"][0], "sw_power_cap");
}

/// Error codes come as events; the stand-in has one for every second time that it is asked.
#[tokio::test(flavor = "multi_thread")]
async fn error_codes_are_told_and_warned_of() {
    let (validator, mut miner) = pair(1, |ids| StandinNvml::new(Build::Whole, ids)).await;
    let until = Instant::now() + PATIENCE;
    while challenge_with_telemetry(&validator, &miner).await[0].xids != [63] {
        assert!(Instant::now() < until, "no challenge comes with the code");
    }
    assert_eq!(miner.daemon.wait_for("the driver reported XID 63")["level"], "WARN");
}

#[tokio::test(flavor = "multi_thread")]
async fn hardware_is_in_the_inventory() {
    let (validator, miner) = pair(2, |ids| StandinNvml::new(Build::Whole, &ids[..1])).await;
    let [Some(known), None] = &hardware(&validator).await[..] else { panic!("the first of two devices is known") };
    let ids = device_ids(&miner.file("miner.key"), 2);
    assert_eq!(known.uuid, Some(uuid("GPU", ids[0])));
    assert_eq!(known.model.as_deref(), Some("Stand-in GPU"));
    assert_eq!(known.serial.as_deref(), Some("1320000000001"));
    assert_eq!(known.pci_address.as_deref(), Some("00000000:1B:00.0"));
    assert_eq!(known.driver_version.as_deref(), Some("580.82.07"));
    assert_eq!(known.vbios_version.as_deref(), Some("96.00.BC.00.01"));
    assert_eq!((known.memory_bytes, known.power_limit_mw), (Some(141 << 30), Some(700_000)));
    assert_eq!((known.mig_enabled, known.ecc_enabled), (Some(false), Some(true)));
    assert_eq!(known.confidential_computing, Some(ConfidentialComputing::On));
    let socket = format!("--control-socket={}", validator.socket.display());
    let listed: Value = serde_json::from_slice(&run("assay-validator", ["miners", "--json", &socket]).stdout).unwrap();
    assert_eq!(listed[0]["claimed_devices"][0]["hardware"]["power_limit_mw"], 700_000);
    assert_eq!(listed[0]["claimed_devices"][1]["hardware"], Value::Null);
}

/// A partition has memory of its own; heat and power are the whole GPU's.
#[tokio::test(flavor = "multi_thread")]
async fn partitions_are_devices() {
    let library = |ids: &[DeviceId]| StandinNvml::new(Build::Whole, &[STRANGER]).with_partitions(ids);
    let (validator, miner) = pair(2, library).await;
    for telemetry in challenge_with_telemetry(&validator, &miner).await {
        assert_eq!(telemetry.memory_used_max_bytes, Some(2 << 30));
        assert!(telemetry.temperature_c.is_some() && telemetry.power_mw.is_some());
    }
    for known in hardware(&validator).await.into_iter().map(Option::unwrap) {
        assert!(known.uuid.unwrap().starts_with("MIG-"));
        assert_eq!(known.model.as_deref(), Some("Stand-in GPU MIG 1g.18gb"));
        assert_eq!((known.memory_bytes, known.mig_enabled), (Some(18 << 30), Some(true)));
        assert_eq!(known.serial.as_deref(), Some("1320000000001"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_library_that_lies_changes_no_verdict() {
    let (validator, mut miner) = pair(2, |ids| StandinNvml::new(Build::Whole, ids).with("LIES", "1")).await;
    let telemetry = challenge_with_telemetry(&validator, &miner).await.remove(0);
    assert!(telemetry.samples > 0);
    assert_eq!((telemetry.temperature_c, telemetry.power_mw, telemetry.memory_used_max_bytes), (None, None, None));
    assert_eq!((telemetry.sm_clock_mhz, telemetry.gpu_utilisation_percent), (None, None));
    assert!(telemetry.xids.is_empty());
    miner.daemon.wait_for("readings were impossible and left out");
    let known = hardware(&validator).await.remove(0).unwrap();
    assert_eq!((known.memory_bytes, known.power_limit_mw, known.pci_address), (None, None, None));
    assert_eq!((known.mig_enabled, known.ecc_enabled), (None, None));
    // Ten kilobytes with control characters, as much of them as a name may have.
    let model = known.model.unwrap();
    assert!(model.starts_with("[2J xxx") && model.len() <= 128, "{model:?}");
}

/// Wherever it hangs: when it is loaded, at the facts, at the sensors.
#[tokio::test(flavor = "multi_thread")]
async fn a_library_that_hangs_holds_nobody_up() {
    for function in ["nvmlInit_v2", "nvmlDeviceGetSerial", "nvmlDeviceGetTemperature"] {
        let (validator, mut miner) = pair(1, |ids| StandinNvml::new(Build::Whole, ids).with("HANG", function)).await;
        for _ in 0..2 {
            let ruling = challenge(&validator, &miner).await;
            assert_eq!(ruling.verdict.devices[0].claimed_telemetry, None, "{function}");
        }
        let is_known = hardware(&validator).await[0].is_some();
        assert_eq!(is_known, function == "nvmlDeviceGetTemperature", "{function}");
        miner.daemon.terminate();
        assert!(miner.daemon.wait().success(), "{function}: it drains");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_library_that_fails_costs_its_values_only() {
    let fails = |what: &'static str| move |ids: &[DeviceId]| StandinNvml::new(Build::Whole, ids).with("FAIL", what);
    let (validator, miner) = pair(1, fails("nvmlDeviceGetTemperature,nvmlDeviceGetName")).await;
    let telemetry = challenge_with_telemetry(&validator, &miner).await.remove(0);
    assert!(telemetry.temperature_c.is_none() && telemetry.power_mw.is_some());
    let known = hardware(&validator).await.remove(0).unwrap();
    assert!(known.model.is_none() && known.serial.is_some());
    let (validator, miner) = pair(1, fails("readings")).await;
    let telemetry = challenge_with_telemetry(&validator, &miner).await.remove(0);
    assert_eq!(telemetry, v1::Telemetry { samples: telemetry.samples, ..v1::Telemetry::default() });
    for function in ["nvmlInit_v2", "nvmlDeviceGetCount_v2", "nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetUUID"] {
        let (validator, miner) = pair(1, fails(function)).await;
        let ruling = challenge(&validator, &miner).await;
        assert_eq!(ruling.verdict.devices[0].claimed_telemetry, None, "{function}");
    }
}

/// A library of another age lacks functions, among them some without which the wrapper would panic.
#[tokio::test(flavor = "multi_thread")]
async fn a_library_without_most_of_its_functions() {
    let (validator, mut miner) = pair(1, |ids| StandinNvml::new(Build::Sparse, ids)).await;
    let telemetry = challenge_with_telemetry(&validator, &miner).await.remove(0);
    assert_eq!(telemetry, v1::Telemetry { samples: telemetry.samples, ..v1::Telemetry::default() });
    let known = hardware(&validator).await.remove(0).unwrap();
    assert!(known.uuid.is_some() && known.model.is_none());
    assert!(!miner.daemon.log().iter().any(|line| line.contains("panic")));
}

#[tokio::test(flavor = "multi_thread")]
async fn no_library_and_none_wanted() {
    let validator = TestValidator::start(&Policy::default()).await;
    for flags in [&[][..], &["--telemetry=off"]] {
        let library = |ids: &[DeviceId]| match flags {
            // Wanted, but no library knows the devices.
            [] => Vec::new(),
            _ => StandinNvml::new(Build::Whole, ids).environment(),
        };
        let miner = TestMiner::start_for(validator.address, 1, flags, library);
        validator.wait_for_miner(miner.key, true).await;
        assert_eq!(challenge(&validator, &miner).await.verdict.devices[0].claimed_telemetry, None);
        assert_eq!(hardware(&validator).await, [None]);
        drop(miner);
        let until = Instant::now() + PATIENCE;
        while !validator.miners().await.is_empty() {
            assert!(Instant::now() < until, "the miner is gone");
        }
    }
}

/// `assay-miner devices` with a key of its own and a library made for its devices.
fn devices(key_file: &Path, library: &StandinNvml, flags: &[&str]) -> String {
    let key_file = format!("--key-file={}", key_file.display());
    let common = ["devices", "--backend=cpu", "--cpu-memory=8MiB", "--cpu-threads=1", &key_file];
    let output = run_in("assay-miner", common.iter().chain(flags), &library.environment());
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_list_of_devices_shows_their_hardware() {
    let folder = tempfile::tempdir().unwrap();
    let key_file = folder.path().join("miner.key");
    Identity::load_or_create(&key_file).unwrap();
    let ids = device_ids(&key_file, 1);
    let library = StandinNvml::new(Build::Whole, &[ids[0], STRANGER]);
    let shown = devices(&key_file, &library, &["--wide"]);
    for part in
        ["Stand-in GPU", "1320000000001", "00000000:1B:00.0", "96.00.BC.00.01", "700", "NVML has 2 devices, driver 580"]
    {
        assert!(shown.contains(part), "{part} in\n{shown}");
    }
    let listing: Value = serde_json::from_str(&devices(&key_file, &library, &["--json"])).unwrap();
    let rows = &listing["devices"];
    assert_eq!(rows[0]["hardware"]["uuid"], uuid("GPU", ids[0]));
    assert_eq!(rows[0]["hardware"]["confidential_computing"], "on");
    assert_eq!(rows[0]["disagreements"], serde_json::json!([]));

    let lying = library.clone().with("LIES", "1");
    assert!(!devices(&key_file, &lying, &[]).contains('\u{1b}'));
    let silent = devices(&key_file, &library.with("HANG", "nvmlInit_v2"), &[]);
    assert!(silent.contains("gives no answer within 5s"), "{silent}");
}

/// Two stand-ins, which are of two machines: the driver's devices have other memory, and its CUDA is an older one.
#[test]
fn the_list_of_devices_tells_where_the_two_libraries_disagree() {
    let folder = tempfile::tempdir().unwrap();
    let key = format!("--key-file={}", folder.path().join("miner.key").display());
    let cache = format!("--kernel-cache={}", folder.path().display());
    let flags = ["devices", "--json", "--backend=cuda", &key, &cache];
    let driver = standin::environment(&[("DEVICES", "2")]);
    let rows = |environment: &[(String, OsString)], more: &[&str]| -> (Value, String) {
        let output = run_in("assay-miner", flags.iter().chain(more), environment);
        assert!(output.status.success(), "{output:?}");
        let listing: Value = serde_json::from_slice(&output.stdout).unwrap();
        (listing["devices"].clone(), String::from_utf8(output.stderr).unwrap())
    };
    let id = |row: &Value| -> DeviceId { row["device_id"].as_str().unwrap().parse().unwrap() };
    let (alone, _) = rows(&driver, &["--telemetry=off"]);
    assert_eq!(alone[0]["disagreements"], serde_json::json!([]));

    let library = StandinNvml::new(Build::Whole, &[id(&alone[0]), STRANGER]);
    let (both, log) = rows(&library.environment_with(&driver), &[]);
    let about = |row: &Value| row["disagreements"][0].as_str().unwrap().to_owned();
    assert!(about(&both[0]).contains("144384 MiB to NVML"), "{both}");
    assert!(about(&both[1]).contains("NVML has not"), "{both}");
    assert!(log.contains(&format!("NVML has {}", uuid("GPU", STRANGER))), "{log}");
    assert!(log.contains("12.0 by itself and 13.0 by NVML"), "{log}");
}
