//! A simulated validator: the real one without its sockets, over records that it shares with the others.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use assay_evidence::{EvidenceLocation, EvidenceStore};
use assay_judge::entropy::{EntropySource, SeededEntropy};
use assay_judge::history::History;
use assay_judge::session::Admission;
use assay_keeper::allow::AllowList;
use assay_keeper::drain::Drain;
use assay_keeper::driver::drive;
use assay_keeper::fleet::Fleet;
use assay_keeper::metrics::ValidatorMetrics;
use assay_keeper::registry::Registry;
use assay_keeper::sharing::leases::MinerLeases;
use assay_keeper::sharing::presence::{ValidatorPresence, wait_until_alone};
use assay_keeper::sweep;
use assay_keeper::validator::{Capacity, Listening, MinerAccess, Reports, Validator};
use assay_keeper::verdict_log::VerdictLog;
use assay_keeper::waiting::WaitingKeys;
use assay_listen::bounds::ConnectionBounds;
use assay_listen::gate::Gate;
use assay_listen::lag::Lag;
use assay_observe::Traces;
use assay_policy::FleetRules;
use assay_policy::challenge::{AbandonedPolicy, LinkedPolicy, OpeningsPolicy, Policy, ProbePolicy};
use assay_program::clock;
use assay_program::shutdown::Shutdown;
use assay_protocol::identity::Identity;
use assay_protocol::verdict::Mode;
use assay_receipts::Signer;
use assay_records::{Location, Records};
use assay_replay::pool::ReplayPool;
use assay_transport::certificate;
use assay_transport::server::ServerTls;
use assay_webhook::Webhooks;
use tokio::sync::{Semaphore, watch};
use tokio::task::AbortHandle;

use super::calls::{CallSchedule, StoreCalls};
use super::link::{Line, connect};
use super::miner::PROBE_BYTES_PER_S;
use super::planted::Planted;
use super::world::{World, lock};

/// Interval of pings: a partition of six seconds breaks no connection.
const PING_INTERVAL: Duration = Duration::from_secs(4);

/// Abandoned challenges of which the last one fails a miner.
pub const ABANDONED_LIMIT: u32 = 3;

/// A validator's host: its key and its files, and the process while it lives.
pub struct ValidatorHost {
    pub number: usize,
    world: Arc<World>,
    schedule: CallSchedule,
    folder: PathBuf,
    identity: Identity,
    /// How often it has started.
    starts: Mutex<u64>,
    process: Mutex<Option<Process>>,
}

/// A run of the validator.
struct Process {
    validator: Arc<Validator>,
    calls: Arc<StoreCalls>,
    tasks: Vec<AbortHandle>,
}

/// Small challenges in quick succession.
fn policy(world: &World) -> Policy {
    let target = Duration::from_millis(10);
    let is_forgetful = world.is_planted(Planted::ForgottenAbandonment);
    let expect_gb_per_s = PROBE_BYTES_PER_S / 1e9;
    // A third of the seeds each: no further probe, one over the memory of all devices, a sweep.
    let linked = (world.plan.seed % 3 == 1).then_some(LinkedPolicy { expect_gb_per_s, min_gb_per_s: 0.0 });
    let probe = ProbePolicy { target, expect_gb_per_s, walks: 64, steps: 4, deadline: Duration::from_secs(30) };
    Policy {
        mode: Some(Mode::Audit),
        n: Some(256),
        max_matrices: 6,
        samples: 8,
        segments: 2,
        commit_deadline: Duration::from_secs(30),
        probe,
        linked,
        sweep: world.plan.seed % 3 == 2,
        openings: OpeningsPolicy { deadline: Duration::from_secs(30), ..Policy::default().openings },
        challenge_interval: Some(Duration::from_secs(4)),
        busy_retry: Some(Duration::from_secs(2)),
        abandoned: AbandonedPolicy {
            limit: if is_forgetful { 1000 } else { ABANDONED_LIMIT },
            ..Policy::default().abandoned
        },
        ..Policy::default()
    }
}

fn rules() -> FleetRules {
    let mut rules = FleetRules::default();
    for group in &mut rules.policy.groups {
        group.cadence.least = Duration::from_secs(1);
        group.cadence.most = Some(Duration::from_secs(8));
    }
    rules
}

impl ValidatorHost {
    pub fn new(world: &Arc<World>, schedule: &CallSchedule, number: usize, folder: &Path) -> Arc<Self> {
        Arc::new(Self {
            number,
            world: world.clone(),
            schedule: schedule.clone(),
            folder: folder.to_owned(),
            identity: Identity::from_seed(&[100 + number as u8; 32]),
            starts: Mutex::new(0),
            process: Mutex::new(None),
        })
    }

    /// The file of the records, which all validators share.
    pub fn records_file(folder: &Path) -> Location {
        Location::File(folder.join("records.db"))
    }

