//! The records of a validator: SQLite in its state directory, or PostgreSQL for a fleet. One schema and one SQL serve
//! both, through sqlx's `any` driver; `docs/records.md` describes the tables.
//!
//! Keys, ids and digests are lower-case hexadecimal texts, times are milliseconds since 1970 (`*_ms`), documents are
//! JSON. A miner is known by the first of its keys that was seen, its *id*; wherever a function takes a miner, any of
//! its keys will do. A query fails where the store cannot be read, a change where it cannot be written.

#![forbid(unsafe_code)]

mod actor;
mod api_tokens;
mod backup;
mod begun;
mod challenges;
mod column;
mod conclude;
mod conclusion;
mod counts;
mod devices;
mod document;
mod due;
mod error;
mod event;
mod evidence;
mod export;
mod file;
pub mod flat;
mod group;
mod grouped;
mod history;
mod id;
mod keys;
mod kind;
mod leases;
mod location;
mod memory;
mod miner;
mod miners;
mod outbox;
mod queue;
mod readers;
mod receipts;
mod role;
mod rounds;
mod rows;
mod schema;
mod series;
mod sessions;
mod standing;
mod store;
mod strangers;
mod summary;
pub mod tables;
#[cfg(all(unix, feature = "testing"))]
pub mod testing;
mod token_uses;
mod tokens;
mod trouble;
mod tx;
mod validators;
mod verdicts;
mod webhooks;
mod write;
mod writes;

pub use actor::{Action, Actor};
pub use api_tokens::{ApiTokenCursor, ApiTokenRecord, MAX_API_TOKENS, MAX_TOKEN_NAME_BYTES};
pub use begun::{Begun, RoundRecord};
pub use challenges::{ChallengeRecord, Duty, Orphan};
pub use conclusion::{
    CommitmentRecord, Conclusion, EvidenceRecord, FindingRecord, ReceiptRecord, StandingChange, Transition,
};
pub use counts::{MinerCount, ModelCount};
pub use devices::{DeviceEvent, DeviceFilter, DeviceRecord, DeviceSeen};
pub use due::Due;
pub use error::RecordsError;
pub use event::{ConnectedTold, EventKind, EventRecord, HealthTold, LeftTold, Told, VerdictTold};
pub use evidence::KeptEvidence;
pub use export::Exported;
pub use history::{Event, Found};
pub use leases::Lease;
pub use location::{Location, LocationError};
pub use miner::{Labels, LastVerdict, MinerFilter, MinerRecord, Status};
pub use miners::MinerChange;
pub use outbox::{MAX_EVENT_AGE, MAX_EVENTS};
pub use queue::{Job, JobRequest, JobState, MAX_JOB_ATTEMPTS, MAX_JOB_BYTES, QueueLoad, WorkerRecord};
pub use readers::as_api;
pub use role::Role;
pub use rounds::{RoundCursor, RoundFilter, RoundMember};
pub use schema::SCHEMA_VERSION;
pub use series::SeriesPoint;
pub use sessions::{Connected, SessionRecord};
pub use standing::{FindingFilter, NotedFinding, NotedTransition};
pub use store::Records;
pub use strangers::{MAX_STRANGERS, Removed, STRANGER_AGE_MS, StrangerEvidence};
pub use summary::MinerSummary;
pub use tokens::{TokenCursor, TokenRecord, TokenRefusal};
pub use validators::ValidatorRecord;
pub use verdicts::{FullVerdict, MAX_SAMPLES_PER_OPERATOR, Sample, VerdictCursor, VerdictFilter, VerdictRecord};
pub use webhooks::{DeliveryRecord, MAX_WEBHOOKS, NewWebhook, WebhookRecord, WebhookSecrets};
pub use writes::Writes;

/// The most rows of one query; callers that need more page on.
pub const MAX_ROWS: u32 = 10_000;
