//! What a validator does.

use assay_records::{MinerCount, ModelCount};
use assay_work::PublicKey;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Running;

/// What a validator does, and what it has done since its start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Status {
    /// Its key.
    pub validator_key: PublicKey,
    /// The program and its version.
    pub agent: String,
    /// The number of its process.
    pub process_id: u32,
    /// Where miners connect to.
    pub address: String,
    /// What a miner needs to dial: `assay://HOST:PORT#KEY`.
    pub target: String,
    /// When the certificate of an authority ends; null where none is set.
    pub tls_certificate_expires_unix_seconds: Option<u64>,
    /// When it started.
    pub started_unix_seconds: u64,
    /// For how long it has run.
    pub uptime_seconds: u64,
    /// `serving`, or `draining`: it was asked to stop, challenges that run are brought to their end, and none begins.
    pub state: String,
    /// Miners that are connected.
    pub miners: u32,
    /// The most of them.
    pub max_miners: u32,
    /// Its own devices, for replays.
    pub devices: u32,
    /// Machines that replay for it, in order of their names.
    pub replay_workers: Vec<ReplayWorker>,
    /// Verdicts since the start.
    pub verdicts: VerdictCounts,
    /// The file that verdicts are added to.
    pub verdict_log: Option<String>,
    /// Why verdicts cannot be written there now.
    pub verdict_log_problem: Option<String>,
    /// Where all records are kept: a file, or a database without its password.
    pub records: String,
    /// Why nothing can be written there now.
    pub records_problem: Option<String>,
    /// Challenges that run.
    pub challenges: Vec<Running>,
}

/// The fleet in numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Counts {
    /// Miners by status, attestation state and last outcome.
    pub miners: Vec<MinerCount>,
    /// The devices that miners list now, by model, the most frequent first.
    pub models: Vec<ModelCount>,
}

/// A machine that replays for validators.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ReplayWorker {
    /// Its name.
    pub name: String,
    /// The machine.
    pub machine: String,
    /// Its devices.
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
