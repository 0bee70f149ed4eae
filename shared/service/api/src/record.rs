//! The rows of the records as documents: records write and read them, the API serves them.

mod actor;
mod api_tokens;
mod begun;
mod challenges;
mod counts;
mod devices;
mod due;
mod event;
mod evidence;
mod export;
pub mod flat;
mod history;
mod miner;
mod role;
mod rounds;
mod series;
mod sessions;
mod standing;
mod tokens;
mod verdict_parts;
mod verdicts;
mod webhooks;

pub use self::actor::{Actor, OperatorAction};
pub use self::api_tokens::ApiTokenRecord;
pub use self::begun::{ChallengeStart, RoundRecord};
pub use self::challenges::ChallengeRecord;
pub use self::counts::{MinerCount, ModelCount};
pub use self::devices::{DeviceEvent, DeviceRecord};
pub use self::due::NextChallenge;
pub use self::event::{
    ConnectedEvent, DisconnectedEvent, EventDocument, EventKind, EventRecord, HealthEvent, VerdictEvent,
};
pub use self::evidence::KeptEvidence;
pub use self::export::ExportSummary;
pub use self::history::{MinerEvent, ObjectKind, ResolvedId};
pub use self::miner::{Approval, Labels, LastVerdict, MinerRecord};
pub use self::role::Role;
pub use self::rounds::RoundMember;
pub use self::series::SeriesPoint;
pub use self::sessions::SessionRecord;
pub use self::standing::{NotedFinding, NotedTransition};
pub use self::tokens::TokenRecord;
pub use self::verdict_parts::{CommitmentRecord, EvidenceRecord, FindingRecord, ReceiptRecord, Transition};
pub use self::verdicts::{FullVerdict, VerdictRecord};
pub use self::webhooks::{DeliveryRecord, WebhookRecord};
