//! The order of a challenge: its settings, its origin, and the binding of its verdict.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use assay_policy::{Group, Kind, Policy};
use assay_receipts::EatNonce;

/// Kind of a challenge that an operator requested.
pub const MANUAL: &str = "manual";

assay_work::names! {
    /// Origin of a challenge, by its name in logs and records.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum OrderOrigin {
        /// The policy: on connect, or after its interval.
        Schedule = "schedule",
        Operator = "operator",
    }
}

/// The order of a challenge for a miner.
#[derive(Debug, Clone)]
pub struct Order {
    /// Sizes, deadlines and bounds.
    pub policy: Arc<Policy>,
    pub asked: OrderOrigin,
    /// Name of the kind of challenge: from the fleet's policy, or [`MANUAL`].
    pub kind: String,
    /// Group of the fleet's policy; empty for an operator's request.
    pub group: String,
    /// Whether its verdict counts in the attestation, as a forged one always does: its sizes are those of the policy.
    pub counts: bool,
    /// Nonce for the receipt (EAT), from its requester.
    pub eat_nonce: Option<EatNonce>,
    /// Its part in a round.
    pub round: Option<RoundPart>,
    /// Time in milliseconds since 1970 of the next challenge, which one on connecting does not put off.
    pub kept_due_ms: Option<i64>,
}

/// A challenge's part in a round.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoundPart {
    /// Id of the round.
    pub id: String,
    /// The longest wait of the probe for the other members' commitments.
    pub hold: Duration,
    /// Its members by their commitments, once the probes went out. All parts of the round share it.
    pub probed: Arc<OnceLock<ProbedMembers>>,
}

/// Members of a round when the probes went out, by the ids of the miners.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProbedMembers {
    pub committed: BTreeSet<String>,
    /// Those that did not commit, or did not take their challenge.
    pub uncommitted: BTreeSet<String>,
}

impl ProbedMembers {
    /// The members, where this one was probed with them.
    pub fn with(&self, id: &str) -> Option<&Self> {
        self.committed.contains(id).then_some(self)
    }
}

impl Order {
    /// The order of an operator's request.
    pub fn manual(policy: Arc<Policy>) -> Self {
        Self {
            policy,
            asked: OrderOrigin::Operator,
            kind: MANUAL.to_owned(),
            group: String::new(),
            counts: true,
            eat_nonce: None,
            round: None,
            kept_due_ms: None,
        }
    }

    /// The order of a challenge by the fleet's policy.
    pub fn of(asked: OrderOrigin, group: &Group, kind: &Kind, policy: &Policy) -> Self {
        let manual = Self::manual(Arc::new(group.over(policy, kind)));
        Self { asked, kind: kind.name.clone(), group: group.name.clone(), ..manual }
    }

    /// The longest wait of the probe.
    pub fn hold(&self) -> Option<Duration> {
        self.round.as_ref().map(|round| round.hold)
    }
}