    /// Starts the validator as its program does.
    pub async fn start(self: Arc<Self>) {
        let calls = self.schedule.store();
        let records = Records::open_simulated(&Self::records_file(&self.folder), calls.clone()).await;
        let records = records.expect("a file in memory opens");
        let key = self.identity.public_key();
        if let Err(in_use) = wait_until_alone(&records, key).await.expect("records are read") {
            return self.world.broken(format!("start: v{} {in_use}", self.number));
        }
        let validator = Arc::new(self.validator(records.clone()));
        validator.follow_decisions().await.expect("records are read");
        let address = format!("v{}", self.number);
        let presence = ValidatorPresence::enter(records, key, validator.instance.clone(), address).await;
        let presence = presence.expect("records are written");
        let telling = validator.clone();
        let concludes = !self.world.is_planted(Planted::UnconcludedOrphan);
        let tasks = [
            tokio::spawn(validator.leases.clone().keep()),
            tokio::spawn(sweep::keep(validator.clone())),
            tokio::spawn(async move {
                if concludes {
                    drop(presence.keep(&telling.registry, |verdict| telling.concluded_lost(&verdict)).await);
                }
            }),
        ];
        let tasks = tasks.map(|task| task.abort_handle()).into();
        self.world.say(format!("v{} serves", self.number));
        *lock(&self.process) = Some(Process { validator, calls, tasks });
    }

    /// A draw for each start, the same for all with [`Planted::SameNonces`].
    fn entropy(&self) -> EntropySource {
        let mut starts = lock(&self.starts);
        *starts += 1;
        let start = if self.world.is_planted(Planted::SameNonces) { 0 } else { *starts };
        let seed = self.world.plan.seed.wrapping_mul(1009).wrapping_add(31 * self.number as u64 + 101 * start);
        EntropySource::Seeded(Arc::new(Mutex::new(SeededEntropy::new(seed))))
    }

    fn validator(&self, records: Records) -> Validator {
        let instance = Records::new_instance().expect("random bytes");
        let signer = Signer::open(&self.folder.join(format!("receipts-{}.key", self.number)), "simulation");
        let mut fleet = Fleet::new(records.clone(), rules(), signer.expect("a key file"));
        fleet.entropy = self.entropy();
        let is_alone = self.world.is_planted(Planted::NoLease);
        let shared = || MinerLeases::shared(records.clone(), instance.clone());
        let leases = if is_alone { MinerLeases::alone() } else { shared() };
        let bounds = ConnectionBounds::default();
        let allowed = AllowList::default();
        let admission = Admission {
            identity: self.identity.clone(),
            access: Arc::new(allowed.clone()),
            ping_interval: PING_INTERVAL,
            history: Arc::<History>::default(),
        };
        let own = certificate::own(&self.identity, &[]).expect("a certificate");
        let place = EvidenceLocation::Folder(self.folder.join("evidence"));
        let evidence = EvidenceStore::open(&place, &self.folder.join("outbox")).expect("a folder");
        let (_, shutdown) = Shutdown::by_hand();
        let log = VerdictLog::new(records.clone(), self.folder.join("log"), self.identity.clone(), Vec::new());
        Validator {
            access: MinerAccess {
                admission: Arc::new(admission),
                allowed,
                waiting: WaitingKeys::default(),
                following: tokio::sync::Mutex::new(()),
            },
            policies: watch::Sender::new(Arc::new(policy(&self.world))),
            listening: Listening {
                tls: ServerTls::new(own, None).expect("TLS 1.3"),
                gate: Arc::new(Gate::new(&bounds, clock::now())),
                // No beat is measured: a simulated validator is never held up.
                lag: Arc::new(Lag::new(clock::now() + Duration::from_secs(86_400))),
            },
            registry: Registry::new(bounds),
            leases,
            capacity: Capacity {
                replays: ReplayPool::new(None, None),
                challenges: Arc::new(Semaphore::new(bounds.max_challenges as usize)),
                rounds: Arc::new(Semaphore::new(1)),
                disputes: Semaphore::new(1),
                checks: Semaphore::new(1),
            },
            evidence,
            reports: Reports {
                metrics: ValidatorMetrics::new().expect("metrics"),
                traces: Traces::off(),
                webhooks: Webhooks::new(records.clone(), instance.clone()),
                log: Arc::new(log),
            },
            drain: Drain::new(shutdown.clone()),
            shutdown,
            records,
            fleet,
            instance,
        }
    }

    /// Connects a miner; `None` while the validator does not serve.
    pub fn dial(&self, miner: usize) -> Option<Line> {
        let mut process = lock(&self.process);
        let process = process.as_mut().filter(|process| !*process.calls.lost().borrow())?;
        let (line, far, carriers) = connect(&self.world, (self.number, miner));
        let permit = Arc::new(Semaphore::new(1)).try_acquire_owned().ok()?;
        let places = (permit, process.validator.drain.enter());
        let session = tokio::spawn(drive(process.validator.clone(), None, far.incoming, far.outgoing, places));
        process.tasks.retain(|task| !task.is_finished());
        process.tasks.push(session.abort_handle());
        process.tasks.extend(carriers.start());
        Some(line)
    }

    /// The database's calls of the validator, while it lives.
    pub fn calls(&self) -> Option<Arc<StoreCalls>> {
        lock(&self.process).as_ref().map(|process| process.calls.clone())
    }

    /// Loses the process where it is: no task goes on, no call of the database returns.
    pub fn crash(&self) -> Option<String> {
        let Process { validator, calls, tasks } = lock(&self.process).take()?;
        calls.lose();
        tasks.iter().for_each(AbortHandle::abort);
        self.world.lost(self.number);
        Some(validator.instance.clone())
    }

    /// Whether a miner has a session.
    pub fn has_miner(&self, key: &str) -> bool {
        let process = lock(&self.process);
        let miners = process.as_ref().map(|process| process.validator.registry.miners()).unwrap_or_default();
        miners.iter().any(|miner| miner.who.miner.to_string() == key)
    }
}
