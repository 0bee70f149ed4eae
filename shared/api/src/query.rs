//! What lists are asked for. Unset fields leave nothing out.

use assay_protocol::verdict::Outcome;
use assay_records::Status;
use serde::{Deserialize, Serialize};
use utoipa::IntoParams;

use crate::Cursor;

/// Miners, in order of their ids.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct MinersQuery {
    /// The status.
    #[param(inline)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    /// The attestation state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// A label that it has, `NAME=VALUE`; several are separated by commas, and it has all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// A model that one of its devices claims.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The outcome of its last verdict.
    #[param(inline)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// Connected to a validator now, or not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connected: Option<bool>,
    /// A text that one of its keys begins with, or that its labels or its address have in them.
    #[param(max_length = 128)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// At most so many.
    #[param(minimum = 1, maximum = 1000)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// The page after another one: its `next`.
    #[param(value_type = Option<String>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<Cursor>,
}

/// Devices, in order of miner and id.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct DevicesQuery {
    /// The miner: the first digits of one of its keys, at least 4.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub miner: Option<String>,
    /// The device's id, or its first digits, at least 4.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_id: Option<String>,
    /// The product name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Also those that are gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gone: Option<bool>,
    /// At most so many.
    #[param(minimum = 1, maximum = 1000)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// The page after another one: its `next`.
    #[param(value_type = Option<String>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<Cursor>,
}

/// Verdicts, newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct VerdictsQuery {
    /// The miner: the first digits of one of its keys, at least 4.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub miner: Option<String>,
    /// The outcome.
    #[param(inline)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// The code of one of its reasons.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The round.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub round: Option<String>,
    /// Not before this time, in milliseconds since 1970.
    #[param(minimum = 0)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<i64>,
    /// Before this time, in milliseconds since 1970.
    #[param(minimum = 0)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<i64>,
    /// At most so many.
    #[param(minimum = 1, maximum = 1000)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// The page after another one: its `next`.
    #[param(value_type = Option<String>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<Cursor>,
}

/// Rounds, newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct RoundsQuery {
    /// At most so many.
    #[param(minimum = 1, maximum = 1000)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// The page after another one: its `next`.
    #[param(value_type = Option<String>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<Cursor>,
}

/// A list, newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct PageQuery {
    /// At most so many.
    #[param(minimum = 1, maximum = 1000)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// The page after another one: its `next`.
    #[param(value_type = Option<String>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<Cursor>,
}

/// What happened to a miner, newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct HistoryQuery {
    /// At most so many.
    #[param(minimum = 1, maximum = 1000)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// What a miner's devices showed, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct SeriesQuery {
    /// Not before this time, in milliseconds since 1970.
    #[param(minimum = 0)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<i64>,
    /// At most so many points, the newest.
    #[param(minimum = 1, maximum = 1000)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// An event of a stream, as its fields are named there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct StreamEvent {
    /// What it is.
    pub event: String,
    /// Its number, by which a stream of what happens goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// A document, in one line.
    pub data: String,
}

/// Events that a stream lacks: event `gap`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Gap {
    /// After which event the stream was to go on.
    pub after: i64,
    /// The first one that can follow.
    pub oldest: i64,
}

/// Events, from a place on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct EventsQuery {
    /// The event after which to begin; the header `Last-Event-ID` counts more. Without both: with what happens now.
    #[param(minimum = 0)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<i64>,
    /// Only these kinds, separated by commas.
    #[param(max_length = 256)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kinds: Option<String>,
}
