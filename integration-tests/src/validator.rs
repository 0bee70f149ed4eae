//! A validator in a folder of its own, and its operator.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use assay_api::{BeginChallenge, ChallengeProgress, ChallengeUpdate, MinerConnection, ServerStatus};
use assay_client::place::ApiLocation;
use assay_client::{Client, ClientError, Updates};
use assay_protocol::identity::Identity;
use assay_protocol::verdict::{Mode, Outcome, ReasonCode};
use assay_protocol::wire::v1;
use assay_work::{ChallengeId, PublicKey};
use tempfile::TempDir;

use crate::daemon::{Daemon, LOG, PATIENCE};

/// How often the validator is asked who is connected.
const NAP: Duration = Duration::from_millis(10);
/// How often a challenge is repeated whose verdict is that the validator was held up, as on a busy machine.
const HELD_UP_TRIES: u32 = 3;

/// The policy of a test's validator: small work, a small probe, deadlines that no busy machine misses.
#[derive(Debug, Clone)]
pub struct Policy {
    pub n: u32,
    /// The slots of a challenge, over all devices.
    pub max_matrices: u32,
    pub iterations: u32,
    /// Iterations that are drawn.
    pub sampled_iterations: u32,
    /// Samples of a device and iteration.
    pub samples: u32,
    /// Segments of a device.
    pub segments: u32,
    /// Steps of each of 64 walks.
    pub probe_steps: u32,
    /// How long a probe is to take at the rate expected; both together say how many rounds it has.
    pub probe_target_ms: u64,
    pub probe_expect_gb_per_s: f64,
    /// How long the work may take.
    pub commit_deadline_s: u64,
    /// How long the probe may take.
    pub probe_deadline_ms: u64,
    /// How long the openings may take.
    pub openings_deadline_s: u64,
    /// How often miners are pinged.
    pub ping_interval_ms: u64,
    /// Whether miners are challenged when they connect.
    pub challenge_on_connect: bool,
    /// Further flags; they override the common ones of tests.
    pub flags: Vec<String>,
    /// Percentage of passes whose evidence is kept, by a policy file; `None`: the default.
    pub keeps_passes_percent: Option<u32>,
    pub environment: Vec<(String, OsString)>,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            n: 256,
            max_matrices: 12,
            iterations: 1,
            sampled_iterations: 1,
            samples: 128,
            segments: 32,
            probe_steps: 8,
            // 64 walks of 8 steps read 32 KiB a round: 10 ms at 10 MB/s are three rounds.
            probe_target_ms: 10,
            probe_expect_gb_per_s: 0.01,
            commit_deadline_s: 60,
            probe_deadline_ms: 60_000,
            openings_deadline_s: 60,
            ping_interval_ms: 1000,
            challenge_on_connect: false,
            flags: Vec::new(),
            keeps_passes_percent: None,
            environment: Vec::new(),
        }
    }
}

/// The flag of a miner that shows little speed.
pub const SLOW_KERNEL: &str = "--cpu-kernel=portable";

impl Policy {
    /// One whose probe shows memory although its matrices are small, also where the machine holds the probe up for a
    /// while: it reads 60 MB. The miner needs [`SLOW_KERNEL`], by whose rate hidden lines are taken to be computed.
    #[must_use]
    pub fn showing_memory() -> Self {
        let flags = vec!["--policy-fields=bus_gb_per_s=0".to_owned()];
        let (probe_steps, probe_target_ms, probe_expect_gb_per_s) = (64, 20, 3.0);
        Self { max_matrices: 48, probe_steps, probe_target_ms, probe_expect_gb_per_s, flags, ..Self::default() }
    }

    fn flags(&self) -> Vec<String> {
        let mut flags: Vec<String> = [
            "--backend=cpu --cpu-devices=1 --cpu-memory=8MiB --cpu-threads=1".to_owned(),
            format!("--challenge-on-connect={} --challenge-interval-s=0", self.challenge_on_connect),
            format!("--n={} --iterations={} --samples={}", self.n, self.iterations, self.samples),
            format!("--ping-interval-ms={} --log={LOG} --http-listen=", self.ping_interval_ms),
        ]
        .iter()
        .flat_map(|flags| flags.split(' ').map(str::to_owned).collect::<Vec<_>>())
        .filter(|flag| !self.flags.iter().any(|own| own.split('=').next() == flag.split('=').next()))
        .collect();
        // Fields of the flags after these override them.
        flags.push(format!(
            "--policy-fields=max_matrices={},sampled_iterations={},segments={},probe_walks=64,probe_steps={},\
             probe_target={}ms,probe_expect_gb_per_s={},probe_deadline={}ms,commit_deadline={}s,openings_deadline={}s",
            self.max_matrices,
            self.sampled_iterations,
            self.segments,
            self.probe_steps,
            self.probe_target_ms,
            self.probe_expect_gb_per_s,
            self.probe_deadline_ms,
            self.commit_deadline_s,
            self.openings_deadline_s
        ));
        flags.extend(self.flags.iter().cloned());
        flags
    }
}

