//! Real daemons whose miner has CUDA devices, over the stand-in for NVIDIA's driver.

#![cfg(target_os = "linux")]

use assay_integration_tests::miner::TestMiner;
use assay_integration_tests::standin;
use assay_integration_tests::validator::{Policy, TestValidator};
use assay_protocol::verdict::{Mode, ReasonCode};

const MODES: [Mode; 3] = [Mode::Replay, Mode::ReplaySample, Mode::Audit];
/// Nothing is kept outside the test's own folders.
const FLAGS: [&str; 2] = ["--backend=cuda", "--poison"];
/// Memory without room for the ten slots of n = 1024 that a validator measures each kind of work with: the stand-in,
/// which emulates tensor cores, takes too long for those.
const TOO_SMALL_TO_CALIBRATE: (&str, &str) = ("MEMORY_MIB", "12");

/// A validator with one processor device, and a miner over the stand-in.
async fn pair(
    policy: &Policy,
    flags: &[&str],
    settings: &[(&str, &str)],
) -> (TestValidator, TestMiner, tempfile::TempDir) {
    let validator = TestValidator::start(policy).await;
    let cache = tempfile::tempdir().unwrap();
    let cache_flag = format!("--kernel-cache={}", cache.path().display());
    let flags: Vec<&str> = flags.iter().copied().chain([cache_flag.as_str()]).collect();
    let miner = TestMiner::start_in(validator.address, 1, &flags, standin::environment(settings));
    validator.wait_for_miner(miner.key, true).await;
    (validator, miner, cache)
}

/// The same, whose driver fails once: the file `once` in the second folder is there then.
async fn pair_that_fails_once(fault: &str) -> ([tempfile::TempDir; 2], TestValidator, TestMiner) {
    let folder = tempfile::tempdir().unwrap();
    let once = folder.path().join("once").display().to_string();
    let (validator, miner, cache) = pair(&Policy::default(), &FLAGS, &[("FAULT", fault), ("ONCE", &once)]).await;
    ([cache, folder], validator, miner)
}

#[tokio::test(flavor = "multi_thread")]
async fn uneven_gpus_pass_in_every_mode() {
    let settings = [("DEVICES", "2"), ("MEMORY_MIB", "24,40"), ("CAPABILITY", "8.0,7.5"), ("NAME", "GPU zero,GPU one")];
    let (validator, _miner, _cache) = pair(&Policy::default(), &FLAGS, &settings).await;
    let miner = validator.miners().await.remove(0);
    let key = miner.miner_key;
    for mode in MODES {
        let ruling = validator.challenge(key, Some(mode)).await.unwrap();
        let devices = &ruling.expect_pass().verdict.devices;
        let matrices: Vec<_> = devices.iter().map(|device| device.work.as_ref().unwrap().matrices).collect();
        assert!(matrices.len() == 2 && matrices[0] < matrices[1], "shares follow memory: {matrices:?}");
    }
}

/// By any means of multiplication, a validator that replays on its processor gets the same roots.
#[tokio::test(flavor = "multi_thread")]
async fn every_family_passes_a_replay() {
    for (kernel, capability) in [("dp4a", "9.0"), ("mma-sm75", "9.0"), ("mma-sm80", "9.0"), ("wgmma-sm90a", "9.0")] {
        let kernel = format!("--kernel={kernel}");
        let flags = [FLAGS[0], FLAGS[1], kernel.as_str()];
        let policy = Policy { max_matrices: 5, iterations: 2, ..Policy::default() };
        let (validator, miner, _cache) = pair(&policy, &flags, &[("DEVICES", "1"), ("CAPABILITY", capability)]).await;
        validator.challenge(miner.key, Some(Mode::Replay)).await.unwrap().expect_pass();
    }
}

/// A validator that replays on GPUs, other ones and fewer than the miner's, gets the same roots; a failure of its GPU
/// meanwhile is no miner's fault.
#[tokio::test(flavor = "multi_thread")]
async fn a_validator_replays_on_its_gpu_and_blames_nobody_for_its_failure() {
    let folder = tempfile::tempdir().unwrap();
    let (once, cache) = (folder.path().join("once"), folder.path().join("cache"));
    // Its self-test hashes six slots for each of five kinds of work and two rounds, the first replay twelve slots.
    let fault = ("FAULT", "assay_digest:50:sticky719");
    let settings = [("DEVICES", "1"), TOO_SMALL_TO_CALIBRATE, fault, ("ONCE", once.to_str().unwrap())];
    let policy = Policy {
        flags: vec![FLAGS[0].into(), FLAGS[1].into(), format!("--kernel-cache={}", cache.display())],
        environment: standin::environment(&settings),
        ..Policy::default()
    };
    let mut validator = TestValidator::start(&policy).await;
    validator.daemon.workers(1);
    let miner = TestMiner::start(validator.address, 2, &[]);
    validator.wait_for_miner(miner.key, true).await;
    validator.challenge(miner.key, Some(Mode::Replay)).await.unwrap().expect_pass();
    let ruling = validator.challenge(miner.key, Some(Mode::Replay)).await.unwrap();
    ruling.expect(ReasonCode::ValidatorDevices);
    validator.passes_again(miner.key, Mode::Replay, 2).await;
}

