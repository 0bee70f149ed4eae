//! One challenge as it was ordered: what is asked, by whom, and what its verdict is bound to.

use std::sync::Arc;
use std::time::Duration;

use crate::policy::Policy;

/// The kind of a challenge that an operator asked for.
pub const MANUAL: &str = "manual";

/// Who wanted a challenge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// The policy: on connect, or after its interval.
    Schedule,
    /// An operator.
    Operator,
}

impl Asked {
    /// The name in logs and records.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Schedule => "schedule",
            Self::Operator => "operator",
        }
    }
}

/// What is to be asked of a miner.
#[derive(Debug, Clone)]
pub struct Order {
    /// The sizes, deadlines and bounds.
    pub policy: Arc<Policy>,
    /// Who asked for it.
    pub asked: Asked,
    /// The name of the kind of challenge: of the fleet's policy, or [`MANUAL`].
    pub kind: String,
    /// The group of the fleet's policy that it was made for; empty where an operator asked.
    pub group: String,
    /// The nonce of whoever wants a receipt of their own, as EAT has it.
    pub eat_nonce: Option<String>,
    /// The round that it is a part of.
    pub round: Option<RoundPart>,
}

/// A challenge's part in a round.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoundPart {
    /// The round.
    pub id: String,
    /// How long the probe waits for the other members' commitments.
    pub hold: Duration,
}

impl Order {
    /// What an operator asked for.
    #[must_use]
    pub fn manual(policy: Arc<Policy>) -> Self {
        Self {
            policy,
            asked: Asked::Operator,
            kind: MANUAL.to_owned(),
            group: String::new(),
            eat_nonce: None,
            round: None,
        }
    }

    /// How long the probe waits.
    #[must_use]
    pub fn hold(&self) -> Option<Duration> {
        self.round.as_ref().map(|round| round.hold)
    }
}
