//! The records of a validator: SQLite in its state directory, or PostgreSQL for a fleet. One schema and one SQL serve
//! both, through sqlx's `any` driver; `docs/records.md` describes the tables.
//!
//! Keys, ids and digests are lower-case hexadecimal texts, times are milliseconds since 1970 (`*_ms`), documents are
//! JSON. A miner is known by the first of its keys that was seen, its *id*; wherever a function takes a miner, any of
//! its keys will do. A query fails where the store cannot be read, a change where it cannot be written.

#![forbid(unsafe_code)]

/// A statement that `format!` composes of this crate's constants alone: every other value is bound.
macro_rules! sql {
    ($($text:tt)*) => { sqlx::AssertSqlSafe(format!($($text)*)) };
}

/// Writes in a transaction of these records, which is committed where the block comes to its end: gives its value. To
/// return from the block, or to fail in it, leaves nothing written.
macro_rules! transaction {
    ($records:expr, $doing:expr, |$tx:ident| $work:block) => {
        $records
            .write($doing, async {
                let mut $tx = $records.begin().await?;
                let done = $work;
                $tx.commit().await?;
                Ok(done)
            })
            .await
    };
}

/// Where a page of records ended, newest first: the time and the id of its last one. The next page begins there.
macro_rules! cursor {
    ($(#[$doc:meta])* $cursor:ident after $record:ident: $at:ident, $id:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        pub struct $cursor {
            pub $at: i64,
            pub $id: String,
        }

        impl $cursor {
            /// The page after this one.
            pub fn of(last: &$record) -> Self {
                Self { $at: last.$at, $id: last.$id.clone() }
            }
        }
    };
}

mod action;
mod api_tokens;
mod backup;
mod beats;
#[cfg(feature = "testing")]
pub mod calls;
mod challenges;
mod column;
mod conclude;
mod conclusion;
mod copy;
mod counts;
mod devices;
mod document;
mod due;
mod error;
mod evidence;
mod export;
mod file;
mod grouped_write;
mod history;
mod id;
mod keys;
mod kind;
mod leases;
mod location;
mod logged;
mod memory;
mod miner;
mod miners;
mod outbox;
mod pools;
mod queue;
mod readers;
mod receipts;
mod request_group;
mod retention;
mod rounds;
mod rows;
mod schema;
mod series;
mod sessions;
mod shared_transaction;
mod standing;
mod store;
mod strangers;
mod summary;
pub mod tables;
mod token_uses;
mod tokens;
mod trouble;
mod tx;
mod validators;
mod verdicts;
mod webhooks;
mod write_counter;

// The server of tests is compiled in other crates too.
#[cfg(all(unix, feature = "testing"))]
extern crate self as assay_records;
#[cfg(all(unix, feature = "testing"))]
#[path = "../../../../integration-tests/src/postgres.rs"]
pub mod testing;

pub use assay_api::record::{
    Actor, ApiTokenRecord, Approval, ChallengeRecord, ChallengeStart, CommitmentRecord, ConnectedEvent, DeliveryRecord,
    DeviceEvent, DeviceRecord, DisconnectedEvent, EventDocument, EventKind, EventRecord, EvidenceRecord, ExportSummary,
    FindingRecord, FullVerdict, HealthEvent, KeptEvidence, Labels, LastVerdict, MinerCount, MinerEvent, MinerRecord,
    ModelCount, NextChallenge, NotedFinding, NotedTransition, ObjectKind, OperatorAction, ReceiptRecord, ResolvedId,
    Role, RoundMember, RoundRecord, SeriesPoint, SessionRecord, TokenRecord, Transition, VerdictEvent, VerdictRecord,
    WebhookRecord,
};

pub use api_tokens::{ApiTokenCursor, MAX_API_TOKENS, MAX_TOKEN_NAME_BYTES};
pub use challenges::{DeviceDuty, OrphanChallenge};
pub use conclusion::{Conclusion, StandingChange};
pub use devices::{DeviceQuery, ListedDevice};
pub use error::RecordsError;
use error::Result;
pub use evidence::EvidenceShare;
pub use history::HistoryCursor;
pub use leases::Lease;
pub use location::{Location, LocationError};
pub use logged::UnloggedVerdict;
pub use miner::MinerFilter;
pub use miners::{KeyDecision, MinerChange};
pub use outbox::{MAX_EVENT_AGE, MAX_EVENTS};
pub use queue::{Job, JobRequest, JobState, MAX_JOB_ATTEMPTS, MAX_JOB_BYTES, WorkerRecord};
pub use readers::with_api_limit;
pub use receipts::{ReceiptCursor, ReceiptFilter};
pub use rounds::RoundCursor;
pub use schema::SCHEMA_VERSION;
pub use sessions::ConnectedSession;
pub use store::Records;
pub use strangers::{MAX_STRANGERS, RemovedStrangers, STRANGER_AGE_MS};
pub use summary::MinerSummary;
pub use tokens::{TokenCursor, TokenRefusal};
pub use validators::ValidatorRecord;
pub use verdicts::{DeviceSample, MAX_SAMPLES_PER_OPERATOR, VerdictCursor, VerdictFilter};
pub use webhooks::{MAX_WEBHOOKS, NewWebhook, WebhookSecrets};
pub use write_counter::Writes;

/// The most rows of one query; callers that need more page on.
pub const MAX_ROWS: u32 = 10_000;
