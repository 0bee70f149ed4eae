//! The fleet as this validator keeps it: the rules in force, what the records say of miners, and what follows from a
//! verdict. It knows neither sessions nor sockets.

pub mod conclude;
pub mod facts;
pub mod notice;
pub mod presence;
pub mod rules;
pub mod schedule;
pub mod speeds;
pub mod sweep;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use assay_fleet::{Distribution, Group, Standing};
use assay_receipts::Signer;
use assay_records::{DeviceFilter, DeviceRecord, MinerRecord, Records, RecordsError};
use assay_work::ChallengeId;
use assay_work::Precision;
use tokio::sync::watch;

use self::presence::Presences;
use self::rules::FleetRules;
use self::schedule::GroupPlaces;
use self::speeds::Speeds;

/// The fleet.
pub struct Fleet {
    /// What is remembered for good.
    pub records: Records,
    /// Who is there, from where.
    pub presences: Presences,
    rules: watch::Sender<Arc<FleetRules>>,
    signer: Signer,
    group_places: GroupPlaces,
    speeds: Speeds,
    /// Verdicts on their way to the disk, as JSON.
    pending: Mutex<BTreeMap<ChallengeId, String>>,
}

impl Fleet {
    /// With these records, rules and the key that signs receipts.
    #[must_use]
    pub fn new(records: Records, rules: FleetRules, signer: Signer) -> Self {
        Self {
            records,
            presences: Presences::default(),
            rules: watch::Sender::new(Arc::new(rules)),
            signer,
            group_places: GroupPlaces::default(),
            speeds: Speeds::default(),
            pending: Mutex::default(),
        }
    }

    /// The rules in force.
    #[must_use]
    pub fn rules(&self) -> Arc<FleetRules> {
        self.rules.borrow().clone()
    }

    /// Hears of other rules from now on.
    #[must_use]
    pub fn rules_changes(&self) -> watch::Receiver<Arc<FleetRules>> {
        self.rules.subscribe()
    }

    /// Puts other rules into force; says whether they differ.
    pub fn set_rules(&self, rules: FleetRules) -> bool {
        self.rules.send_if_modified(|current| {
            let differs = **current != rules;
            if differs {
                *current = Arc::new(rules);
            }
            differs
        })
    }

    /// The group of a miner that may not be there: by the models of its devices in the records, where a group asks for
    /// them.
    ///
    /// # Errors
    /// The records cannot be read.
    pub async fn group_of(&self, record: &MinerRecord) -> Result<Group, RecordsError> {
        let rules = self.rules();
        let mut models = Vec::new();
        if rules.policy.groups.iter().any(|group| group.select.model.is_some()) {
            let filter = DeviceFilter { miner: Some(record.id.clone()), ..DeviceFilter::default() };
            let claimed = |device: DeviceRecord| Some(device.model).filter(|it| !it.is_empty()).unwrap_or(device.name);
            models = self.records.devices(&filter).await?.into_iter().map(claimed).collect();
        }
        let names: Vec<&str> = models.iter().map(String::as_str).collect();
        Ok(rules.policy.group_of(&record.labels, &names).clone())
    }

    /// How fast these models are in the fleet in a kind of work at a matrix size, and the others that are known, as a miner of this operator
    /// is judged by them.
    ///
    /// # Errors
    /// The records cannot be read.
    pub async fn distributions(
        &self,
        models: impl IntoIterator<Item = &String>,
        size: (Precision, u32),
        operator: Option<&str>,
    ) -> Result<BTreeMap<String, Distribution>, RecordsError> {
        self.speeds.distributions(&self.records, models, size, operator).await
    }

    /// Logs the verdicts that the records do not have, whole, when the validator ends; says how many they are.
    pub fn finish(&self) -> usize {
        let pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        for verdict in pending.values() {
            tracing::error!(verdict, "a verdict is not in the records, and was given to nobody");
        }
        pending.len()
    }

    /// The key that signs receipts.
    #[must_use]
    pub const fn signer(&self) -> &Signer {
        &self.signer
    }
}

/// What the attestation of a miner rests on, as the records have it.
#[must_use]
pub fn standing_of(record: &MinerRecord) -> Standing {
    let read = record.standing.as_ref().and_then(|standing| serde_json::from_str(standing.get()).ok());
    read.unwrap_or_else(|| Standing::enrolled(u64::try_from(record.first_seen_ms / 1000).unwrap_or(0)))
}
