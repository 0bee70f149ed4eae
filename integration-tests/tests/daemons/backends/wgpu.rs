//! Real daemons with wgpu devices, over a software Vulkan driver (lavapipe; `scripts/test` installs it).

#![cfg(target_os = "linux")]

use std::collections::BTreeSet;

use assay_integration_tests::daemon;
use assay_integration_tests::miner::TestMiner;
use assay_integration_tests::validator::{Policy, Ruling, TestValidator};
use assay_integration_tests::{standin, vulkan};
use assay_protocol::verdict::Mode;
use assay_work::{DeviceId, PublicKey};
use tempfile::TempDir;

const MODES: [Mode; 3] = [Mode::Replay, Mode::ReplaySample, Mode::Audit];
/// As much as a processor's device has here, so that both get a share of one challenge.
const MEMORY: &str = "--wgpu-memory=8MiB";

/// Flags for wgpu devices that keep nothing outside the test's folder.
fn flags(folder: &TempDir, backends: &str) -> Vec<String> {
    let cache = format!("--kernel-cache={}", folder.path().join("pipelines").display());
    vec![format!("--backend={backends}"), MEMORY.into(), cache, "--poison".into()]
}

/// A validator with one processor device, and a miner with these backends.
async fn pair(policy: &Policy, folder: &TempDir, backends: &str) -> (TestValidator, TestMiner) {
    let validator = TestValidator::start(policy).await;
    let flags = flags(folder, backends);
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let miner = TestMiner::start(validator.address, 1, &flags);
    validator.wait_for_miner(miner.key, true).await;
    (validator, miner)
}

/// The devices that the only miner claims: backend and id.
async fn claimed(validator: &TestValidator) -> BTreeSet<(String, Vec<u8>)> {
    let miner = validator.miners().await.remove(0);
    miner.claimed_devices.into_iter().map(|device| (device.backend, device.device_id.0.to_vec())).collect()
}

async fn passes(validator: &TestValidator, key: PublicKey, mode: Mode) -> Ruling {
    let ruling = validator.challenge(key, Some(mode)).await.unwrap();
    ruling.expect_pass();
    ruling
}

#[tokio::test(flavor = "multi_thread")]
async fn a_miner_on_wgpu_passes_in_every_mode() {
    let folder = tempfile::tempdir().unwrap();
    let policy = Policy { iterations: 2, ..Policy::default() };
    let (validator, miner) = pair(&policy, &folder, "wgpu").await;
    let backends: Vec<_> = claimed(&validator).await.into_iter().map(|(backend, _)| backend).collect();
    assert_eq!(backends, ["wgpu"]);
    for mode in MODES {
        assert_eq!(passes(&validator, miner.key, mode).await.verdict.devices.len(), 1);
    }
}

/// One challenge, whose shares two backends compute: each by its own means, all to the same bits.
#[tokio::test(flavor = "multi_thread")]
async fn a_mixed_host_passes_with_devices_of_both_backends() {
    let folder = tempfile::tempdir().unwrap();
    let (validator, miner) = pair(&Policy::default(), &folder, "cpu,wgpu").await;
    let claimed = claimed(&validator).await;
    assert_eq!(claimed.iter().map(|(backend, _)| backend.as_str()).collect::<Vec<_>>(), ["cpu", "wgpu"]);
    for mode in [Mode::Replay, Mode::Audit] {
        let ruling = passes(&validator, miner.key, mode).await;
        let worked = ruling.verdict.devices.iter().map(|device| device.device_id.clone());
        assert_eq!(worked.collect::<BTreeSet<_>>(), claimed.iter().map(|(_, id)| id.clone()).collect());
        for device in &ruling.verdict.devices {
            let matrices = device.work.as_ref().map_or(0, |work| work.matrices);
            assert!(
                matrices >= 3,
                "device {} has {matrices} matrices",
                DeviceId(device.device_id.clone().try_into().unwrap())
            );
        }
    }
}

/// The validator's side has the same backends.
#[tokio::test(flavor = "multi_thread")]
async fn a_validator_replays_on_wgpu() {
    let folder = tempfile::tempdir().unwrap();
    let policy = Policy { flags: flags(&folder, "wgpu"), ..Policy::default() };
    let mut validator = TestValidator::start(&policy).await;
    validator.daemon.workers(1);
    let miner = TestMiner::start(validator.address, 2, &[]);
    validator.wait_for_miner(miner.key, true).await;
    passes(&validator, miner.key, Mode::Replay).await;
}

