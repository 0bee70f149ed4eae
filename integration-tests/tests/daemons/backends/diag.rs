//! `assay-miner diag` on GPUs.

use assay_integration_tests::{daemon, standin, vulkan};
use serde_json::Value;
use tempfile::TempDir;

use crate::diag::Burned;

/// Small passes over all memory of a GPU.
fn gpu_arguments(folder: &TempDir, flags: &[&str]) -> Vec<String> {
    let path = |name: &str| folder.path().join(name).display().to_string();
    let own = [format!("--key-file={}", path("key"))];
    let common = ["diag", "--json", "--rounds=1", "--n=256", "--telemetry=off", "--log=info"];
    common.into_iter().chain(flags.iter().copied()).map(str::to_owned).chain(own).collect()
}

fn kernels(device: &Value) -> Vec<&str> {
    device["kernels"].as_array().unwrap().iter().map(|kernel| kernel["name"].as_str().unwrap()).collect()
}

#[test]
fn gpus_pass_with_every_family_and_a_flipped_bit_fails_one() {
    let folder = tempfile::tempdir().unwrap();
    let cache = format!("--kernel-cache={}", folder.path().join("cache").display());
    let arguments = gpu_arguments(&folder, &["--backend=cuda", &cache, "--share=4"]);
    let gpus = [("DEVICES", "2"), ("MEMORY_MIB", "24"), ("CAPABILITY", "9.0")];
    let output = daemon::run_in("assay-miner", &arguments, &standin::environment(&gpus));
    let burned = Burned::of(&output);
    assert_eq!(burned.code, Some(0), "{:#}\n{}", burned.report, burned.log);
    for device in burned.report["devices"].as_array().unwrap() {
        assert_eq!(kernels(device), ["wgmma-sm90a", "mma-sm80", "mma-sm75", "dp4a"]);
        let tests = device["tests"].as_array().unwrap();
        let not_done = tests.iter().filter(|test| test["status"] == "not_done").map(|test| &test["test"]);
        assert_eq!(not_done.collect::<Vec<_>>(), ["sensors"], "{tests:#?}");
    }
    // A copy from the first GPU has one wrong bit, once, long after its self-test.
    let once = folder.path().join("once").display().to_string();
    let flip = [("FAULT", "cuMemcpyDtoHAsync_v2@0:60:flip"), ("ONCE", once.as_str())];
    let environment = standin::environment(&[&gpus[..], &flip].concat());
    let burned = Burned::of(&daemon::run_in("assay-miner", &arguments, &environment));
    assert_eq!(burned.code, Some(1), "{}", burned.log);
    let devices = burned.report["devices"].as_array().unwrap();
    let failed: Vec<_> = devices.iter().filter(|device| device["verdict"] == "fail").collect();
    assert_eq!(failed.len(), 1, "{failed:#?}");
}

#[test]
fn a_vulkan_device_passes_with_both_products() {
    let folder = tempfile::tempdir().unwrap();
    let cache = format!("--kernel-cache={}", folder.path().join("pipelines").display());
    let flags = ["--backend=wgpu", "--wgpu-memory=8MiB", &cache, "--share=20"];
    let output = daemon::run_in("assay-miner", gpu_arguments(&folder, &flags), &vulkan::lavapipe(1));
    let burned = Burned::of(&output);
    assert_eq!(burned.code, Some(0), "{:#}\n{}", burned.report, burned.log);
    let device = &burned.report["devices"][0];
    let mut names = kernels(device);
    names.sort_unstable();
    assert_eq!((names, &device["verdict"]), (vec!["packed", "plain"], &Value::from("pass")));
}
