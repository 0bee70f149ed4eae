//! Webhooks: who is sent events, and how far each is.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::EventKind;

/// A webhook, without its secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WebhookRecord {
    /// Its id.
    pub id: String,
    /// Destination of the events, without possible secrets.
    pub target: String,
    /// Kinds of events; empty: all.
    pub kinds: Vec<EventKind>,
    /// Time of its creation.
    pub created_ms: i64,
    /// Its creator.
    pub created_by: String,
    /// Time since which it is disabled.
    pub disabled_ms: Option<i64>,
    /// Reason why it is disabled.
    pub disabled_why: Option<String>,
    /// State of its deliveries.
    pub delivery: DeliveryRecord,
}

/// State of a webhook's deliveries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeliveryRecord {
    /// The last event that was delivered, or is of another kind.
    pub last_event: i64,
    /// Number of delivered events.
    pub delivered: i64,
    /// Time of the last delivery.
    pub delivered_ms: Option<i64>,
    /// Number of events that were removed before their delivery.
    pub skipped: i64,
    /// Number of failed attempts since the last delivery.
    pub attempts: i64,
    /// Time since which every attempt fails.
    pub failing_ms: Option<i64>,
    /// Time of the next attempt.
    pub next_ms: Option<i64>,
    /// Reason of the last failure.
    pub last_error: Option<String>,
}