/// A program on the processor is not a GPU: `auto` takes the processor itself, and gives the reason.
#[tokio::test(flavor = "multi_thread")]
async fn auto_takes_no_software_adapter() {
    let folder = tempfile::tempdir().unwrap();
    let validator = TestValidator::start(&Policy::default()).await;
    let flags = flags(&folder, "auto");
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let mut miner = TestMiner::start(validator.address, 1, &flags);
    let line = miner.daemon.wait_for("wgpu: only software adapters are seen");
    assert_eq!(line["backend"], "cpu", "{line}");
    validator.wait_for_miner(miner.key, true).await;
    passes(&validator, miner.key, Mode::Audit).await;
}

/// Two cards as Vulkan shows them: one that the stand-in for CUDA has too, and one that only Vulkan has.
const CARDS: [(&str, &str); 5] = [
    ("DEVICES", "2"),
    ("TYPE", "discrete"),
    ("VENDOR", "0x10de,0x1002"),
    ("PCI", "0000:01:00.0,0000:7f:00.0"),
    ("NAME", "NVIDIA card,AMD card"),
];

/// The miner's devices by `--backend=auto`, as JSON, and its log, on a machine with those cards.
fn devices_by_auto(cuda: &[(&str, &str)], dot: &str) -> (Vec<serde_json::Value>, String) {
    let (rows, log) = devices(&["--json", dot], "auto", cuda, None);
    (rows_of(&rows), log)
}

/// No float products are examined and tried, which takes a card longer than the rest of its start.
const PACKED: &str = "--wgpu-dot=packed";

/// The devices that the miner lists as JSON.
fn rows_of(listing: &str) -> Vec<serde_json::Value> {
    let listing: serde_json::Value = serde_json::from_str(listing).unwrap();
    listing["devices"].as_array().unwrap().clone()
}

/// The miner's list of its devices by any backends, with more flags, and its log; `visible` is the value of
/// `CUDA_VISIBLE_DEVICES`, if it is set.
fn devices(more: &[&str], backends: &str, cuda: &[(&str, &str)], visible: Option<&str>) -> (String, String) {
    devices_on(&CARDS, more, backends, cuda, visible)
}

/// As [`devices`], with other cards.
fn devices_on(
    cards: &[(&str, &str)],
    more: &[&str],
    backends: &str,
    cuda: &[(&str, &str)],
    visible: Option<&str>,
) -> (String, String) {
    let folder = tempfile::tempdir().unwrap();
    let mut environment: Vec<_> = vulkan::environment(cards).into_iter().chain(standin::environment(cuda)).collect();
    environment.extend(visible.map(|devices| ("CUDA_VISIBLE_DEVICES".to_owned(), devices.into())));
    let key = format!("--key-file={}", folder.path().join("key").display());
    let command = ["devices", "--telemetry=off"].iter().chain(more).map(|&flag| flag.to_owned());
    let flags = command.chain([key]).chain(flags(&folder, backends));
    let output = daemon::run_in("assay-miner", flags, &environment);
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{log}");
    (String::from_utf8(output.stdout).unwrap(), log)
}

/// The name of a device, and the backend that uses it.
fn backends(rows: &[serde_json::Value]) -> BTreeSet<(&str, &str)> {
    rows.iter().map(|row| (row["name"].as_str().unwrap(), row["backend"].as_str().unwrap())).collect()
}

/// One physical card that two drivers show is one device, through its own driver; the other card is there too.
#[test]
fn a_card_that_cuda_has_counts_once() {
    let (rows, log) = devices_by_auto(&[("DEVICES", "1"), ("NAME", "NVIDIA card")], "--wgpu-dot=auto");
    assert_eq!(backends(&rows), BTreeSet::from([("NVIDIA card", "cuda"), ("AMD card", "wgpu")]), "{log}");
    let amd = rows.iter().find(|row| row["backend"] == "wgpu").unwrap();
    assert_eq!((&amd["vendor"], &amd["pci_address"]), (&"AMD".into(), &"0000:7f:00.0".into()));
}

/// A card that CUDA refuses, for being too old, can still work through Vulkan; without CUDA's driver, so can all.
#[test]
fn a_card_that_cuda_does_not_give_is_used_through_vulkan() {
    let (rows, log) = devices_by_auto(&[("DEVICES", "1"), ("CAPABILITY", "5.2")], PACKED);
    assert_eq!(backends(&rows), BTreeSet::from([("NVIDIA card", "wgpu"), ("AMD card", "wgpu")]), "{log}");
    assert!(log.contains("Turing"), "the refusal is told: {log}");
    let (rows, log) = devices_by_auto(&[("DEVICES", "0")], PACKED);
    assert_eq!(backends(&rows), BTreeSet::from([("NVIDIA card", "wgpu"), ("AMD card", "wgpu")]), "{log}");
}

