//! The fate of a challenge, and of the program, when the process that drives a device is lost or hangs.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use assay_api::BeginChallenge;
use assay_integration_tests::daemon::{self, Held, PATIENCE, lives, program};
use assay_integration_tests::miner::TestMiner;
use assay_integration_tests::validator::{Policy, RunningChallenge, TestValidator};
use assay_protocol::verdict::{Mode, ReasonCode};
use tempfile::TempDir;

const NAP: Duration = Duration::from_millis(10);
/// Challenges that may come before the news of a device that went, and of one that is back.
const MAX_CHANGES: u32 = 4;

/// Work that takes longer than a signal; one iteration alone is over at once.
fn long_work() -> Policy {
    Policy { iterations: 600, ..Policy::default() }
}

/// Work that would take longer than a busy machine needs for a signal, and does not come to its end.
fn endless_work() -> Policy {
    Policy { iterations: 20_000, ..Policy::default() }
}

fn signal(process: i32, signal: i32) {
    // SAFETY: kill only sends a signal; the process is a worker of a program that this test started.
    assert_eq!(unsafe { libc::kill(process, signal) }, 0, "process {process} is there");
}

fn wait_until_gone(processes: impl IntoIterator<Item = i32>) {
    let until = Instant::now() + PATIENCE;
    for process in processes {
        while lives(process) {
            assert!(Instant::now() < until, "worker {process} outlives its program");
            std::thread::sleep(NAP);
        }
    }
}

/// Waits until the validator knows `devices` devices of the miner.
async fn wait_for_devices(validator: &TestValidator, miner: &TestMiner, devices: usize) {
    let until = Instant::now() + PATIENCE;
    loop {
        let miners = validator.miners().await;
        let found = miners.iter().find(|m| m.miner_key == miner.key);
        if found.is_some_and(|found| found.claimed_devices.len() == devices) {
            return;
        }
        assert!(Instant::now() < until, "the validator never hears of {devices} devices");
        tokio::time::sleep(NAP).await;
    }
}

/// A challenge of one iteration, which passes on `devices` devices. One that came before the news of a change of devices
/// misses that device or is declined, and is asked again.
async fn passes(validator: &TestValidator, devices: usize) {
    let changes = [ReasonCode::DeviceMissing, ReasonCode::StaleInventory].map(ReasonCode::name);
    let mut ruling = None;
    for _ in 0..MAX_CHANGES {
        let request = BeginChallenge { iterations: Some(1), ..BeginChallenge::default() };
        let found = ruling.insert(validator.run(request).await.unwrap());
        if !found.verdict.reasons.iter().any(|reason| changes.contains(&&*reason.code)) {
            break;
        }
    }
    assert_eq!(ruling.expect("one at least").expect_pass().verdict.devices.len(), devices);
}

struct Scene {
    validator: TestValidator,
    miner: TestMiner,
    /// The miner's workers, by device.
    workers: BTreeMap<String, i32>,
}

impl Scene {
    async fn new(policy: &Policy, devices: u32, flags: &[&str]) -> Self {
        Self::of(policy, devices, flags, Vec::new()).await
    }

    async fn of(policy: &Policy, devices: u32, flags: &[&str], environment: Vec<(String, OsString)>) -> Self {
        let validator = TestValidator::start(policy).await;
        let mut miner = TestMiner::start_in(validator.address, devices, flags, environment);
        let workers = miner.daemon.workers(devices as usize);
        validator.wait_for_miner(miner.key, true).await;
        Self { validator, miner, workers }
    }

    async fn ask(&self, mode: Mode) -> RunningChallenge {
        self.validator.ask(self.miner.key, Some(mode)).await.unwrap()
    }

    /// The process of the first device.
    fn first(&self) -> i32 {
        *self.workers.values().next().expect("there is a device")
    }

