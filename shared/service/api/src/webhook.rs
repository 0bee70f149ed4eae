//! Webhooks: servers that receive events.

use crate::record::{EventKind, WebhookRecord};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A webhook to add.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AddWebhook {
    /// Destination of the events: `https://` or `http://`.
    #[schema(max_length = 2048, pattern = "^[Hh][Tt][Tt][Pp][Ss]?://[^/?#@]")]
    pub url: String,
    /// Kinds of events; empty: all.
    #[serde(default)]
    #[schema(max_items = 16)]
    pub kinds: Vec<EventKind>,
}

/// A webhook that was added.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AddedWebhook {
    /// Its record, with its public fields.
    #[serde(flatten)]
    pub record: WebhookRecord,
    /// Secret that signs its messages, shown only this once.
    pub secret: String,
}

/// A webhook whose receiver accepted a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TestedWebhook {
    /// The HTTP status of its answer.
    pub status: u16,
}
