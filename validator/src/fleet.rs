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

use std::sync::Arc;

use assay_fleet::Standing;
use assay_records::{MinerRecord, Records};
use assay_receipts::Signer;
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
