//! The events of a miner, from all tables, and the objects of an id.

use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use super::flat::Document;
use super::{DeviceEvent, NotedFinding, NotedTransition, OperatorAction, SessionRecord, VerdictRecord};

/// An event of a miner.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = Event)]
#[serde(rename_all = "snake_case", tag = "event")]
pub enum MinerEvent {
    /// A connection, with its end if it has ended.
    Session(SessionRecord),
    /// A verdict.
    Verdict(VerdictRecord),
    /// A change of its attestation state.
    Transition(NotedTransition),
    /// A finding.
    Finding(NotedFinding),
    /// A change of its devices.
    Device(DeviceEvent),
    /// An operator's action.
    Action(OperatorAction),
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum MinerEventKind {
    Session,
    Verdict,
    Transition,
    Finding,
    Device,
    Action,
}

#[derive(Deserialize)]
struct EventTag {
    event: MinerEventKind,
}

impl<'de> Deserialize<'de> for MinerEvent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let document = Document::deserialize(deserializer)?;
        Ok(match document.part::<EventTag, D::Error>()?.event {
            MinerEventKind::Session => Self::Session(document.part()?),
            MinerEventKind::Verdict => Self::Verdict(document.part()?),
            MinerEventKind::Transition => Self::Transition(document.part()?),
            MinerEventKind::Finding => Self::Finding(document.part()?),
            MinerEventKind::Device => Self::Device(document.part()?),
            MinerEventKind::Action => Self::Action(document.part()?),
        })
    }
}

impl MinerEvent {
    /// The time of the event.
    pub fn at_ms(&self) -> i64 {
        match self {
            Self::Session(session) => session.connected_ms,
            Self::Verdict(verdict) => verdict.at_ms,
            Self::Transition(noted) => noted.transition.at_ms,
            Self::Finding(noted) => noted.at_ms,
            Self::Device(event) => event.at_ms,
            Self::Action(action) => action.at_ms,
        }
    }
}

/// An object that an id stands for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ResolvedId {
    /// The kind of the object.
    pub kind: ObjectKind,
    /// Its whole id.
    pub id: String,
}

assay_work::names! {
    /// The kinds of objects with an id.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum ObjectKind {
        /// A challenge.
        Challenge = "challenge",
        /// A miner.
        Miner = "miner",
        /// A device.
        Device = "device",
        /// A receipt.
        Receipt = "receipt",
        /// A round.
        Round = "round",
    }
}
