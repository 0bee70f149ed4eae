//! What all sessions of a validator share.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use assay_evidence::EvidenceStore;
use assay_observe::Traces;
use assay_program::shutdown::Shutdown;
use assay_protocol::verdict::{NamedDevice, Outcome, Verdict};
use assay_records::Records;
use assay_transport::server::ServerTls;
use assay_work::PublicKey;
use tokio::sync::{Semaphore, watch};

use crate::clock::unix_seconds;
use crate::drain::Drain;
use crate::events::{self, Who};
use crate::fleet::Fleet;
use crate::gate::Gate;
use crate::history::History;
use crate::history::devices::note;
use crate::lag::Lag;
use crate::metrics::Metrics;
use crate::policy::Policy;
use crate::registry::{Miner, Registry};
use crate::session::{Admission, StartError};
use crate::sharing::leases::MinerLeases;
use crate::verdict_log::{OpenError, VerdictLog};
use crate::verify::replay::pool::ReplayPool;
use crate::waiting::WaitingKeys;
use crate::webhook::Webhooks;

/// How long an operator waits for the verdict log to take a line.
const NOTE_LIMIT: Duration = Duration::from_secs(2);

/// What all sessions share.
pub struct Validator {
    /// Our key, and which miners are admitted.
    pub admission: Arc<Admission>,
    /// The default policy of a challenge, which a reload replaces.
    pub policies: watch::Sender<Arc<Policy>>,
    /// What we present to miners that speak TLS; a reload replaces it.
    pub tls: ServerTls,
    /// Who is let in, and how often.
    pub gate: Arc<Gate>,
    /// Who is connected.
    pub registry: Registry,
    /// Where everything is kept; other validators may share it.
    pub records: Records,
    /// The fleet: its rules, states, speeds and receipts.
    pub fleet: Fleet,
    /// This run of the process, in the records.
    pub instance: String,
    /// Which miners this validator schedules, of those that several have.
    pub leases: MinerLeases,
    /// What replays: our own devices, and workers that share our records.
    pub replays: ReplayPool,
    /// One permit for each challenge that may run at once; who waits gets one in turn.
    pub challenges: Arc<Semaphore>,
    /// One permit for each round of an operator that may run at once.
    pub rounds: Arc<Semaphore>,
    /// How long we were held up ourselves.
    pub lag: Arc<Lag>,
    /// One permit for each check that may run at once: as many as there are cores.
    pub checks: Semaphore,
    /// Keys that wait for an operator.
    pub waiting: WaitingKeys,
    /// Held while what operators decided is taken over from the records.
    pub following: tokio::sync::Mutex<()>,
    /// Where verdicts are kept.
    pub verdicts: VerdictLog,
    /// Where the evidence of challenges is kept.
    pub evidence: EvidenceStore,
    /// The share of passes whose evidence is kept.
    pub evidence_passes_percent: u32,
    /// What is counted, for Prometheus.
    pub metrics: Metrics,
    /// Where spans of challenges go.
    pub traces: Traces,
    /// How challenges ended since the start.
    pub verdict_counts: VerdictCounts,
    /// Who is sent events.
    pub webhooks: Webhooks,
    /// When to end.
    pub shutdown: Shutdown,
    /// What is still under way when it is time to end.
    pub drain: Arc<Drain>,
    /// The number of the next session.
    pub next_session: AtomicU64,
}

impl Validator {
    /// A number for a new session.
    pub fn session_number(&self) -> u64 {
        self.next_session.fetch_add(1, Ordering::Relaxed)
    }

    /// The default policy of a challenge that begins now.
    #[must_use]
    pub fn policy(&self) -> Arc<Policy> {
        self.policies.borrow().clone()
    }

    /// What the validator does, in a line.
    #[must_use]
    pub fn in_a_line(&self) -> String {
        let miners = self.registry.miners();
        let challenged = miners.iter().filter(|miner| miner.challenged).count();
        let VerdictCounts { passed, failed, inconclusive } = &self.verdict_counts;
        let [pass, fail, inconclusive] = [passed, failed, inconclusive].map(|count| count.load(Ordering::Relaxed));
        let verdicts = format!("{pass} pass, {fail} fail, {inconclusive} inconclusive");
        format!("{} miners, {challenged} challenged; verdicts: {verdicts}", miners.len())
    }

    /// Whether verdicts reach the disk: the records, and the verdict log where there is one.
    ///
    /// # Errors
    /// [`StartError::Records`] and [`StartError::NotRecording`]: no challenge may start.
    pub fn check_recording(&self) -> Result<(), StartError> {
        self.records.trouble().map_or(Ok(()), |why| Err(StartError::Records(why)))?;
        Ok(self.verdicts.check()?)
    }

    /// Hears of other policies from now on.
    #[must_use]
    pub fn policy_changes(&self) -> watch::Receiver<Arc<Policy>> {
        self.policies.subscribe()
    }

    /// Tells of a verdict that this validator gave on a challenge of a lost one. It is in the records.
    pub fn concluded_lost(&self, verdict: Verdict) {
        let (miner, since) = (verdict.miner_key, Instant::now());
        let who = Who { session: 0, miner, address: None, agent: String::new(), since };
        events::verdict(&who, &verdict, None);
        self.verdict_counts.add(verdict.outcome);
        self.metrics.challenges.verdict(&verdict, None);
        let log = self.verdicts.clone();
        tokio::spawn(async move { log.append(line(&verdict)).await });
    }

    /// Forgets the devices that a key showed, here and in the verdict log; gives how many there were.
    pub async fn forget_devices(&self, key: PublicKey) -> usize {
        let History { devices, .. } = &*self.admission.history;
        let count = devices.forget(key);
        // What they showed sizes the next challenge no more.
        self.admission.history.forget(key);
        // At the next start the log would know them again. A disk that does not take the line now takes it later.
        let noted = self.verdicts.append(note(key, &BTreeMap::new(), unix_seconds()));
        let is_noted = tokio::time::timeout(NOTE_LIMIT, noted).await.is_ok();
        tracing::info!(miner = %key, devices = count, is_noted, "an operator made the validator forget a miner's devices");
        count
    }

    /// The devices that a connected miner showed before and does not list now.
    #[must_use]
    pub fn missing_devices(&self, miner: &Miner) -> Vec<NamedDevice> {
        self.admission.history.devices.missing(miner.key, &miner.inventory)
    }

    /// Opens the verdict log anew, after it was renamed. A new file begins with the devices that are known.
    ///
    /// # Errors
    /// The file cannot be opened: the one that is open stays in use.
    pub async fn reopen_verdict_log(&self) -> Result<(), OpenError> {
        self.verdicts.reopen(self.admission.history.devices.notes(unix_seconds())).await
    }
}

/// A verdict as a line of the verdict log.
#[must_use]
pub fn line(verdict: &Verdict) -> Vec<u8> {
    // Texts and numbers always become JSON.
    let mut line = serde_json::to_vec(verdict).unwrap_or_default();
    line.push(b'\n');
    line
}

/// Verdicts by their outcome.
#[derive(Debug, Default)]
pub struct VerdictCounts {
    /// Passes.
    pub passed: AtomicU64,
    /// Fails.
    pub failed: AtomicU64,
    /// Inconclusive ones.
    pub inconclusive: AtomicU64,
}

impl VerdictCounts {
    /// Counts a verdict.
    pub fn add(&self, outcome: Outcome) {
        let count = match outcome {
            Outcome::Pass => &self.passed,
            Outcome::Fail => &self.failed,
            Outcome::Inconclusive => &self.inconclusive,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }
}
