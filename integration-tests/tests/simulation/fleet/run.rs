//! A run of a seed: the plan's faults at their times, then the wait until everything is settled, then the checks.

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use assay_keeper::freed_memory::return_freed_soon;
use assay_keeper::sharing::leases::MINER_LEASE;
use assay_program::clock::{self, testing};
use assay_records::{Actor, Location, Records};
use tempfile::TempDir;
use tokio::runtime::Builder;
use tokio::task::AbortHandle;

use super::calls::{CallFate, CallSchedule};
use super::checks;
use super::miner::MinerHost;
use super::plan::{Conduct, Fault, HEALED, MINERS, Plan, SETTLE_LIMIT, VALIDATORS};
use super::planted::Planted;
use super::validator::ValidatorHost;
use super::world::World;

/// The time of day at the start of a simulation.
const START: Duration = Duration::from_secs(1_800_000_000);
/// When a lost validator's challenges are concluded, after the last fault: it may take four seconds to come back.
const ORPHAN_LIMIT: Duration = Duration::from_secs(20);
/// How often the end is looked for.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// Records without entries, of which each simulation has a copy.
static EMPTY: LazyLock<(TempDir, PathBuf)> = LazyLock::new(|| {
    let folder = memory_folder();
    let file = folder.path().join("records.db");
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        // It is done once in a process, and would be in the first simulation alone: here it ends with the runtime.
        return_freed_soon();
        let records = Records::open(&Location::File(file.clone())).await.expect("a file in memory opens");
        records.close().await;
    });
    (folder, file)
});

/// The outcome of a seed.
pub struct Report {
    pub world: Arc<World>,
}

/// A simulation under way.
struct Run {
    world: Arc<World>,
    schedule: CallSchedule,
    folder: TempDir,
    validators: Vec<Arc<ValidatorHost>>,
    miners: Vec<Arc<MinerHost>>,
    /// The sessions of each miner.
    sessions: Vec<Vec<AbortHandle>>,
    time: testing::SimulatedTime,
}

/// A folder in memory: no disk delays a simulation.
fn memory_folder() -> TempDir {
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    folder.expect("a temporary folder")
}

/// The records, of a reader that no fault concerns.
async fn open(folder: &Path, schedule: &CallSchedule) -> Records {
    let opened = Records::open_simulated(&ValidatorHost::records_file(folder), schedule.store()).await;
    opened.expect("a file in memory opens")
}