/// A bit that flips in the validator's own device is no miner's fault.
#[tokio::test(flavor = "multi_thread")]
async fn a_replay_that_gives_two_results_accuses_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let (once, cache) = (folder.path().join("once"), folder.path().join("cache"));
    // Its self-test copies six times, and once more for each of four other kinds of work: this is in the first replay,
    // at its second pass.
    let fault = ("FAULT", "cuMemcpyDtoHAsync_v2:12:flip");
    let settings = [("DEVICES", "1"), TOO_SMALL_TO_CALIBRATE, fault, ("ONCE", once.to_str().unwrap())];
    let policy = Policy {
        flags: vec![FLAGS[0].into(), format!("--kernel-cache={}", cache.display())],
        environment: standin::environment(&settings),
        ..Policy::default()
    };
    let (validator, miner) = TestMiner::with_validator(&policy, 2, &[]).await;
    let ruling = validator.challenge(miner.key, Some(Mode::Replay)).await.unwrap();
    ruling.expect(ReasonCode::ValidatorDevices);
    assert!(once.exists(), "nothing flipped");
}

/// A sticky error ends its worker, and the challenge without blame; the worker that comes after it works.
#[tokio::test(flavor = "multi_thread")]
async fn a_gpu_that_fails_in_a_challenge_is_sick_and_comes_back() {
    // Its self-test hashes six slots for each of five kinds of work and two rounds; the challenge's digests follow.
    let (_folders, validator, mut miner) = pair_that_fails_once("assay_digest@1:35:sticky700").await;
    let ruling = validator.challenge(miner.key, Some(Mode::Replay)).await.unwrap();
    ruling.expect(ReasonCode::DeviceSick);
    miner.daemon.wait_for("CUDA_ERROR_ILLEGAL_ADDRESS");
    validator.passes_again(miner.key, Mode::Audit, 2).await;
}

/// A tenant that takes the last memory while a challenge runs: its launches have none, and the device is not blamed.
#[tokio::test(flavor = "multi_thread")]
async fn a_gpu_whose_driver_has_no_memory_in_a_challenge_is_not_sick() {
    // As above, but the launch is refused.
    let (_folders, validator, miner) = pair_that_fails_once("assay_digest@1:35:2").await;
    let ruling = validator.challenge(miner.key, Some(Mode::Replay)).await.unwrap();
    ruling.expect(ReasonCode::NotEnoughMemory);
    validator.passes_again(miner.key, Mode::Audit, 2).await;
}

/// A card that falls off the bus while nothing runs: its worker is replaced although no request of a challenge failed.
#[tokio::test(flavor = "multi_thread")]
async fn a_gpu_that_is_lost_while_idle_comes_back() {
    let (_folders, validator, mut miner) = pair_that_fails_once("cuMemGetInfo_v2@0:22:sticky999").await;
    miner.daemon.wait_for("has lost its worker");
    validator.passes_again(miner.key, Mode::Audit, 2).await;
}

/// As the kernel does when the host is out of memory.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_killed_in_a_challenge_is_ours_and_comes_back() {
    let (_folders, validator, miner) = pair_that_fails_once("assay_digest@0:35:exit").await;
    let ruling = validator.challenge(miner.key, Some(Mode::Replay)).await.unwrap();
    ruling.expect(ReasonCode::MinerInternal);
    validator.passes_again(miner.key, Mode::Audit, 2).await;
}

/// A driver that fails while a device is tried is not a wrong bit: the device is tried again, and offered then.
#[tokio::test(flavor = "multi_thread")]
async fn a_gpu_whose_driver_fails_at_the_start_is_tried_again() {
    let ([_, folder], validator, miner) = pair_that_fails_once("assay_probe@0:1:sticky702").await;
    validator.passes_again(miner.key, Mode::Audit, 2).await;
    assert!(folder.path().join("once").exists(), "nothing failed");
}

/// A GPU that gives other bits than the processor is never offered; the other one is.
#[tokio::test(flavor = "multi_thread")]
async fn a_gpu_with_wrong_bits_is_left_out() {
    let settings = [("FAULT", "cuMemcpyDtoHAsync_v2@0:1+:flip")];
    let (validator, miner, _cache) = pair(&Policy::default(), &FLAGS, &settings).await;
    let ruling = validator.challenge(miner.key, Some(Mode::Replay)).await.unwrap();
    assert_eq!(ruling.expect_pass().verdict.devices.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_gpu_auto_takes_the_processor_and_says_why() {
    let validator = TestValidator::start(&Policy::default()).await;
    let environment = standin::environment(&[("DEVICES", "0")]);
    let mut miner = TestMiner::start_in(validator.address, 1, &["--backend=auto"], environment);
    miner.daemon.wait_for("cuda: the NVIDIA driver finds no GPU");
    validator.wait_for_miner(miner.key, true).await;
    validator.challenge(miner.key, Some(Mode::Audit)).await.unwrap().expect_pass();
}
