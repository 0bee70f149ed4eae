//! The documents of a validator's HTTP API: programs, the commands and the pages exchange them with it. Types alone;
//! the validator serves them.
//!
//! Where a document is a row of the records, it is that type itself: see [`record`]. Keys, ids and digests are
//! lower-case hexadecimal texts; times are milliseconds since 1970 (`*_ms`). Every document that is written can be read
//! back.

#![warn(missing_docs)]
#![forbid(unsafe_code)]

mod challenge;
mod cursor;
mod decision;
mod find;
mod label;
mod miner;
mod problem;
mod query;
pub mod record;
mod round;
mod series;
mod status;
mod token;
mod verdict;
mod webhook;

pub use self::challenge::{BeginChallenge, ChallengeDetail, ChallengeProgress, ChallengeUpdate, VERDICT_PHASE};
pub use self::cursor::{Cursor, CursorError, ListPage, MAX_CURSOR_BYTES, MAX_DOCUMENTS};
pub use self::decision::Decision;
pub use self::find::{DeviceDetail, ReceiptDetail, SearchResult};
pub use self::label::{
    ChangeLabels, LabelError, MAX_LABEL_NAME_BYTES, MAX_LABEL_VALUE_CHARS, MAX_LABELS, parse_label, parse_name,
};
pub use self::miner::{
    AttestationGap, ClaimedDevice, ForgottenDevices, Miner, MinerChanged, MinerConnection, MinerDetail, MinerSnapshot,
};
pub use self::problem::{MEDIA_TYPE as PROBLEM_MEDIA_TYPE, ProblemCode, ProblemDetails};
pub use self::query::{
    DevicesQuery, EventsQuery, Gap, MinerOrder, MinersQuery, PageQuery, ReceiptsQuery, SeriesQuery, StreamEvent,
    VerdictsQuery,
};
pub use self::record::{EventRecord as LiveEvent, Role, SeriesPoint};
pub use self::round::{BeginRound, Round, RoundDetail, StartedRound};
pub use self::series::{MinerSeries, Quantity, SeriesBand};
pub use self::status::{FleetCounts, ReplayWorkerStatus, ServerStatus, VerdictCounts};
pub use self::token::{
    ApiToken, BackupRequest, CreateApiToken, CreateJoinToken, CreateLoginCode, CreatedJoinToken, ExportRequest,
    LoginCode, ReloadResult, WrittenFile, WrittenFolder,
};
pub use self::verdict::verdict_of;
pub use self::webhook::{AddWebhook, AddedWebhook, TestedWebhook};
