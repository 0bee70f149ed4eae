//! A running validator, with its data for operators.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use assay_api::ReloadResult;
use assay_transport::target::Target;
use tokio::sync::{mpsc, oneshot};

use crate::validator::Validator;

/// A request to read the configuration again: the answer is what has changed, or why nothing has.
pub type ReloadRequest = oneshot::Sender<Result<ReloadResult, String>>;

/// A running validator, with its data for operators.
pub struct RunningValidator {
    /// State shared by the sessions.
    pub validator: Arc<Validator>,
    /// Takes requests to read the configuration again.
    pub reloads: mpsc::Sender<ReloadRequest>,
    /// Address for miners.
    pub address: SocketAddr,
    /// Where the HTTP API is served, beside the control socket.
    pub http: Option<SocketAddr>,
    /// The control socket.
    pub control_socket: PathBuf,
    /// What a miner needs to dial.
    pub target: Target,
    /// The most connected miners.
    pub max_miners: u32,
    /// Time of the start.
    pub since: Instant,
    /// Time of the start: seconds since 1970.
    pub started_unix_seconds: u64,
}