/// A card that CUDA refuses beside another one is named where devices are listed, with the reason.
#[test]
fn a_card_that_cuda_refuses_is_named_in_the_list() {
    let cuda = [("DEVICES", "2"), ("CAPABILITY", "8.0,5.2"), ("NAME", "NVIDIA card,Old card")];
    let (text, log) = devices(&["--n=256", PACKED], "auto", &cuda, None);
    assert!(text.contains("cuda: Old card at 0000:02:00.0: compute capability 5.2"), "{text}{log}");
    assert!(text.contains("backend: cuda, wgpu ("), "{text}{log}");
}

/// An integrated GPU beside a card is used where the setting `device` names it.
#[test]
fn an_integrated_gpu_is_left_out_beside_a_card() {
    let cards = [CARDS[0], ("TYPE", "discrete,integrated"), CARDS[2], CARDS[3], ("NAME", "NVIDIA card,AMD chip")];
    let listed = |more: &[&str]| {
        let flags = [&["--n=256", PACKED], more].concat();
        devices_on(&cards, &flags, "auto", &[("DEVICES", "1"), ("NAME", "NVIDIA card")], None).0
    };
    let text = listed(&[]);
    assert!(text.contains("backend: cuda (auto; "), "{text}");
    assert!(text.contains("AMD chip at 0000:7f:00.0 (wgpu) is integrated"), "{text}");
    let text = listed(&["--device=nvidia,amd"]);
    assert!(text.contains("backend: cuda, wgpu (") && !text.contains("is integrated"), "{text}");
}

/// Two miners on one machine, each with its own GPU in `CUDA_VISIBLE_DEVICES`: a card that is hidden from CUDA is used
/// through Vulkan only where the settings name wgpu.
#[test]
fn a_card_that_is_hidden_from_cuda_is_not_taken_through_vulkan() {
    let said = "NVIDIA card at 0000:01:00.0 (wgpu) is hidden by CUDA_VISIBLE_DEVICES";
    let one = [("DEVICES", "1"), ("NAME", "NVIDIA card")];
    // CUDA has two GPUs of which the second may be used, and Vulkan shows the first.
    let two = [("DEVICES", "2"), ("NAME", "NVIDIA card")];
    let cases = [
        ("auto", &one, Some("-1"), "wgpu", true),
        ("auto", &one, Some(""), "wgpu", true),
        // Without CUDA's driver the operator's will is the same.
        ("auto", &[("DEVICES", "0"), one[1]], Some("0"), "wgpu", true),
        ("auto", &two, Some("1"), "cuda, wgpu", true),
        ("auto", &one, Some("0"), "cuda, wgpu", false),
        ("wgpu", &two, Some("1"), "wgpu", false),
    ];
    for (asked, cuda, visible, chosen, is_hidden) in cases {
        let (text, log) = devices(&["--n=256", PACKED], asked, cuda, visible);
        let case = format!("{asked} {visible:?}: {text}{log}");
        assert!(text.contains(&format!("backend: {chosen} (")), "{case}");
        assert_eq!(text.contains(said), is_hidden, "{case}");
    }
    let cards = |backends, cuda, visible| {
        let rows = rows_of(&devices(&["--json", PACKED], backends, cuda, Some(visible)).0);
        let told = |row: &serde_json::Value| format!("{} {}", row["name"], row["backend"]);
        rows.iter().map(told).collect::<BTreeSet<_>>()
    };
    let [cuda, amd, nvidia] = [r#""NVIDIA card" "cuda""#, r#""AMD card" "wgpu""#, r#""NVIDIA card" "wgpu""#];
    assert_eq!(cards("auto", &one, "-1"), BTreeSet::from([amd.into()]));
    assert_eq!(cards("auto", &two, "1"), BTreeSet::from([cuda.into(), amd.into()]));
    assert_eq!(cards("wgpu", &two, "1"), BTreeSet::from([nvidia.into(), amd.into()]));
}

/// Where the loader finds no driver, the programs start, and report that it is missing.
#[test]
fn without_a_driver_wgpu_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let key = format!("--key-file={}", folder.path().join("key").display());
    let memory = ["--cpu-memory=8MiB", "--telemetry=off"];
    let devices = |backends: &str| {
        let backends = format!("--backend={backends}");
        let flags = ["devices", "--json", &backends, &key].into_iter().chain(memory);
        daemon::run_in("assay-miner", flags, &[("VK_DRIVER_FILES".into(), folder.path().join("none").into())])
    };
    for backends in ["wgpu", "wgpu,cpu"] {
        let output = devices(backends);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(78), "{error}");
        assert!(error.contains("wgpu: no GPU is seen through Vulkan"), "{error}");
    }
    let output = devices("auto");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let rows = rows_of(&String::from_utf8(output.stdout).unwrap());
    assert_eq!((rows.len(), &rows[0]["backend"]), (1, &"cpu".into()));
}
