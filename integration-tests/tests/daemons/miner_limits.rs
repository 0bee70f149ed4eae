//! Limits of a miner's operator: the share of memory, the time of a challenge, and hours; and what SIGHUP changes.

use std::time::{SystemTime, UNIX_EPOCH};

use assay_api::BeginChallenge;
use assay_integration_tests::miner::TestMiner;
use assay_integration_tests::validator::{Policy, TestValidator};
use assay_protocol::verdict::{Mode, ReasonCode};
use serde_json::Value;
use tempfile::TempDir;

/// Hours around this one, which end in some hours: no test runs as long.
pub fn hours_around_now() -> String {
    let hour = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() / 3600 % 24;
    format!("{:02}:00-{:02}:00", (hour + 23) % 24, (hour + 3) % 24)
}

/// Hours that began after this one and end before it.
fn other_hours() -> String {
    let hour = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() / 3600 % 24;
    format!("{:02}:00-{:02}:00", (hour + 6) % 24, (hour + 18) % 24)
}

fn in_audit() -> BeginChallenge {
    let mode = Some(Mode::Audit);
    BeginChallenge { mode, ..BeginChallenge::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_share_of_the_memory_is_offered_and_no_more() {
    let policy = Policy { max_matrices: 1 << 20, ..Policy::default() };
    let validator = TestValidator::start(&policy).await;
    let miner = TestMiner::start(validator.address, 1, &["--cpu-memory=16MiB", "--max-memory-percent=50"]);
    validator.wait_for_miner(miner.key, true).await;
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
    let validator = TestValidator::start(&policy).await;
    let mut miner = TestMiner::start(validator.address, 1, &["--max-challenge-s=1", "--idle-release-s=0"]);
    validator.wait_for_miner(miner.key, true).await;
    let ruling = validator.challenge(miner.key, Some(Mode::Audit)).await.unwrap();
    ruling.expect(ReasonCode::MinerDeclined);
    let detail = &ruling.verdict.reasons[0].detail;
    assert!(detail.contains("at most 1 s") && detail.contains("max_challenge_s"), "{detail}");
    miner.daemon.wait_for("broke the challenge off");
    // The devices are free again.
    let short = BeginChallenge { iterations: Some(1), ..in_audit() };
    validator.run(short).await.unwrap().expect_pass();
}

#[tokio::test(flavor = "multi_thread")]
async fn challenges_are_declined_at_the_hours_that_were_set() {
    let validator = TestValidator::start(&Policy::default()).await;
    let hours = hours_around_now();
    let miner = TestMiner::start(validator.address, 1, &[&format!("--decline-hours={hours}")]);
    validator.wait_for_miner(miner.key, true).await;
    let ruling = validator.challenge(miner.key, Some(Mode::Audit)).await.unwrap();
    ruling.expect(ReasonCode::MinerDeclined);
    let detail = &ruling.verdict.reasons[0].detail;
    assert!(detail.contains(&format!("{hours} (UTC)")) && detail.contains("decline_hours"), "{detail}");
    drop(miner);
    let miner = TestMiner::start(validator.address, 1, &[&format!("--decline-hours={}", other_hours())]);
    validator.wait_for_miner(miner.key, true).await;
    validator.challenge(miner.key, Some(Mode::Audit)).await.unwrap().expect_pass();
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
        let miner = TestMiner::start_without(validator.address, 1, &[&flag], &["--log"]);
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

    async fn declines(&self) {
        self.validator.run(in_audit()).await.unwrap().expect(ReasonCode::MinerDeclined);
    }

    async fn passes(&self) {
        self.validator.run(in_audit()).await.unwrap().expect_pass();
    }
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn sighup_changes_limits_and_names_what_needs_a_restart() {
    const READ: &str = "the settings were read again";
    let declining = format!("decline_hours = \"{}\"\n", hours_around_now());
    let mut miner = Configured::start(&Policy::default(), &declining).await;
    miner.declines().await;
    let line = miner.reload("", READ);
    assert_eq!(line["changed"], serde_json::json!(["decline_hours"]));
    miner.passes().await;
    // A file that is wrong changes nothing, and names the mistake.
    for (text, mistake) in [
        (format!("{declining}idle_relase_s = 1\n"), "did you mean `idle_release_s`?"),
        (format!("{declining}max_memory_percent = 101\n"), "from 1 to 100"),
        (format!("{declining}log = \"loud\"\n"), "log = "),
        ("decline_hours = ".to_owned(), "not valid TOML"),
    ] {
        let line = miner.reload(&text, "SIGHUP: nothing was changed").to_string();
        assert!(line.contains(mistake), "{mistake} in {line}");
        miner.passes().await;
    }
    // What needs a restart is named each time, and the rest is done.
    let restart = format!("{declining}idle_release_s = 1\ndrain_timeout_s = 5\n");
    let line = miner.reload(&restart, "need a restart");
    assert_eq!(line["settings"], serde_json::json!(["drain_timeout_s", "idle_release_s"]));
    miner.declines().await;
    miner.reload(&restart, "need a restart");
    miner.reload("log = \"debug\"\n", READ);
    miner.passes().await;
    miner.miner.daemon.wait_for("DEBUG");
}

/// The inventory follows, without another session.
#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn sighup_changes_the_share_of_memory() {
    let policy = Policy { ping_interval_ms: 100, ..Policy::default() };
    let mut miner = Configured::start(&policy, "").await;
    let before = miner.validator.miners().await.remove(0).address;
    miner.reload("max_memory_percent = 50\n", "the settings were read again");
    let until = std::time::Instant::now() + assay_integration_tests::daemon::PATIENCE;
    loop {
        let miners = miner.validator.miners().await;
        if miners[0].claimed_devices[0].free_bytes == 4 << 20 {
            assert_eq!(miners[0].address, before, "it is the same session");
            return;
        }
        assert!(std::time::Instant::now() < until, "the validator never hears of it");
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn a_challenge_goes_on_over_sighup() {
    let mut miner = Configured::start(&Policy::default(), "").await;
    let held = miner.miner.daemon.hold_devices();
    let running = miner.validator.ask(miner.miner.key, Some(Mode::Audit)).await.unwrap();
    miner.miner.daemon.wait_for("working");
    miner.reload(&format!("decline_hours = \"{}\"\n", hours_around_now()), "the settings were read again");
    drop(held);
    running.ruling().await.unwrap().expect_pass();
    miner.declines().await;
}