/// A running validator. Dropped, it is gone, and its folder with it.
#[derive(Debug)]
pub struct TestValidator {
    pub address: SocketAddr,
    pub key: PublicKey,
    pub socket: PathBuf,
    pub daemon: Daemon,
    client: Client,
    flags: Vec<String>,
    /// Variables of its environment, also at its next start.
    pub environment: Vec<(String, OsString)>,
    /// Kept for as long as the program needs it.
    folder: TempDir,
}

impl TestValidator {
    /// Starts one on a port that the system chooses.
    pub async fn start(policy: &Policy) -> Self {
        Self::start_on(policy, "127.0.0.1:0").await
    }

    /// Starts one on an address of this machine.
    pub async fn start_on(policy: &Policy, listen: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (socket, key_file) = (folder.path().join("run/control.sock"), folder.path().join("validator.key"));
        let key = Identity::load_or_create(&key_file).expect("a key").public_key();
        let mut flags = vec!["serve".to_owned()];
        flags.extend(policy.flags());
        if let Some(percent) = policy.keeps_passes_percent {
            let file = folder.path().join("fleet.toml");
            let text = format!("[[group]]\nname = \"default\"\nevidence = {{ passes_percent = {percent} }}\n");
            std::fs::write(&file, text).expect("the file is written");
            flags.push(format!("--fleet-policy={}", file.display()));
        }
        flags.push(format!("--control-socket={}", socket.display()));
        flags.push(format!("--key-file={}", key_file.display()));
        let (daemon, address) = serve(&flags, listen, &policy.environment);
        let environment = policy.environment.clone();
        let client = Client::of(&ApiLocation::Socket(socket.clone()));
        let validator = Self { address, key, socket, daemon, client, flags, environment, folder };
        validator.wait_for_socket().await;
        validator
    }

    /// Starts the program again, once it has ended, as the same validator at the same address.
    ///
    /// # Panics
    /// When it still runs, or does not come up.
    pub async fn restart(&mut self) {
        self.daemon.wait();
        (self.daemon, self.address) = serve(&self.flags, &self.address.to_string(), &self.environment);
        self.wait_for_socket().await;
    }

    #[must_use]
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    async fn wait_for_socket(&self) {
        let until = Instant::now() + PATIENCE;
        while self.client.get::<ServerStatus>("/status").await.is_err() {
            assert!(Instant::now() < until, "the validator serves its socket");
            tokio::time::sleep(NAP).await;
        }
    }

    /// A client of its control socket.
    #[must_use]
    pub const fn operator(&self) -> &Client {
        &self.client
    }

    /// The address of the HTTP API beside the control socket, once it is served.
    pub fn http_address(&mut self) -> SocketAddr {
        let line = self.daemon.wait_for("the HTTP API");
        let address = line["address"].as_str().and_then(|address| address.parse().ok());
        address.unwrap_or_else(|| panic!("no address in {line}"))
    }

    pub async fn miners(&self) -> Vec<MinerConnection> {
        self.client.list("/connected", &(), u32::MAX).await.expect("the validator lists its miners")
    }

    /// Waits until a miner is connected, or until it is not.
    pub async fn wait_for_miner(&self, key: PublicKey, connected: bool) {
        let until = Instant::now() + PATIENCE;
        while self.miners().await.iter().any(|miner| miner.miner_key == key) != connected {
            assert!(Instant::now() < until, "miner {key} is not as waited for: connected = {connected}");
            tokio::time::sleep(NAP).await;
        }
    }

    /// Challenges a miner, in the mode of the policy when none is given, and waits for the verdict.
    ///
    /// # Errors
    /// The validator's error when it makes no challenge, or gives no verdict.
    ///
    /// # Panics
    /// When the validator does not serve its socket.
    pub async fn challenge(&self, key: PublicKey, mode: Option<Mode>) -> Result<Ruling, ClientError> {
        let held_up = ReasonCode::ValidatorOverloaded.name();
        let mut ruling = self.ask(key, mode).await?.ruling().await?;
        for _ in 0..HELD_UP_TRIES {
            if ruling.verdict.reasons.iter().all(|reason| reason.code != held_up) {
                break;
            }
            ruling = self.ask(key, mode).await?.ruling().await?;
        }
        Ok(ruling)
    }

