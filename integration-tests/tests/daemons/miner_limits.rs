//! Limits of a miner's operator: the share of memory and the time of a challenge; and the changes by SIGHUP.

use std::time::{Duration, Instant};

use assay_api::BeginChallenge;
use assay_integration_tests::daemon::PATIENCE;
use assay_integration_tests::miner::TestMiner;
use assay_integration_tests::validator::{Policy, TestValidator};
use assay_protocol::verdict::{Mode, ReasonCode};
use serde_json::Value;
use tempfile::TempDir;

const MIB: u64 = 1 << 20;

fn in_audit() -> BeginChallenge {
    let mode = Some(Mode::Audit);
    BeginChallenge { mode, ..BeginChallenge::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_share_of_the_memory_is_offered_and_no_more() {
    let policy = Policy { max_matrices: 1 << 20, ..Policy::default() };
    let (validator, miner) =
        TestMiner::with_validator(&policy, 1, &["--cpu-memory=16MiB", "--max-memory-percent=50"]).await;
    let miners = validator.miners().await;
    let device = miners[0].claimed_devices[0].clone();
    assert_eq!((device.total_bytes, device.free_bytes), (16 << 20, 8 << 20));
    let ruling = validator.challenge(miner.key, Some(Mode::Audit)).await.unwrap();
    let held = ruling.expect_pass().verdict.whole.as_ref().unwrap().matrices;
    assert!((1..=u64::from(device.slots[0])).contains(&held), "{held} of {}", device.slots[0]);
    drop(miner);
    // As many slots as a device with that memory has, which takes some of it for itself.
    let small = TestMiner::start(validator.address, 1, &["--cpu-memory=8MiB"]);
    validator.wait_for_miner(small.key, true).await;
    let miners = validator.miners().await;
    let of_small = miners.iter().find(|miner| miner.miner_key == small.key).unwrap();
    assert_eq!(of_small.claimed_devices[0].slots[..3], device.slots[..3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_challenge_that_takes_longer_than_allowed_is_stopped() {
    let policy = Policy { iterations: 60_000, ..Policy::default() };
    let (validator, mut miner) =
        TestMiner::with_validator(&policy, 1, &["--max-challenge-s=1", "--idle-release-s=0"]).await;
    let ruling = validator.challenge(miner.key, Some(Mode::Audit)).await.unwrap();
    ruling.expect(ReasonCode::MinerDeclined);
    let detail = &ruling.verdict.reasons[0].detail;
    assert!(detail.contains("at most 1 s") && detail.contains("max_challenge_s"), "{detail}");
    miner.daemon.wait_for("broke the challenge off");
    // The devices are free again.
    let short = BeginChallenge { iterations: Some(1), ..in_audit() };
    validator.run(short).await.unwrap().expect_pass();
}

struct Configured {
    validator: TestValidator,
    miner: TestMiner,
    folder: TempDir,
}

impl Configured {
    /// A miner that reads this configuration file.
    async fn start(policy: &Policy, text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("miner.toml");
        std::fs::write(&file, text).unwrap();
        let validator = TestValidator::start(policy).await;
        let flag = format!("--config={}", file.display());
        // The level is the file's to say.
        let miner = TestMiner::start_without(validator.address, 1, &[&flag, "--cpu-memory=16MiB"], &["--log"]);
        validator.wait_for_miner(miner.key, true).await;
        Self { validator, miner, folder }
    }

    /// Writes another file and sends SIGHUP; gives the line of the log that says `part`.
    fn reload(&mut self, text: &str, part: &str) -> Value {
        std::fs::write(self.folder.path().join("miner.toml"), text).unwrap();
        let pid = self.miner.daemon.id().to_string();
        assert!(std::process::Command::new("kill").args(["-HUP", &pid]).status().unwrap().success());
        self.miner.daemon.wait_for(part)
    }

    /// Waits until so much of the memory is offered; a challenge passes with it.
    async fn offers(&self, bytes: u64) {
        let until = Instant::now() + PATIENCE;
        while self.validator.miners().await[0].claimed_devices[0].free_bytes != bytes {
            assert!(Instant::now() < until, "the validator never hears of it");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        self.validator.run(in_audit()).await.unwrap().expect_pass();
    }
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn sighup_changes_limits_and_names_what_needs_a_restart() {
    const READ: &str = "the settings were read again";
    const HALF: &str = "max_memory_percent = 50\n";
    let mut miner = Configured::start(&Policy::default(), HALF).await;
    miner.offers(8 * MIB).await;
    let line = miner.reload("", READ);
    assert_eq!(line["changed"], serde_json::json!(["max_memory_percent"]));
    miner.offers(16 * MIB).await;
    // A file that is wrong changes nothing, and names the mistake.
    for (text, mistake) in [
        (format!("{HALF}idle_relase_s = 1\n"), "did you mean `idle_release_s`?"),
        (format!("{HALF}max_challenge_s = 604801\n"), "from 0 to 604800"),
        (format!("{HALF}log = \"loud\"\n"), "log = "),
        (format!("{HALF}decline_hours = \"Sat\"\n"), "a timer that stops and starts the miner does it"),
        ("max_memory_percent = ".to_owned(), "not valid TOML"),
    ] {
        let line = miner.reload(&text, "SIGHUP: nothing was changed").to_string();
        assert!(line.contains(mistake), "{mistake} in {line}");
        miner.offers(16 * MIB).await;
    }
    // Settings that need a restart are named each time, and the others take effect.
    let restart = format!("{HALF}idle_release_s = 1\ndrain_timeout_s = 5\n");
    let line = miner.reload(&restart, "need a restart");
    assert_eq!(line["settings"], serde_json::json!(["drain_timeout_s", "idle_release_s"]));
    miner.offers(8 * MIB).await;
    miner.reload(&restart, "need a restart");
    miner.reload("log = \"debug\"\n", READ);
    miner.offers(16 * MIB).await;
    miner.miner.daemon.wait_for("DEBUG");
}

/// The inventory follows, without another session.
#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn sighup_changes_the_share_of_memory() {
    let mut miner = Configured::start(&Policy::default(), "").await;
    let before = miner.validator.miners().await.remove(0).address;
    miner.reload("max_memory_percent = 50\n", "the settings were read again");
    miner.offers(8 * MIB).await;
    assert_eq!(miner.validator.miners().await.remove(0).address, before, "it is the same session");
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn a_challenge_goes_on_over_sighup() {
    let mut miner = Configured::start(&Policy::default(), "").await;
    let held = miner.miner.daemon.hold_devices();
    let running = miner.validator.ask(miner.miner.key, Some(Mode::Audit)).await.unwrap();
    miner.miner.daemon.wait_for("working");
    miner.reload("max_memory_percent = 50\n", "the settings were read again");
    drop(held);
    running.ruling().await.unwrap().expect_pass();
    miner.offers(8 * MIB).await;
}
