//! The parameters of queries for lists. Unset fields select all.

use crate::record::Approval;
use assay_protocol::verdict::Outcome;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::Cursor;

/// The order of miners.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum MinerOrder {
    /// The least id.
    #[default]
    Id,
    /// The worst state first: miners in quarantine or failed; miners excluded by an operator last.
    Trouble,
}

/// Queries for lists that have pages.
macro_rules! paged {
    ($($(#[$doc:meta])* pub struct $query:ident { $($fields:tt)* })+) => { $(
        $(#[$doc])*
        #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
        #[serde(deny_unknown_fields)]
        #[into_params(parameter_in = Query)]
        pub struct $query {
            $($fields)*
            /// The most items.
            #[param(minimum = 1, maximum = 1000)]
            pub limit: Option<u32>,
            /// The page after another one: its `next`.
            #[param(value_type = Option<String>)]
            pub cursor: Option<Cursor>,
        }
    )+ };
}

paged! {
    /// Miners.
    pub struct MinersQuery {
        /// The status; `pending`: those that wait for a decision.
        #[param(inline)]
        pub status: Option<Approval>,
        /// The attestation state; `not_passing`: each but `passing`, `suspended` and `revoked`.
        pub state: Option<String>,
        /// A label that it has, `NAME=VALUE`; several are separated by commas, and it has all of them.
        pub label: Option<String>,
        /// A model that one of its devices claims.
        pub model: Option<String>,
        /// The outcome of its last verdict.
        #[param(inline)]
        pub outcome: Option<Outcome>,
        /// Connected to a validator now, or not.
        pub connected: Option<bool>,
        /// The order of the list. Default: by id.
        #[param(inline)]
        pub order: Option<MinerOrder>,
        /// A text that one of its keys begins with, or that its labels or its address have in them.
        #[param(max_length = 128)]
        pub text: Option<String>,
    }

    /// Devices, in order of miner and id.
    pub struct DevicesQuery {
        /// The miner: the first digits of one of its keys, at least 4.
        pub miner: Option<String>,
        /// The device's id, or its first digits, at least 4.
        pub device_id: Option<String>,
        /// The product name.
        pub model: Option<String>,
        /// Whether to include devices that are no longer listed.
        pub gone: Option<bool>,
    }

    /// Receipts of a miner, newest first.
    pub struct ReceiptsQuery {
        /// The miner: the first digits of one of its keys, at least 4.
        pub miner: String,
        /// Issued not before this time, in milliseconds since 1970.
        #[param(minimum = 0)]
        pub since: Option<i64>,
        /// Issued before this time, in milliseconds since 1970.
        #[param(minimum = 0)]
        pub until: Option<i64>,
    }

    /// Verdicts, newest first.
    pub struct VerdictsQuery {
        /// The miner: the first digits of one of its keys, at least 4.
        pub miner: Option<String>,
        /// The outcome.
        #[param(inline)]
        pub outcome: Option<Outcome>,
        /// The code of one of its reasons.
        pub code: Option<String>,
        /// The round.
        pub round: Option<String>,
        /// Not before this time, in milliseconds since 1970.
        #[param(minimum = 0)]
        pub since: Option<i64>,
        /// Before this time, in milliseconds since 1970.
        #[param(minimum = 0)]
        pub until: Option<i64>,
    }

    /// A list, newest first.
    pub struct PageQuery {}
}

/// Results of a miner's devices, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct SeriesQuery {
    /// Not before this time, in milliseconds since 1970.
    #[param(minimum = 0)]
    pub since: Option<i64>,
    /// The most points; the newest are kept.
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
}

/// An event of a stream, in the stream's own fields.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct StreamEvent {
    /// Kind of the event.
    pub event: String,
    /// Number of the event, from which a stream can be resumed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// A document, in one line.
    pub data: String,
}

/// A gap in a stream: event `gap`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Gap {
    /// The event after which the stream was to be resumed.
    pub after: i64,
    /// The first event that is available.
    pub oldest: i64,
}

/// Live events.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct EventsQuery {
    /// The event after which to begin; the header `Last-Event-ID` takes precedence. Without both, the stream begins
    /// with new events.
    #[param(minimum = 0)]
    pub after: Option<i64>,
    /// Only these kinds, separated by commas.
    #[param(max_length = 256)]
    pub kinds: Option<String>,
}
