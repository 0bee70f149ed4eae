//! Events, as they are sent to programs that follow them.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{ChallengeStart, FindingRecord, OperatorAction, RoundRecord, Transition};

/// An event, with its place in the order of all events.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EventRecord {
    /// Its number: one more than the previous event's, in the order of writing.
    pub seq: i64,
    /// Its id, unique across stores.
    pub id: String,
    /// Its time, by the clock of the validator that reports it.
    pub at_ms: i64,
    /// The miner's id, if it concerns one.
    pub miner: Option<String>,
    /// The challenge, if it concerns one.
    pub challenge: Option<String>,
    /// The document of the event.
    #[serde(flatten)]
    pub told: EventDocument,
}

macro_rules! told {
    ($($(#[doc = $about:literal])* $variant:ident($document:ty) $name:literal;)+) => {
        assay_work::names! {
            /// The kinds of events.
            #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
            #[serde(rename_all = "snake_case")]
            pub enum EventKind {
                $($(#[doc = $about])* $variant = $name,)+
            } else String = |text| format!("no kind of event {text:?}: there are {}", [$($name),+].join(", "))
        }

        /// What happened, by the kind of the event.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
        #[schema(as = Told)]
        #[serde(rename_all = "snake_case", tag = "kind", content = "document")]
        pub enum EventDocument {
            $($(#[doc = $about])* $variant($document),)+
        }

        impl EventKind {
            /// The meaning of the kind, in a sentence.
            pub const fn about(self) -> &'static str {
                match self { $(Self::$variant => concat!($($about),+),)+ }
            }
        }

        impl EventDocument {
            /// Its kind.
            pub const fn kind(&self) -> EventKind {
                match self { $(Self::$variant(_) => EventKind::$variant,)+ }
            }

            /// The document alone, as JSON.
            ///
            /// # Errors
            /// None: texts and numbers always become JSON.
            pub fn document(&self) -> serde_json::Result<String> {
                match self { $(Self::$variant(document) => serde_json::to_string(document),)+ }
            }

            /// Reads the document of an event of this kind.
            ///
            /// # Errors
            /// The text is no such document.
            pub fn parse(kind: EventKind, document: &str) -> serde_json::Result<Self> {
                Ok(match kind { $(EventKind::$variant => Self::$variant(serde_json::from_str(document)?),)+ })
            }
        }
    };
}

told! {
    /// A challenge began.
    ChallengeStarted(ChallengeStart) "challenge_started";
    /// A verdict is in the records.
    Verdict(VerdictEvent) "verdict";
    /// The attestation state of a miner changed.
    State(Transition) "state";
    /// Something was found about a miner that no single challenge shows.
    Finding(FindingRecord) "finding";
    /// A miner proved its key and was let in.
    MinerConnected(ConnectedEvent) "miner_connected";
    /// The session of a miner ended.
    MinerLeft(DisconnectedEvent) "miner_left";
    /// A synchronised round began.
    RoundBegun(RoundRecord) "round_begun";
    /// The last member of a round was judged.
    RoundEnded(RoundRecord) "round_ended";
    /// An operator did something.
    Action(OperatorAction) "action";
    /// A validator serves, or does not.
    Health(HealthEvent) "health";
}

impl EventRecord {
    /// Its kind.
    pub const fn kind(&self) -> EventKind {
        self.told.kind()
    }
}

/// A verdict in short; the records have it in full by its challenge.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = VerdictTold)]
pub struct VerdictEvent {
    /// Its outcome: `pass`, `fail` or `inconclusive`.
    pub outcome: String,
    /// The codes of the reasons behind it.
    pub codes: Vec<String>,
    /// How the work was checked, if the challenge came that far.
    pub mode: Option<String>,
    /// The key that answered.
    pub key: String,
    /// The validator that asked.
    pub validator: String,
    /// The group of the policy.
    pub group: String,
    /// The kind of challenge.
    pub kind: String,
    /// Origin of the challenge.
    pub asked: String,
    /// The round that it belongs to.
    pub round: Option<String>,
    /// The matrix size.
    pub n: u32,
    /// Number of challenged devices.
    pub devices: u32,
    /// TOPS over all devices, measured.
    pub tops: f64,
    /// Memory shown over all devices, in bytes.
    pub bytes_held: i64,
    /// GB/s read by the probe, measured.
    pub gb_per_s: f64,
    /// Seconds from the challenge out to the commitment in, measured.
    pub seconds: f64,
    /// The new attestation state, if it changed.
    pub state: Option<String>,
    /// The id of its receipt.
    pub receipt: Option<String>,
}

/// A miner that connected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = ConnectedTold)]
pub struct ConnectedEvent {
    /// The session.
    pub session: String,
    /// The key that it connected with.
    pub key: String,
    /// The validator.
    pub validator: String,
    /// Address of its connection, without the port.
    pub address: String,
    /// The software that it names: a claim.
    pub software: String,
    /// Number of devices that it claims.
    pub devices: u32,
}

/// A session that ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = LeftTold)]
pub struct DisconnectedEvent {
    /// The session.
    pub session: String,
    /// The key that it connected with.
    pub key: String,
    /// The validator.
    pub validator: String,
    /// Its length in seconds.
    pub connected_s: i64,
    /// Reason for its end.
    pub why: String,
}

/// Whether a validator serves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = HealthTold)]
pub struct HealthEvent {
    /// The validator.
    pub validator: String,
    /// Whether it serves.
    pub serving: bool,
    /// The reason why it does not serve.
    pub why: String,
}
