//! What time alone does to a fleet: attestations that end, quarantines that are over, challenges that were due while
//! their miner was not there, and rounds by schedule.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use assay_fleet::policy::Cadence;
use assay_fleet::schedule::draw_wait;
use assay_fleet::{Event, State};
use assay_records::{Due, MinerFilter, MinerRecord, RecordsError, Status};

use super::Fleet;
use super::schedule::{next_wait, uniform};
use crate::clock::unix_ms;
use crate::entropy::OsEntropy;
use crate::operations::rounds;
use crate::validator::Validator;

/// How often the fleet is looked through.
const SWEEP: Duration = Duration::from_secs(15);
/// How long after a challenge was due its miner counts as not there.
const MISSED_AFTER_MS: i64 = 60_000;
/// The lease under which one of several validators looks the fleet through.
const LEASE: &str = "sweep";

/// Looks the fleet through from time to time, for ever.
pub async fn keep(validator: Arc<Validator>) {
    let mut due = HashMap::new();
    loop {
        tokio::time::sleep(SWEEP).await;
        let fleet = &validator.fleet;
        let held = fleet.records.lease(LEASE, &validator.instance, SWEEP * 3).await;
        if !matches!(held, Ok(true)) {
            continue;
        }
        if let Err(error) = fleet.sweep(&validator).await {
            tracing::debug!(%error, "the fleet is looked through later");
        }
        begin_rounds(&validator, &mut due);
    }
}

impl Fleet {
    /// Looks every miner of the records through once.
    ///
    /// # Errors
    /// The records cannot be read or written.
    pub async fn sweep(&self, validator: &Validator) -> Result<(), RecordsError> {
        let mut after = None;
        loop {
            let filter = MinerFilter { after: after.take(), ..MinerFilter::default() };
            let miners = self.records.miners(&filter).await?;
            let Some(last) = miners.last() else { return Ok(()) };
            after = Some(last.id.clone());
            for miner in &miners {
                self.look(validator, miner).await?;
            }
        }
    }

    async fn look(&self, validator: &Validator, miner: &MinerRecord) -> Result<(), RecordsError> {
        let ages = State::named(&miner.state).is_none_or(|state| state.is_attested() || state == State::Quarantined);
        let was_due = miner.due.as_ref().is_some_and(|due| due.at_ms + MISSED_AFTER_MS < unix_ms());
        let is_awaited = miner.status == Status::Approved && miner.connected_to.is_none() && was_due;
        if is_awaited {
            self.happened_to(miner, &Event::Missed).await?;
            let group = self.group_of(miner).await?;
            let next = next_wait(&group, &validator.policy(), &mut OsEntropy);
            let due = next.map(|wait| Due { at_ms: unix_ms() + wait.as_millis() as i64, kind: String::new() });
            self.records.set_due(&miner.id, due.as_ref()).await
        } else if ages {
            self.happened_to(miner, &Event::Tick).await
        } else {
            Ok(())
        }
    }
}

/// Begins the rounds that are due, and draws when the next ones are.
fn begin_rounds(validator: &Arc<Validator>, due: &mut HashMap<String, Instant>) {
    let rules = validator.fleet.rules();
    due.retain(|name, _| rules.policy.group(name).is_some());
    for group in &rules.policy.groups {
        let Some(mean) = group.rounds.as_ref().and_then(|rounds| rounds.mean) else { continue };
        let wait = || draw_wait(&Cadence::default(), mean, uniform(&mut OsEntropy));
        let now = Instant::now();
        let at = *due.entry(group.name.clone()).or_insert_with(|| now + wait());
        if now < at {
            continue;
        }
        due.insert(group.name.clone(), now + wait());
        let (validator, name) = (validator.clone(), group.name.clone());
        tokio::spawn(async move {
            if let Err(error) = rounds::of_group(&validator, &name).await {
                tracing::warn!(group = name, "no round: {error}");
            }
        });
    }
}
