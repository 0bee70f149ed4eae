//! Real daemons whose wgpu devices fail: lavapipe through the layer that makes trouble (`scripts/vulkan-layer`).

#![cfg(target_os = "linux")]

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use assay_integration_tests::daemon::PATIENCE;
use assay_integration_tests::miner::TestMiner;
use assay_integration_tests::validator::{Policy, Ruling, TestValidator};
use assay_integration_tests::vulkan;
use assay_protocol::verdict::{Mode, ReasonCode};
use assay_protocol::wire::v1;
use tempfile::TempDir;

/// Two cards as they could be, of uneven memory.
const CARDS: [(&str, &str); 4] =
    [("DEVICES", "2"), ("TYPE", "discrete"), ("PCI", "0000:03:00.0,0000:04:00.0"), ("MEMORY_MIB", "96,160")];

/// A miner with trouble, and files that its layer reads.
struct Troubled {
    validator: TestValidator,
    miner: TestMiner,
    folder: TempDir,
}

impl Troubled {
    /// A validator with one processor device, and a miner with two cards. The fault happens once over all of the
    /// miner's processes; with `later`, calls count from [`Troubled::count_from_now`] on.
    async fn start(fault: &str, later: bool, more: &[(&str, &str)]) -> Self {
        Self::start_for(&Policy::default(), fault, later, more).await
    }

    async fn start_for(policy: &Policy, fault: &str, later: bool, more: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        let (once, when, tenant) = (path("once"), path("when"), path("tenant"));
        let mut settings = CARDS.to_vec();
        settings.extend([("FAULT", fault), ("ONCE", &once), ("TENANT", &tenant)]);
        settings.extend(later.then_some(("WHEN", when.as_str())));
        settings.retain(|(name, _)| more.iter().all(|(other, _)| name != other));
        settings.extend(more.iter().filter(|(_, value)| !value.is_empty()));
        let cache = format!("--kernel-cache={}", path("cache"));
        let validator = TestValidator::start(policy).await;
        // An idle miner gives its memory back soon, and looks at its devices then. No other way to multiply is tried.
        let flags = ["--backend=wgpu", "--wgpu-dot=packed", "--idle-release-s=1", cache.as_str()];
        let miner = TestMiner::start_in(validator.address, 1, &flags, vulkan::environment(&settings));
        validator.wait_for_miner(miner.key, true).await;
        Self { validator, miner, folder }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn count_from_now(&self) {
        fs::write(self.file("when"), "").unwrap();
    }

    async fn challenge(&self, mode: Mode) -> Ruling {
        self.validator.challenge(self.miner.key, Some(mode)).await.unwrap()
    }

    async fn passes_again(&self, devices: usize) {
        self.validator.passes_again(self.miner.key, Mode::Audit, devices).await;
    }
}

/// A lost device ends its worker, and the challenge without blame; the worker that comes after it works.
#[tokio::test(flavor = "multi_thread")]
async fn a_gpu_that_is_lost_in_a_challenge_is_sick_and_comes_back() {
    for fault in ["vkWaitSemaphores@1:1:VK_ERROR_DEVICE_LOST", "vkQueueSubmit@1:1:VK_ERROR_DEVICE_LOST"] {
        let mut troubled = Troubled::start(fault, true, &[]).await;
        troubled.count_from_now();
        troubled.challenge(Mode::Replay).await.expect(ReasonCode::DeviceSick);
        troubled.miner.daemon.wait_for("Device is lost");
        troubled.passes_again(2).await;
    }
}

/// As a GPU's reset shows that the driver does not notice: nothing gets done any more.
#[tokio::test(flavor = "multi_thread")]
async fn a_gpu_that_hangs_in_a_challenge_is_sick_and_comes_back() {
    let mut troubled = Troubled::start("vkQueueSubmit@0:1:hang", true, &[]).await;
    troubled.count_from_now();
    troubled.challenge(Mode::Replay).await.expect(ReasonCode::DeviceSick);
    troubled.miner.daemon.wait_for("nothing was done for 20 s");
    troubled.passes_again(2).await;
}

/// As the kernel does when the host is out of memory.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_killed_in_a_challenge_is_ours_and_comes_back() {
    let troubled = Troubled::start("vkQueueSubmit@0:1:exit", true, &[]).await;
    troubled.count_from_now();
    troubled.challenge(Mode::Replay).await.expect(ReasonCode::MinerInternal);
    troubled.passes_again(2).await;
}

