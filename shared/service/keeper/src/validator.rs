//! State shared by all sessions of a validator.

use std::sync::Arc;

use assay_evidence::EvidenceStore;
use assay_observe::Traces;
use assay_policy::Policy;
use assay_program::clock;
use assay_program::render::units::counted;
use assay_program::shutdown::Shutdown;
use assay_protocol::verdict::{Outcome, Verdict};
use assay_records::Records;
use assay_transport::server::ServerTls;
use tokio::sync::{Semaphore, watch};

use crate::allow::AllowList;
use crate::drain::Drain;
use crate::events::{self, EventSession};
use crate::fleet::Fleet;
use crate::metrics::ValidatorMetrics;
use crate::registry::Registry;
use crate::sharing::leases::MinerLeases;
use crate::verdict_log::VerdictLog;
use crate::waiting::WaitingKeys;
use assay_judge::session::{Admission, StartError};
use assay_listen::gate::Gate;
use assay_listen::lag::Lag;
use assay_replay::pool::ReplayPool;
use assay_webhook::Webhooks;

/// State shared by all sessions.
pub struct Validator {
    pub access: MinerAccess,
    /// Default policy of a challenge, which a reload replaces.
    pub policies: watch::Sender<Arc<Policy>>,
    pub listening: Listening,
    /// Connected miners.
    pub registry: Registry,
    /// The records; other validators may share them.
    pub records: Records,
    /// The fleet: its rules, states, speeds and receipts.
    pub fleet: Fleet,
    /// Id of this run of the process in the records.
    pub instance: String,
    /// Leases of the miners that several validators share.
    pub leases: MinerLeases,
    pub capacity: Capacity,
    /// Store of evidence.
    pub evidence: EvidenceStore,
    pub reports: Reports,
    /// Signal to end.
    pub shutdown: Shutdown,
    /// Sessions under way at the end.
    pub drain: Arc<Drain>,
}

/// Admission of miners.
pub struct MinerAccess {
    /// Our key, and the lists as sessions ask them.
    pub admission: Arc<Admission>,
    /// Lists of admitted miners.
    pub allowed: AllowList,
    /// Keys that wait for an operator.
    pub waiting: WaitingKeys,
    /// Held while operators' decisions are loaded from the records.
    pub following: tokio::sync::Mutex<()>,
}

/// Connections of miners.
pub struct Listening {
    /// Certificates for miners that use TLS; a reload replaces them.
    pub tls: ServerTls,
    /// Admission and rates of connections.
    pub gate: Arc<Gate>,
    /// Delays of this process.
    pub lag: Arc<Lag>,
}

/// Bounds of concurrent work.
pub struct Capacity {
    /// Places for replays: our own devices, and workers that share our records.
    pub replays: ReplayPool,
    /// One permit for each concurrent challenge, in order of request.
    pub challenges: Arc<Semaphore>,
    /// One permit for each concurrent round of an operator.
    pub rounds: Arc<Semaphore>,
    /// One permit for each round of a disputed device.
    pub disputes: Semaphore,
    /// One permit for each concurrent check: one per core.
    pub checks: Semaphore,
}

/// Reports of verdicts and load to others.
pub struct Reports {
    pub metrics: ValidatorMetrics,
    /// Export of spans.
    pub traces: Traces,
    pub webhooks: Webhooks,
    /// The log of verdicts.
    pub log: Arc<VerdictLog>,
}

impl Validator {
    /// The default policy of a challenge that begins now.
    pub fn policy(&self) -> Arc<Policy> {
        self.policies.borrow().clone()
    }

    /// State of the validator in one line.
    pub fn in_a_line(&self) -> String {
        let miners = self.registry.miners();
        let challenged = miners.iter().filter(|miner| miner.challenged).count();
        let count = |outcome| self.reports.metrics.families.verdicts(outcome);
        let [pass, fail, inconclusive] = [Outcome::Pass, Outcome::Fail, Outcome::Inconclusive].map(count);
        let verdicts = format!("{pass} pass, {fail} fail, {inconclusive} inconclusive");
        format!("{}, {challenged} challenged; verdicts: {verdicts}", counted(miners.len() as u64, "miner"))
    }

    /// Checks that verdicts reach the disk.
    ///
    /// # Errors
    /// [`StartError::Records`]: no challenge may start.
    pub fn check_recording(&self) -> Result<(), StartError> {
        self.records.trouble().map_or(Ok(()), |why| Err(StartError::Records(why)))
    }

    /// Logs and counts a verdict of this validator on a challenge of a lost one. It is in the records.
    pub fn concluded_lost(&self, verdict: &Verdict) {
        let (miner, since) = (verdict.miner_key, clock::now());
        let who = EventSession { session: 0, miner, address: None, agent: String::new(), since };
        events::verdict(&who, verdict, None);
        self.reports.metrics.families.verdict(verdict, None);
    }
}
