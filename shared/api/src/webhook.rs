//! Webhooks: servers that are sent events.

use assay_records::{EventKind, WebhookRecord};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A webhook to add.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AddWebhook {
    /// Where events are posted: `https://` or `http://`.
    #[schema(min_length = 1, max_length = 2048)]
    pub url: String,
    /// Which events; none of them named: all.
    #[serde(default)]
    #[schema(max_items = 16)]
    pub kinds: Vec<EventKind>,
}

/// A webhook that was added.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AddedWebhook {
    /// What the records show of it.
    #[serde(flatten)]
    pub record: WebhookRecord,
    /// What its messages are signed with: it is shown this once.
    pub secret: String,
}

/// A webhook that took a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TestedWebhook {
    /// The status of its answer.
    pub status: u16,
}
