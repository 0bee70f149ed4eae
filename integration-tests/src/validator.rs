//! A validator in a folder of its own, and its operator.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use assay_shared::identity::Identity;
use assay_shared::verdict::{Mode, Outcome, ReasonCode};
use assay_shared::wire::codec::control_client;
use assay_shared::wire::v1::run_challenge_response::Message;
use assay_shared::wire::v1::{self, ListMinersRequest, RunChallengeRequest};
use assay_shared::wire::mode_code;
use assay_shared::work::PublicKey;
use tempfile::TempDir;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

use crate::daemon::PATIENCE;

/// How often the validator is asked who is connected.
const NAP: Duration = Duration::from_millis(10);

/// What a test's validator asks: small work, a small probe, deadlines that no busy machine misses.
#[derive(Debug, Clone)]
pub struct Policy {
    /// The matrix size.
    pub n: u32,
    /// The slots of a challenge, over all devices.
    pub max_matrices: u32,
    /// Passes.
    pub iterations: u32,
    /// Iterations that are drawn.
    pub sampled_iterations: u32,
    /// Samples of a device and iteration.
    pub samples: u32,
    /// Segments of a device.
    pub segments: u32,
    /// Steps of each of 64 walks.
    pub probe_steps: u32,
    /// How long the work may take.
    pub commit_deadline_s: u64,
    /// How long the probe may take.
    pub probe_deadline_ms: u64,
    /// How long the openings may take.
    pub openings_deadline_s: u64,
    /// How often miners are pinged.
    pub ping_interval_ms: u64,
    /// Further flags, which count more.
    pub flags: Vec<String>,
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
            commit_deadline_s: 60,
            probe_deadline_ms: 60_000,
            openings_deadline_s: 60,
            ping_interval_ms: 1000,
            flags: Vec::new(),
        }
    }
}

impl Policy {
    fn flags(&self) -> Vec<String> {
        let mut flags: Vec<String> = [
            "--backend=cpu --cpu-devices=1 --cpu-memory=64MiB --cpu-threads=1".to_owned(),
            "--challenge-on-connect=false --challenge-interval-s=0".to_owned(),
            format!("--n={} --max-matrices={} --iterations={}", self.n, self.max_matrices, self.iterations),
            format!("--sampled-iterations={} --samples={}", self.sampled_iterations, self.samples),
            // 64 walks of 8 steps read 32 KiB a round: 10 ms at 10 MB/s are three rounds.
            format!("--segments={} --probe-walks=64 --probe-steps={}", self.segments, self.probe_steps),
            "--probe-target-ms=10 --probe-expect-gb-per-s=0.01".to_owned(),
            format!("--probe-deadline-ms={}", self.probe_deadline_ms),
            format!("--commit-deadline-s={}", self.commit_deadline_s),
            format!("--openings-deadline-s={}", self.openings_deadline_s),
            format!("--ping-interval-ms={} --log=info", self.ping_interval_ms),
        ]
        .iter()
        .flat_map(|flags| flags.split(' ').map(str::to_owned).collect::<Vec<_>>())
        .collect();
        flags.extend(self.flags.iter().cloned());
        flags
    }
}

/// A running validator. Dropped, it is gone, and its folder with it.
pub struct TestValidator {
    /// Where miners connect to.
    pub address: SocketAddr,
    /// Its public key.
    pub key: PublicKey,
    /// Its socket for commands.
    pub socket: PathBuf,
    /// The running program.
    pub inside: crate::inside::Inside,
    _folder: TempDir,
}

impl TestValidator {
    /// Starts one on a port that the system chooses.
    ///
    /// # Panics
    /// When it does not come up.
    pub async fn start(policy: &Policy) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (socket, key_file) = (folder.path().join("run/control.sock"), folder.path().join("validator.key"));
        let key = Identity::load_or_create(&key_file).expect("a key").public_key();
        let mut flags = policy.flags();
        flags.push("--listen=127.0.0.1:0".to_owned());
        flags.push(format!("--control-socket={}", socket.display()));
        flags.push(format!("--key-file={}", key_file.display()));
        let inside = crate::inside::start(&flags, &socket).await;
        while !socket.exists() {
            tokio::time::sleep(NAP).await;
        }
        Self { address: inside.address, key, socket, inside, _folder: folder }
    }

    async fn operator(&self) -> v1::control_service_client::ControlServiceClient<Channel> {
        let url = format!("unix://{}", self.socket.display());
        let endpoint = Endpoint::from_shared(url).expect("a socket's path makes a URL");
        control_client(endpoint.connect().await.expect("the validator serves its socket"))
    }

    /// The miners that are connected.
    ///
    /// # Panics
    /// When the validator does not say.
    pub async fn miners(&self) -> Vec<v1::ConnectedMiner> {
        let answer = self.operator().await.list_miners(ListMinersRequest {}).await;
        answer.expect("the validator lists its miners").into_inner().miners
    }

    /// Waits until a miner is connected, or until it is not.
    ///
    /// # Panics
    /// When that does not come.
    pub async fn wait_for_miner(&self, key: PublicKey, connected: bool) {
        let until = Instant::now() + PATIENCE;
        while self.miners().await.iter().any(|miner| miner.miner_key == key.0) != connected {
            assert!(Instant::now() < until, "miner {key} is not as waited for: connected = {connected}");
            tokio::time::sleep(NAP).await;
        }
    }

    /// Asks for a challenge of a miner; in the mode of the policy when none is given.
    ///
    /// # Errors
    /// What the validator answers when it makes none.
    ///
    /// # Panics
    /// When the validator goes away.
    pub async fn challenge(&self, key: PublicKey, mode: Option<Mode>) -> Result<Ruling, Status> {
        self.run(RunChallengeRequest {
            miner_key: key.0.to_vec(),
            mode: mode_code(mode),
            ..RunChallengeRequest::default()
        })
        .await
    }

    /// Asks for a challenge.
    ///
    /// # Errors
    /// What the validator answers when it makes none.
    ///
    /// # Panics
    /// When the validator goes away.
    pub async fn run(&self, request: RunChallengeRequest) -> Result<Ruling, Status> {
        let mut updates = self.operator().await.run_challenge(request).await?.into_inner();
        let mut phases = Vec::new();
        let verdicts = async {
            loop {
                match updates.message().await? {
                    Some(v1::RunChallengeResponse { message: Some(Message::Verdict(verdict)) }) => return Ok(verdict),
                    Some(v1::RunChallengeResponse { message: Some(Message::Phase(phase)) }) => phases.push(phase),
                    Some(_) => {}
                    None => return Err(Status::new(Code::Unavailable, "the validator gave no verdict")),
                }
            }
        };
        let verdict = tokio::time::timeout(2 * PATIENCE, verdicts).await.expect("a verdict comes")?;
        Ok(Ruling { verdict, phases })
    }
}

/// A verdict as the operator gets it, and the phases that led to it.
#[derive(Debug, Clone)]
pub struct Ruling {
    /// The verdict.
    pub verdict: v1::Verdict,
    /// What the challenge went through.
    pub phases: Vec<String>,
}

impl Ruling {
    /// Requires a pass.
    ///
    /// # Panics
    /// When it is none.
    pub fn expect_pass(&self) -> &Self {
        assert_eq!(self.verdict.outcome(), v1::Outcome::Pass, "an honest run passes: {:#?}", self.verdict.reasons);
        assert!(self.verdict.reasons.is_empty());
        self
    }

    /// Requires this one reason, its class, and the outcome that goes with it.
    ///
    /// # Panics
    /// When it is another.
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
