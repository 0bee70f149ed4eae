//! `scripts/gpu-check` over the stand-in for NVIDIA's driver: it is to work on the day that a GPU is at hand.

#![cfg(target_os = "linux")]

use std::path::Path;
use std::process::{Command, Output};

use assay_integration_tests::daemon::program;
use assay_integration_tests::{standin, vulkan};

/// Runs steps of the script with the programs under test; gives its output, and the report that it wrote.
fn gpu_check(settings: &[(&str, &str)], steps: &[&str]) -> (Output, String) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/gpu-check");
    let (folder, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let miner = program("assay-miner");
    let output = Command::new(script)
        .arg("--bin")
        .arg(miner.parent().expect("programs lie in a folder"))
        .arg("--out")
        .arg(folder.path())
        .arg("--quick")
        .args(steps)
        .envs(standin::environment(settings))
        .envs(vulkan::lavapipe(1))
        .env("ASSAY_MINER_CUDA_CACHE", cache.path())
        .env("ASSAY_MINER_WGPU_CACHE", cache.path())
        .env("ASSAY_MINER_WGPU_MEMORY", "64MiB")
        .output()
        .expect("the script starts");
    let reports = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
    let report = reports.filter(|path| path.extension().is_some_and(|end| end == "txt")).map(std::fs::read_to_string);
    let text = report.map(Result::unwrap).collect();
    (output, text)
}

#[test]
fn sound_gpus_pass_every_step() {
    let steps = ["devices", "vectors", "random", "kinds", "sanitizer", "pair"];
    let settings = [("DEVICES", "1"), ("CAPABILITY", "9.0"), ("NAME", "Stand-in GPU")];
    let (output, report) = gpu_check(&settings, &steps);
    assert!(output.status.success(), "{report}\n{}", String::from_utf8_lossy(&output.stderr));
    // Three vectors and a random case for each of four families; a vector and a random case of FP8 and of FP4, which need
    // no float unit; the pair in three kinds.
    assert!(report.contains("23 checks passed, 0 failed"), "{report}");
    assert!(report.contains("GPU 0 does not compute f16"), "{report}");
    assert!(report.contains("\"outcome\": \"pass\""), "{report}");
}

/// The stand-in's GPU is no Vulkan device; a software adapter takes its place.
#[test]
fn what_vulkan_shows_gives_the_same_bits_and_is_compared() {
    let settings = [("DEVICES", "1"), ("CAPABILITY", "9.0")];
    let (output, report) = gpu_check(&settings, &["vulkan"]);
    assert!(output.status.success(), "{report}\n{}", String::from_utf8_lossy(&output.stderr));
    // Three vectors and a random case for each of three kinds of products, and two benchmarks.
    assert!(report.contains("14 checks passed, 0 failed"), "{report}");
    for stage in ["product", "pass", "leaves", "digests", "probe"] {
        let line = report.lines().find(|line| line.starts_with(&format!("  {stage}: "))).expect(&report);
        assert!(line.contains(" / ") && line.contains(" = "), "{line}");
    }
}

/// A bit that flips after the self-test: in the first copy of the work itself.
#[test]
fn wrong_bits_are_reported() {
    let settings = [("DEVICES", "1"), ("CAPABILITY", "7.5"), ("FAULT", "cuMemcpyDtoHAsync_v2:9:flip")];
    let (output, report) = gpu_check(&settings, &["vectors"]);
    assert_eq!(output.status.code(), Some(1), "{report}");
    assert!(report.contains("FAILED smallest, dp4a, GPU 0"), "{report}");
    assert!(!report.contains(" 0 failed"), "{report}");
}