/// A driver that fails while a device is tried is not a wrong bit: the device is tried again, and offered then.
#[tokio::test(flavor = "multi_thread")]
async fn a_gpu_whose_driver_fails_at_the_start_is_tried_again() {
    for fault in ["vkCreateDevice@0:1:VK_ERROR_INITIALIZATION_FAILED", "vkWaitSemaphores@0:3:VK_ERROR_DEVICE_LOST"] {
        let troubled = Troubled::start(fault, false, &[]).await;
        troubled.passes_again(2).await;
        assert!(troubled.file("once").exists(), "nothing failed");
    }
}

/// A GPU that gives other bits than the processor is never offered; the other one is.
#[tokio::test(flavor = "multi_thread")]
async fn a_gpu_with_wrong_bits_is_left_out() {
    let mut troubled = Troubled::start("readback@0:1+:spoil", false, &[("ONCE", "")]).await;
    troubled.miner.daemon.wait_for("give other bits on its driver than they must");
    assert_eq!(troubled.challenge(Mode::Replay).await.expect_pass().verdict.devices.len(), 1);
}

/// Memory that another program takes after the inventory was made: no fault of anybody's.
#[tokio::test(flavor = "multi_thread")]
async fn memory_that_is_taken_before_a_challenge_ends_it_as_busy() {
    // Slots too large for the free space in the driver allocator's blocks.
    let policy = Policy { n: 2048, ..Policy::default() };
    let troubled = Troubled::start_for(&policy, "vkCreateBuffer@1:1:tenant160", true, &[]).await;
    troubled.count_from_now();
    troubled.challenge(Mode::Audit).await.expect(ReasonCode::NotEnoughMemory);
}

/// Memory of another program is not offered.
#[tokio::test(flavor = "multi_thread")]
async fn memory_that_another_program_has_is_not_offered() {
    let policy = Policy { flags: vec!["--policy-fields=min_slots=6".into()], ..Policy::default() };
    let troubled = Troubled::start_for(&policy, "", false, &[]).await;
    troubled.challenge(Mode::Replay).await.expect_pass();
    fs::write(troubled.file("tenant"), "95").unwrap();
    let start = Instant::now();
    let ruling = loop {
        assert!(start.elapsed() < PATIENCE, "what is not there is still offered");
        // The device works with the memory that it still holds, as long as it has work: less each time, until it is too
        // little.
        tokio::time::sleep(Duration::from_secs(2)).await;
        let ruling = troubled.challenge(Mode::Audit).await;
        assert_ne!(ruling.verdict.outcome(), v1::Outcome::Fail, "{:?}", ruling.verdict.reasons);
        if !ruling.verdict.not_challenged.is_empty() {
            break ruling;
        }
    };
    // The larger one goes on alone, and the other one is missed: it had the memory before.
    assert_eq!(
        (ruling.expect(ReasonCode::DeviceMissing).verdict.devices.len(), ruling.verdict.not_challenged.len()),
        (1, 1)
    );
}

/// The failure of a validator's GPU during a replay is no miner's fault.
#[tokio::test(flavor = "multi_thread")]
async fn a_validator_whose_gpu_fails_blames_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (once, when) = (path("once"), path("when"));
    for fault in ["vkWaitSemaphores:1:VK_ERROR_DEVICE_LOST", "readback:1:spoil"] {
        let settings = [("FAULT", fault), ("ONCE", once.as_str()), ("WHEN", when.as_str())];
        let policy = Policy {
            flags: vec![
                "--backend=wgpu".into(),
                "--wgpu-dot=packed".into(),
                "--wgpu-memory=64MiB".into(),
                format!("--kernel-cache={}", path("cache")),
            ],
            environment: vulkan::environment(&settings),
            ..Policy::default()
        };
        let mut validator = TestValidator::start(&policy).await;
        validator.daemon.workers(1);
        let miner = TestMiner::start(validator.address, 2, &[]);
        validator.wait_for_miner(miner.key, true).await;
        validator.challenge(miner.key, Some(Mode::Replay)).await.unwrap().expect_pass();
        fs::write(&when, "").unwrap();
        let ruling = validator.challenge(miner.key, Some(Mode::Replay)).await.unwrap();
        ruling.expect(ReasonCode::ValidatorDevices);
        validator.passes_again(miner.key, Mode::Replay, 2).await;
        for file in [&once, &when] {
            fs::remove_file(file).unwrap();
        }
    }
}
