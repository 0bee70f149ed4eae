//! The records of a validator: SQLite in its state directory, or PostgreSQL for a fleet. One schema and one SQL serve
//! both, through sqlx's `any` driver; `docs/records.md` describes the tables.
//!
//! Keys, ids and digests are lower-case hexadecimal texts, times are milliseconds since 1970 (`*_ms`), documents are
//! JSON. A miner is known by the first of its keys that was seen, its *id*; wherever a function takes a miner, any of
//! its keys will do.

#![forbid(unsafe_code)]

mod backup;
mod challenges;
mod conclude;
mod conclusion;
mod devices;
mod due;
mod error;
mod evidence;
mod export;
mod history;
mod id;
mod kind;
mod leases;
mod location;
mod miners;
mod queue;
mod receipts;
mod rounds;
mod schema;
mod sessions;
mod standing;
mod store;
pub mod tables;
#[cfg(all(unix, feature = "testing"))]
pub mod testing;
mod tokens;
mod trouble;
mod validators;
mod verdicts;

pub use challenges::{Begun, ChallengeRecord, Duty, Orphan};
pub use conclusion::{CommitmentRecord, Conclusion, EvidenceRecord, FindingRecord, ReceiptRecord, Transition};
pub use devices::{DeviceEvent, DeviceFilter, DeviceRecord, DeviceSeen};
pub use due::Due;
pub use error::RecordsError;
pub use evidence::KeptEvidence;
pub use export::{Exported, Format};
pub use history::{Event, Found};
pub use leases::Lease;
pub use location::{Location, LocationError};
pub use miners::{Action, Actor, Labels, LastVerdict, MinerFilter, MinerRecord, Status};
pub use queue::{Job, JobRequest, JobState, MAX_JOB_ATTEMPTS, MAX_JOB_BYTES, QueueLoad, WorkerRecord};
pub use rounds::{RoundMember, RoundRecord};
pub use schema::SCHEMA_VERSION;
pub use sessions::{Connected, SessionRecord};
pub use standing::{FindingFilter, NotedFinding, NotedTransition};
pub use store::Records;
pub use tokens::{TokenRecord, TokenRefusal};
pub use validators::ValidatorRecord;
pub use verdicts::{FullVerdict, MAX_SAMPLES_PER_OPERATOR, Sample, VerdictCursor, VerdictFilter, VerdictRecord};

/// The most rows that one query gives; what asks for more pages on.
pub const MAX_ROWS: u32 = 10_000;
