//! The message of an event for a receiver.

use std::sync::Arc;

use assay_program::utc;
use assay_records::{EventDocument, EventRecord, Records, RecordsError};
use serde::Serialize;
use serde_json::value::RawValue;

/// A message: its id and body stay the same across attempts.
#[derive(Debug, Clone)]
pub struct WebhookMessage {
    /// The id, by which a receiver detects a repeated event.
    pub id: String,
    /// The body: one JSON object.
    pub body: Arc<[u8]>,
}

#[derive(Serialize)]
struct Body<'a> {
    r#type: &'a str,
    timestamp: String,
    id: &'a str,
    /// Sequence number of the event.
    sequence: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    miner: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    challenge: Option<&'a str>,
    data: Box<RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    verdict: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    receipt: Option<String>,
}

impl WebhookMessage {
    /// Builds the message of an event, with its verdict and receipt from the records.
    ///
    /// # Errors
    /// The records cannot be read.
    pub async fn of(event: &EventRecord, records: &Records) -> Result<Self, RecordsError> {
        let malformed = |source| RecordsError::Malformed { what: "event", source };
        let (mut verdict, mut receipt) = (None, None);
        if let (EventDocument::Verdict(told), Some(challenge)) = (&event.told, &event.challenge) {
            verdict = records.verdict_document(challenge).await?;
            if let Some(id) = &told.receipt {
                receipt = records.receipt(id).await?.map(|(_, receipt)| receipt.token);
            }
        }
        let body = Body {
            r#type: event.kind().name(),
            timestamp: utc::iso(u64::try_from(event.at_ms / 1000).unwrap_or(0)),
            id: &event.id,
            sequence: event.seq,
            miner: event.miner.as_deref(),
            challenge: event.challenge.as_deref(),
            data: RawValue::from_string(event.told.document().map_err(malformed)?).map_err(malformed)?,
            verdict,
            receipt,
        };
        Ok(Self { id: event.id.clone(), body: serde_json::to_vec(&body).map_err(malformed)?.into() })
    }

    /// Builds a test message, which reports no event.
    pub fn test(webhook: &str, id: String, unix_s: u64) -> Self {
        let body = serde_json::json!({
            "type": "test", "timestamp": utc::iso(unix_s), "id": id, "data": { "webhook": webhook },
        });
        Self { id, body: body.to_string().into_bytes().into() }
    }
}