    /// Challenges a miner until one passes on so many devices: one that failed takes a moment to come back.
    ///
    /// # Panics
    /// When a challenge fails, or none passes in time.
    pub async fn passes_again(&self, key: PublicKey, mode: Mode, devices: usize) {
        let until = Instant::now() + PATIENCE;
        loop {
            assert!(Instant::now() < until, "no challenge passes on {devices} devices");
            if let Ok(ruling) = self.challenge(key, Some(mode)).await {
                let outcome = ruling.verdict.outcome();
                assert_ne!(outcome, v1::Outcome::Fail, "{:?}", ruling.verdict.reasons);
                if outcome == v1::Outcome::Pass && ruling.verdict.devices.len() == devices {
                    return;
                }
            }
            tokio::time::sleep(5 * NAP).await;
        }
    }

    /// Challenges a miner as `request` says, and waits for the verdict.
    pub async fn run(&self, request: BeginChallenge) -> Result<Ruling, ClientError> {
        self.begin(request).await?.ruling().await
    }

    /// Challenges a miner, and does not wait.
    ///
    /// # Errors
    /// The validator's error when it makes no challenge.
    ///
    /// # Panics
    /// When the validator does not serve its socket.
    pub async fn ask(&self, key: PublicKey, mode: Option<Mode>) -> Result<RunningChallenge, ClientError> {
        self.begin(BeginChallenge { miner: Some(key.to_string()), mode, ..BeginChallenge::default() }).await
    }

    /// Challenges a miner as `request` says, and does not wait.
    pub async fn begin(&self, request: BeginChallenge) -> Result<RunningChallenge, ClientError> {
        let running: ChallengeProgress = self.client.post("/challenges", &request).await?;
        let (id, updates) = (running.challenge_id, Updates::of(&self.client, running.challenge_id));
        Ok(RunningChallenge { id, updates })
    }
}

/// A challenge whose verdict is still to come.
#[derive(Debug)]
pub struct RunningChallenge {
    pub id: ChallengeId,
    updates: Updates,
}

impl RunningChallenge {
    /// Waits until the challenge comes to a phase.
    ///
    /// # Panics
    /// When it ends before, or does not come so far for as long as a test waits.
    pub async fn wait_for_phase(&mut self, name: &str) {
        loop {
            let update = tokio::time::timeout(PATIENCE, self.updates.next()).await.expect("something comes");
            match update.expect("the challenge goes on") {
                ChallengeUpdate::Running(running) if running.phase == name => return,
                ChallengeUpdate::Running(_) => {}
                ChallengeUpdate::Verdict(verdict) => panic!("it ended before {name}: {verdict:#?}"),
            }
        }
    }

    pub async fn ruling(mut self) -> Result<Ruling, ClientError> {
        let mut phases: Vec<String> = Vec::new();
        loop {
            match tokio::time::timeout(2 * PATIENCE, self.updates.next()).await.expect("something comes")? {
                ChallengeUpdate::Verdict(verdict) => return Ok(Ruling { verdict: (*verdict).into(), phases }),
                ChallengeUpdate::Running(running) if phases.last() == Some(&running.phase) => {}
                ChallengeUpdate::Running(running) => phases.push(running.phase),
            }
        }
    }
}

/// Starts the program; it says where it listens.
fn serve(flags: &[String], listen: &str, environment: &[(String, OsString)]) -> (Daemon, SocketAddr) {
    let mut arguments = flags.to_vec();
    arguments.push(format!("--listen={listen}"));
    let mut daemon = Daemon::start_in("assay-validator", &arguments, environment);
    let line = daemon.wait_for("listening");
    let in_text = || line.as_str()?.split_once("address=")?.1.split(' ').next();
    let address = line["address"].as_str().or_else(in_text).and_then(|address| address.parse().ok());
    (daemon, address.unwrap_or_else(|| panic!("no address in {line}")))
}

/// A verdict as the operator gets it, and the phases that led to it.
#[derive(Debug, Clone)]
pub struct Ruling {
    pub verdict: v1::Verdict,
    pub phases: Vec<String>,
}

impl Ruling {
    pub fn expect_pass(&self) -> &Self {
        assert_eq!(self.verdict.outcome(), v1::Outcome::Pass, "an honest run passes: {:#?}", self.verdict.reasons);
        assert!(self.verdict.reasons.is_empty());
        self
    }

    /// Requires this one reason, its class, and the outcome that goes with it.
    pub fn expect(&self, code: ReasonCode) -> &Self {
        let reasons: Vec<_> = self.verdict.reasons.iter().map(|r| (r.code.as_str(), r.class.as_str())).collect();
        let (expected, given) = ([(code.name(), code.class().name())], &self.verdict.reasons);
        assert_eq!(reasons, expected, "it deserves another reason: {given:#?}");
        let outcome = if code.class().fails() { Outcome::Fail } else { Outcome::Inconclusive };
        let found = match self.verdict.outcome() {
            v1::Outcome::Fail => Outcome::Fail,
            v1::Outcome::Inconclusive => Outcome::Inconclusive,
            other => panic!("{other:?} with reasons {given:#?}"),
        };
        assert_eq!(found, outcome, "{given:#?}");
        self
    }
}