/// Holds the leases of a lost validator for ever.
async fn hold(records: Records, miners: Vec<String>, instance: String) {
    loop {
        for key in &miners {
            let _ = records.lease(&format!("miner:{key}"), &instance, MINER_LEASE).await;
        }
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
}

/// Runs the simulation of a plan.
pub fn run(plan: Plan) -> Report {
    // Made by a runtime of its own.
    LazyLock::force(&EMPTY);
    let schedule = CallSchedule::default();
    let runtime = schedule.runtime();
    let world = runtime.block_on(async {
        let mut run = Run::new(plan, schedule);
        run.all().await;
        run.world.clone()
    });
    runtime.shutdown_background();
    testing::simulate(None);
    Report { world }
}

impl Run {
    fn new(plan: Plan, schedule: CallSchedule) -> Self {
        let time = testing::SimulatedTime { began: clock::now(), database: START, daemons: START };
        testing::simulate(Some(time));
        let folder = memory_folder();
        std::fs::copy(&EMPTY.1, folder.path().join("records.db")).expect("a copy in memory");
        let world = Arc::new(World::new(plan));
        let validators = (0..VALIDATORS).map(|v| ValidatorHost::new(&world, &schedule, v, folder.path())).collect();
        let miners = (0..MINERS).map(|m| MinerHost::new(&world, m, VALIDATORS, false)).collect();
        let sessions = (0..MINERS).map(|_| Vec::new()).collect();
        Self { world, schedule, folder, validators, miners, sessions, time }
    }

    async fn all(&mut self) {
        for validator in self.validators.clone() {
            validator.start().await;
        }
        (0..MINERS).for_each(|miner| self.connect(miner));
        for (at, fault) in self.world.plan.faults.clone() {
            tokio::time::sleep(at.saturating_sub(self.world.passed())).await;
            self.world.say(fault);
            self.world.reach(format!("fault: {}", fault.name()));
            self.happen(fault).await;
        }
        tokio::time::sleep(HEALED.saturating_sub(self.world.passed())).await;
        self.heal();
        self.settle().await;
        if self.world.ledger().offers.iter().any(|offer| offer.is_orphan) {
            // A heartbeat ends, and another validator looks.
            tokio::time::sleep((HEALED + ORPHAN_LIMIT).saturating_sub(self.world.passed())).await;
        }
        checks::check(&self.world, &self.records().await, &self.miners).await;
    }

    /// Starts a miner's sessions.
    fn connect(&mut self, miner: usize) {
        let host = &self.miners[miner];
        let keep = |validator: &Arc<ValidatorHost>| tokio::spawn(host.clone().keep(validator.clone())).abort_handle();
        self.sessions[miner] = self.validators.iter().map(keep).collect();
    }

    async fn happen(&mut self, fault: Fault) {
        match fault {
            Fault::CrashValidator { validator, away } => self.crash(validator, away),
            Fault::CrashValidatorAfter { validator, points, away } => {
                let host = self.validators[validator].clone();
                let Some(calls) = host.calls() else { return };
                calls.lose_after(points);
                tokio::spawn(async move {
                    let _ = calls.lost().wait_for(|lost| *lost).await;
                    if host.crash().is_none() {
                        // Another fault came first.
                        return;
                    }
                    tokio::time::sleep(away).await;
                    host.start().await;
                });
            }
            Fault::CrashMiner { miner, away } => self.crash_miner(miner, away).await,
            Fault::Cut { validator, miner } => self.world.cut((validator, miner)),
            Fault::Block { validator, miner, time } => self.world.block((validator, miner), time),
            Fault::Duplicate { validator, miner } => {
                let (host, validator) = (self.miners[miner].clone(), self.validators[validator].clone());
                let twin = tokio::spawn(async move { drop(host.session(&validator).await) });
                self.sessions[miner].push(twin.abort_handle());
            }
            Fault::Clock { seconds } => {
                let jumped = self.time.daemons.as_secs().saturating_add_signed(seconds);
                self.time.daemons = Duration::from_secs(jumped);
                testing::simulate(Some(self.time));
            }
            Fault::Tenant { miner, time } => {
                let host = self.miners[miner].clone();
                host.is_shared.send_replace(true);
                tokio::spawn(async move {
                    tokio::time::sleep(time).await;
                    host.is_shared.send_replace(false);
                });
            }
            Fault::SlowDisk { validator, most_ms, time } => self.slow_disk(validator, most_ms, time),
            Fault::Outage { validator, percent, time } => self.outage(validator, percent, time),
        }
    }

    fn crash(&self, validator: usize, away: Duration) {
        let host = self.validators[validator].clone();
        let Some(instance) = host.crash() else { return };
        let is_endless = self.world.is_planted(Planted::EndlessLease);
        let (schedule, folder) = (self.schedule.clone(), self.folder.path().to_owned());
        let keys: Vec<_> = self.miners.iter().map(|miner| miner.key()).collect();
        tokio::spawn(async move {
            if is_endless {
                tokio::spawn(hold(open(&folder, &schedule).await, keys, instance));
            }
            tokio::time::sleep(away).await;
            host.start().await;
        });
    }

    /// A crashed miner is back when this returns: it has forgotten all but its key.
    async fn crash_miner(&mut self, miner: usize, away: Duration) {
        self.sessions[miner].drain(..).for_each(|session| session.abort());
        tokio::time::sleep(away).await;
        let has_less = self.world.plan.conduct[miner] == Conduct::LosesDevice;
        if has_less {
            self.world.ledger().lost_device.get_or_insert_with(clock::now);
            if self.world.is_planted(Planted::ForgottenDevice) {
                let actor = Actor { name: "simulation".to_owned(), uid: None };
                let _ = self.records().await.forget_devices(&self.miners[miner].key(), &actor).await;
            }
        }
        self.miners[miner] = MinerHost::new(&self.world, miner, VALIDATORS, has_less);
        self.connect(miner);
    }

    fn slow_disk(&self, validator: usize, most_ms: u64, time: Duration) {
        let Some(calls) = self.validators[validator].calls() else { return };
        let world = self.world.clone();
        calls.delay(Some(Box::new(move || world.draw_ms(most_ms))));
        tokio::spawn(async move {
            tokio::time::sleep(time).await;
            calls.delay(None);
        });
    }

    /// Each failed call was refused, or done without an answer.
    fn outage(&self, validator: usize, percent: u64, time: Duration) {
        let Some(calls) = self.validators[validator].calls() else { return };
        let world = self.world.clone();
        let draw = move || match world.draw(100) < percent {
            true if world.draw(2) == 0 => CallFate::Unanswered,
            true => CallFate::Refused,
            false => CallFate::Answered,
        };
        calls.fail(Some(Box::new(draw)));
        tokio::spawn(async move {
            tokio::time::sleep(time).await;
            calls.fail(None);
        });
    }

    /// Ends all faults. A crash that waits for its moment does not come any more.
    fn heal(&self) {
        self.world.say("healed");
        self.world.heal();
        for validator in &self.validators {
            if let Some(calls) = validator.calls() {
                calls.delay(None);
                calls.fail(None);
                calls.lose_after(u64::MAX);
            }
        }
    }

    async fn records(&self) -> Records {
        open(self.folder.path(), &self.schedule).await
    }

    async fn settle(&self) {
        let healed = clock::now();
        while clock::since(healed) < SETTLE_LIMIT {
            tokio::time::sleep(LOOK_INTERVAL).await;
            if self.unsettled(healed).is_empty() {
                return self.world.say("settled");
            }
        }
        for what in self.unsettled(healed) {
            self.world.broken(format!("unsettled: {what}"));
        }
    }

    /// What is not as it should be a while after the faults.
    fn unsettled(&self, healed: std::time::Instant) -> Vec<String> {
        let ledger = self.world.ledger();
        let mut found = Vec::new();
        for (number, miner) in self.miners.iter().enumerate() {
            let away = |validator: &&Arc<ValidatorHost>| !validator.has_miner(&miner.key());
            found.extend(self.validators.iter().filter(away).map(|v| format!("m{number} is not at v{}", v.number)));
            let passed =
                |offer: &super::world::SentOffer| offer.pair.1 == number && offer.at >= healed && offer.has_passed;
            if self.world.plan.conduct[number] == Conduct::Honest && !ledger.offers.iter().any(passed) {
                found.push(format!("m{number} has not passed since"));
            }
        }
        found
    }
}
