//! A validator that serves, with what its operator wants to know of it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use assay_transport::target::Target;

use crate::reload::Reloader;
use crate::validator::Validator;

/// A validator that serves, with what its operator wants to know of it.
pub struct Running {
    /// What the sessions share.
    pub validator: Arc<Validator>,
    /// Reads the configuration again.
    pub reloader: Arc<Reloader>,
    /// Where miners connect to.
    pub address: SocketAddr,
    /// What a miner needs to dial.
    pub target: Target,
    /// The file that verdicts are added to.
    pub verdict_log: Option<PathBuf>,
    /// The most miners at once.
    pub max_miners: u32,
    /// When it started.
    pub since: Instant,
    /// When it started: seconds since 1970.
    pub started_unix_seconds: u64,
}
