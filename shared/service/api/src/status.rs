//! The state of a validator.

use crate::record::{MinerCount, ModelCount};
use assay_work::PublicKey;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ChallengeProgress;

/// State of a validator, and its counters since its start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Status)]
pub struct ServerStatus {
    /// Its key.
    pub validator_key: PublicKey,
    /// The program and its version.
    pub agent: String,
    /// Its process id.
    pub process_id: u32,
    /// Address for miners.
    pub address: String,
    /// Dial target of a miner: `assay://HOST:PORT#KEY`.
    pub target: String,
    /// Address of the HTTP API and the page; null: on the control socket alone.
    #[serde(default)]
    pub http_address: Option<String>,
    /// The control socket; its name alone for callers below admin.
    #[serde(default)]
    pub control_socket: String,
    /// Begin of an authority's certificate; null without one.
    pub tls_certificate_begins_unix_seconds: Option<u64>,
    /// End of an authority's certificate; null without one.
    pub tls_certificate_expires_unix_seconds: Option<u64>,
    /// Time of its start.
    pub started_unix_seconds: u64,
    /// Seconds since its start.
    pub uptime_seconds: u64,
    /// `serving`; `not_serving`: verdicts cannot be written, so that no challenge begins; or `draining`: it was asked
    /// to stop, running challenges are finished, and no other begins.
    pub state: String,
    /// Number of connected miners.
    pub miners: u32,
    /// The most connected miners.
    pub max_miners: u32,
    /// Number of its own devices for replays.
    pub devices: u32,
    /// Machines that replay for it, in order of their names.
    pub replay_workers: Vec<ReplayWorkerStatus>,
    /// Verdicts since the start.
    pub verdicts: VerdictCounts,
    /// Location of the records: a file, or a database without its password; only its name for callers below admin.
    pub records: String,
    /// The reason why records cannot be written now, or are unreliable.
    pub records_problem: Option<String>,
    /// The reason why verdicts are not appended to the log now.
    #[serde(default)]
    pub log_problem: Option<String>,
    /// Number of challenges since the start whose evidence could not be written: their verdicts stand without it.
    #[serde(default)]
    pub evidence_lost: u64,
    /// The running challenges.
    pub challenges: Vec<ChallengeProgress>,
}

/// Counts of the fleet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Counts)]
pub struct FleetCounts {
    /// Miners by status, attestation state and last outcome.
    pub miners: Vec<MinerCount>,
    /// The devices that miners list now, by model, the most frequent first.
    pub models: Vec<ModelCount>,
}

/// A machine that replays for validators.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = ReplayWorker)]
pub struct ReplayWorkerStatus {
    /// Its name.
    pub name: String,
    /// Address of the machine.
    pub machine: String,
    /// Number of its devices.
    pub devices: u32,
    /// Multiply-accumulates per second of all its devices together.
    pub macs_per_s: f64,
}

/// Verdicts by their outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VerdictCounts {
    /// Passes.
    pub pass: u64,
    /// Fails.
    pub fail: u64,
    /// Inconclusive ones.
    pub inconclusive: u64,
}