    /// The first device comes back in another process, the others are where they were, and all of them pass.
    async fn recovers(mut self) {
        let line = self.miner.daemon.wait_for("worker 2 drives");
        let first = self.workers.keys().next().expect("there is a device");
        assert_eq!(line["device"].as_str(), Some(first.as_str()), "only one was lost");
        wait_for_devices(&self.validator, &self.miner, self.workers.len()).await;
        passes(&self.validator, self.workers.len()).await;
        for process in self.workers.values().skip(1) {
            assert!(lives(*process), "another device lost its worker as well");
        }
        let log = self.miner.daemon.log().join("\n");
        assert_eq!(log.matches("has lost its worker").count(), 1, "{log}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_in_the_work() {
    let mut scene = Scene::new(&endless_work(), 2, &[]).await;
    let challenge = scene.ask(Mode::Audit).await;
    scene.miner.daemon.wait_for("working");
    signal(scene.first(), libc::SIGKILL);
    let ruling = challenge.ruling().await.unwrap();
    ruling.expect(ReasonCode::MinerInternal);
    assert!(ruling.verdict.reasons[0].detail.contains("signal 9"), "{:?}", ruling.verdict.reasons);
    scene.recovers().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hung_in_the_work() {
    let mut scene = Scene::new(&endless_work(), 2, &["--worker-silence-s=3"]).await;
    let challenge = scene.ask(Mode::Audit).await;
    scene.miner.daemon.wait_for("working");
    signal(scene.first(), libc::SIGSTOP);
    let ruling = challenge.ruling().await.unwrap();
    ruling.expect(ReasonCode::DeviceSick);
    assert!(ruling.verdict.reasons[0].detail.contains("hung"), "{:?}", ruling.verdict.reasons);
    wait_until_gone([scene.first()]);
    scene.recovers().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_in_the_probe() {
    // As many rounds as there can be: seconds.
    let policy = Policy { probe_target_ms: 60_000, probe_expect_gb_per_s: 10.0, ..Policy::default() };
    let scene = Scene::new(&policy, 2, &[]).await;
    let mut challenge = scene.ask(Mode::Audit).await;
    challenge.wait_for_phase("probe").await;
    signal(scene.first(), libc::SIGKILL);
    challenge.ruling().await.unwrap().expect(ReasonCode::MinerInternal);
    scene.recovers().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_in_the_openings() {
    // Lines and rows of a hundred megabytes: they are not sent in a moment.
    let policy = Policy { segments: 64, probe_steps: 1024, samples: 1024, ..Policy::default() };
    let scene = Scene::new(&policy, 2, &[]).await;
    let mut challenge = scene.ask(Mode::Audit).await;
    challenge.wait_for_phase("openings").await;
    signal(scene.first(), libc::SIGKILL);
    let ruling = challenge.ruling().await.unwrap();
    ruling.expect(ReasonCode::Abandoned);
    let detail = &ruling.verdict.reasons[0].detail;
    assert!(detail.contains(ReasonCode::MinerInternal.name()), "the miner's own reason stands beside it: {detail}");
    scene.recovers().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_while_idle() {
    let scene = Scene::new(&Policy::default(), 2, &[]).await;
    passes(&scene.validator, 2).await;
    signal(scene.first(), libc::SIGKILL);
    scene.recovers().await;
}

/// A device whose worker does not come back is left out, and comes back when it does.
#[tokio::test(flavor = "multi_thread")]
async fn a_device_that_is_down_is_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let broken = folder.path().join("broken");
    let script = script(&folder, &format!("if [ -e {} ]; then exit 7; fi", broken.display()));
    let mut scene = Scene::of(&Policy::default(), 2, &[], script).await;
    passes(&scene.validator, 2).await;
    fs::write(&broken, "").unwrap();
    signal(scene.first(), libc::SIGKILL);
    wait_for_devices(&scene.validator, &scene.miner, 1).await;
    let ruling = scene.validator.challenge(scene.miner.key, Some(Mode::Audit)).await.unwrap();
    // The other one is judged, and this one is missed.
    assert_eq!(ruling.expect(ReasonCode::DeviceMissing).verdict.devices.len(), 1);
    scene.miner.daemon.wait_for("its worker ended with code 7");
    fs::remove_file(&broken).unwrap();
    wait_for_devices(&scene.validator, &scene.miner, 2).await;
    passes(&scene.validator, 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nonsense_from_a_worker() {
    let folder = tempfile::tempdir().unwrap();
    // The first one lists the devices; of the two that follow the one that makes the folder first talks nonsense.
    let [listed, spoke] = ["listed", "spoke"].map(|name| folder.path().join(name).display().to_string());
    let rubbish = format!(
        "if ! mkdir {listed} 2> /dev/null && mkdir {spoke} 2> /dev/null; then
           echo 'on its last legs' >&2; head -c 300000 /dev/urandom; exec sleep 100
         fi"
    );
    let validator = TestValidator::start(&Policy::default()).await;
    let mut miner = TestMiner::start_in(validator.address, 2, &[], script(&folder, &rubbish));
    let line = miner.daemon.wait_for("cannot be used now");
    assert!(line["message"].as_str().unwrap().contains("its worker gave a malformed answer"), "{line}");
    wait_for_devices(&validator, &miner, 2).await;
    passes(&validator, 2).await;
    assert!(miner.daemon.log().join("\n").contains("worker: on its last legs"));
}

#[test]
fn a_listing_that_dies_is_a_backend_without_devices() {
    let folder = tempfile::tempdir().unwrap();
    for (way, said) in
        [("kill -SEGV $$", "was killed by signal 11"), ("exit 3", "ended with code 3"), ("echo x", "ended")]
    {
        let key = format!("--key-file={}", folder.path().join("key").display());
        let script = script(&folder, &format!("{way}; exit 0"));
        for backend in ["--backend=cpu", "--backend=auto"] {
            let output = daemon::run_in("assay-miner", ["devices", backend, &key], &script);
            let error = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(78), "{error}");
            assert!(error.contains("cpu: its devices cannot be listed") && error.contains(said), "{error}");
        }
    }
}

/// Cancelled work is given up by the worker that runs it: it need not be killed for it.
#[tokio::test(flavor = "multi_thread")]
async fn cancelled_work_costs_no_worker() {
    let policy = Policy { iterations: 30_000, commit_deadline_s: 4, ..Policy::default() };
    let mut scene = Scene::new(&policy, 2, &[]).await;
    let ruling = scene.validator.challenge(scene.miner.key, Some(Mode::Audit)).await.unwrap();
    ruling.expect(ReasonCode::CommitmentLate);
    passes(&scene.validator, 2).await;
    assert!(scene.workers.values().all(|process| lives(*process)));
    assert!(!scene.miner.daemon.log().join("\n").contains("has lost its worker"));
}

/// A service manager sends SIGTERM, and a terminal SIGINT and SIGHUP, to all processes: the program alone decides.
#[tokio::test(flavor = "multi_thread")]
async fn signals_to_end_are_for_the_program() {
    let mut scene = Scene::new(&long_work(), 2, &[]).await;
    let challenge = scene.ask(Mode::Audit).await;
    scene.miner.daemon.wait_for("working");
    for process in scene.workers.values() {
        signal(*process, libc::SIGTERM);
        signal(*process, libc::SIGINT);
        signal(*process, libc::SIGHUP);
    }
    scene.miner.daemon.terminate();
    challenge.ruling().await.unwrap().expect_pass();
    assert_eq!(scene.miner.daemon.wait().code(), Some(0));
    wait_until_gone(scene.workers.into_values());
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_do_not_outlive_a_killed_program() {
    let mut scene = Scene::new(&long_work(), 3, &[]).await;
    let _challenge = scene.ask(Mode::Audit).await;
    scene.miner.daemon.wait_for("working");
    // Not even one that cannot notice.
    signal(scene.first(), libc::SIGSTOP);
    scene.miner.daemon.kill();
    wait_until_gone(scene.workers.into_values());
}

/// One that never looks at its input does not hear that the program is gone; the kernel sees to it.
#[test]
fn a_worker_that_hears_nothing_does_not_outlive_a_killed_program() {
    let folder = tempfile::tempdir().unwrap();
    let [listed, started] = ["listed", "started"].map(|name| folder.path().join(name));
    let first =
        format!("mkdir {} 2> /dev/null || {{ echo $$ > {}; exec sleep 1000; }}", listed.display(), started.display());
    let worker = script(&folder, &first);
    let mut miner = TestMiner::start_in(([127, 0, 0, 1], 1).into(), 1, &["--worker-silence-s=600"], worker);
    let until = Instant::now() + PATIENCE;
    let process = loop {
        if let Ok(process) = fs::read_to_string(&started).unwrap_or_default().trim().parse() {
            break process;
        }
        assert!(Instant::now() < until, "the worker is never started: {:#?}", miner.daemon.log());
        std::thread::sleep(NAP);
    };
    assert!(lives(process));
    miner.daemon.kill();
    wait_until_gone([process]);
}

/// The validator's own devices live in workers too: their loss is not a miner's fault.
#[tokio::test(flavor = "multi_thread")]
async fn a_validator_that_loses_a_worker_blames_nobody() {
    let mut validator = TestValidator::start(&long_work()).await;
    let own = validator.daemon.workers(1);
    let miner = TestMiner::start(validator.address, 1, &[]);
    validator.wait_for_miner(miner.key, true).await;
    let mut challenge = validator.ask(miner.key, Some(Mode::Replay)).await.unwrap();
    // Held, so that the replay does not end before they are killed.
    let held: Vec<_> = own.values().map(|process| Held::process(*process)).collect();
    challenge.wait_for_phase("replay").await;
    own.values().for_each(|process| signal(*process, libc::SIGKILL));
    drop(held);
    challenge.ruling().await.unwrap().expect(ReasonCode::ValidatorDevices);
    validator.daemon.wait_for("worker 2 drives");
    let (iterations, mode) = (Some(1), Some(Mode::Replay));
    let request = BeginChallenge { iterations, mode, ..BeginChallenge::default() };
    validator.run(request).await.unwrap().expect_pass();
}

#[test]
fn a_worker_is_not_for_a_terminal_and_says_what_it_is() {
    let help = |arguments: &[&str]| String::from_utf8(daemon::run("assay-miner", arguments).stdout).unwrap();
    assert!(!help(&["--help"]).contains("worker") && help(&["worker", "--help"]).contains("Internal"));
    for name in ["assay-miner", "assay-validator"] {
        // Its input ends at once, and so does it.
        let output = daemon::run(name, ["worker"]);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
    }
}

/// A worker program that does something first: the variable for it.
fn script(folder: &TempDir, first: &str) -> Vec<(String, OsString)> {
    let path: PathBuf = folder.path().join("worker.sh");
    let real: &Path = &program("assay-miner");
    fs::write(&path, format!("#!/bin/sh\n{first}\nexec {} \"$@\"\n", real.display())).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    vec![("ASSAY_WORKER_PROGRAM".to_owned(), path.into())]
}
