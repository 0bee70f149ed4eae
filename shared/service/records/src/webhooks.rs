//! Webhooks: who is sent events, and how far each is.

use sqlx::any::AnyRow;

use crate::action::note_action;
use crate::column::{get, read};
use crate::document::{json, to_json};
use crate::tx::Tx;
use crate::{Actor, DeliveryRecord, EventKind, Records, RecordsError, Result, WebhookRecord, id};

/// The most webhooks that operators may add.
pub const MAX_WEBHOOKS: i64 = 32;
/// The longest error that is kept of a failed delivery.
const MAX_ERROR_BYTES: usize = 512;

/// A webhook that an operator adds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewWebhook {
    /// The URL that events go to.
    pub url: String,
    /// The same without its secret parts.
    pub target: String,
    /// The kinds of events to send; empty: all.
    pub kinds: Vec<EventKind>,
    /// The key that signs them.
    pub secret: Vec<u8>,
}

/// The secrets of a webhook. Signing needs the key itself: a hash would not do.
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookSecrets {
    /// The URL that events go to.
    pub url: String,
    /// The key that signs them.
    pub secret: Vec<u8>,
}

impl std::fmt::Debug for WebhookSecrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("WebhookSecrets")
    }
}

/// Why a webhook is disabled whose author's token was revoked.
pub(crate) const AUTHOR_REVOKED: &str = "the token that made it was revoked";

const SELECT: &str = "SELECT w.id, w.target, w.kinds, w.created_ms, w.created_by, w.disabled_ms, w.disabled_why, \
     d.last_event, d.delivered, d.delivered_ms, d.skipped, d.attempts, d.failing_ms, d.next_ms, d.last_error \
     FROM webhooks w JOIN deliveries d ON d.webhook = w.id";

impl Records {
    /// Adds a webhook. It receives events from now on.
    ///
    /// # Errors
    /// [`RecordsError::TooMany`], or the store cannot be written.
    pub async fn add_webhook(&self, webhook: &NewWebhook, actor: &Actor) -> Result<WebhookRecord> {
        let created_ms = id::now_ms();
        let id = id::random()?;
        transaction!(self, "add a webhook", |tx| {
            let count: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM webhooks").fetch_one(&mut *tx).await?;
            if count >= MAX_WEBHOOKS {
                return Err(RecordsError::TooMany { what: "webhooks", max: MAX_WEBHOOKS });
            }
            let is_revoked = self.lock_tokens(&mut tx, actor).await? == 0;
            insert(&mut tx, &id, webhook, created_ms, &actor.name).await?;
            if is_revoked {
                let sql = "UPDATE webhooks SET disabled_ms = $2, disabled_why = $3 WHERE id = $1";
                sqlx::query(sql).bind(&id).bind(created_ms).bind(AUTHOR_REVOKED).execute(&mut *tx).await?;
            }
            let detail = format!("webhook {id} to {}", webhook.target);
            note_action(&mut tx, actor, "add webhook", None, &detail).await?;
        })?;
        let added = self.webhook(&id).await?;
        added.ok_or(RecordsError::NoSuchWebhook(id))
    }

    /// The webhooks, oldest first.
    pub async fn webhooks(&self) -> Result<Vec<WebhookRecord>> {
        self.list("list webhooks", sqlx::query(sql!("{SELECT} ORDER BY w.created_ms, w.id")), webhook_of).await
    }

    pub async fn webhook(&self, id: &str) -> Result<Option<WebhookRecord>> {
        self.find_row("look up a webhook", sqlx::query(sql!("{SELECT} WHERE w.id = $1")).bind(id), webhook_of).await
    }

    pub async fn webhook_secrets(&self, id: &str) -> Result<Option<WebhookSecrets>> {
        let query = sqlx::query("SELECT url, secret FROM webhooks WHERE id = $1").bind(id);
        self.find_row("look up a webhook", query, |row| {
            let url = String::from_utf8_lossy(&get::<Vec<u8>>(row, "url")?).into_owned();
            Ok(read!(row => WebhookSecrets { secret; url }))
        })
        .await
    }

    /// Removes a webhook; false where the id is unknown.
    pub async fn remove_webhook(&self, id: &str, actor: &Actor) -> Result<bool> {
        transaction!(self, "remove a webhook", |tx| {
            sqlx::query("DELETE FROM deliveries WHERE webhook = $1").bind(id).execute(&mut *tx).await?;
            let removed = sqlx::query("DELETE FROM webhooks WHERE id = $1").bind(id).execute(&mut *tx).await?;
            let removed = removed.rows_affected() > 0;
            if removed {
                note_action(&mut tx, actor, "remove webhook", None, &format!("webhook {id}")).await?;
            }
            removed
        })
    }

    /// Notes that a webhook has all events up to this one, `sent` of them since the last time.
    pub async fn delivered(&self, id: &str, last_event: i64, sent: i64) -> Result<()> {
        let sql = "UPDATE deliveries SET last_event = $2, delivered = delivered + $3, \
             delivered_ms = CASE WHEN $3 > 0 THEN $4 ELSE delivered_ms END, attempts = 0, failing_ms = NULL, \
             next_ms = NULL, last_error = NULL WHERE webhook = $1 AND last_event < $2";
        let update = sqlx::query(sql).bind(id).bind(last_event).bind(sent).bind(id::now_ms());
        self.execute("note a delivery", update).await.map(drop)
    }

    /// Notes that events up to this one were removed before a webhook could be sent them.
    pub async fn skipped(&self, id: &str, last_event: i64) -> Result<()> {
        let sql = "UPDATE deliveries SET skipped = skipped + $2 - last_event, last_event = $2 \
             WHERE webhook = $1 AND last_event < $2";
        self.execute("note events that were too old", sqlx::query(sql).bind(id).bind(last_event)).await.map(drop)
    }

    /// Notes an attempt that failed, and when the next one is made.
    pub async fn not_delivered(&self, id: &str, error: &str, next_ms: i64) -> Result<()> {
        let sql = "UPDATE deliveries SET attempts = attempts + 1, failing_ms = COALESCE(failing_ms, $2), \
             next_ms = $3, last_error = $4 WHERE webhook = $1";
        let update = sqlx::query(sql).bind(id).bind(id::now_ms()).bind(next_ms).bind(bounded(error));
        self.execute("note a failed delivery", update).await.map(drop)
    }

    /// Sends a webhook nothing any more.
    pub async fn disable_webhook(&self, id: &str, why: &str) -> Result<()> {
        transaction!(self, "disable a webhook", |tx| {
            let sql = "UPDATE webhooks SET disabled_ms = $2, disabled_why = $3 WHERE id = $1 AND disabled_ms IS NULL";
            let update = sqlx::query(sql).bind(id).bind(id::now_ms()).bind(bounded(why));
            if update.execute(&mut *tx).await?.rows_affected() > 0 {
                let detail = format!("webhook {id}: {}", bounded(why));
                note_action(&mut tx, &Actor::validator(), "disable webhook", None, &detail).await?;
            }
        })
    }

    /// Enables a webhook that was disabled at this time and not since, and forgets its failures: events are sent at once,
    /// from its last position.
    pub async fn enable_webhook(&self, id: &str, disabled_ms: Option<i64>) -> Result<()> {
        transaction!(self, "enable a webhook", |tx| {
            let sql = "UPDATE webhooks SET disabled_ms = NULL, disabled_why = NULL WHERE id = $1 AND disabled_ms = $2";
            sqlx::query(sql).bind(id).bind(disabled_ms).execute(&mut *tx).await?;
            let sql = "UPDATE deliveries SET attempts = 0, failing_ms = NULL, next_ms = NULL, last_error = NULL \
                 WHERE webhook = $1";
            sqlx::query(sql).bind(id).execute(&mut *tx).await?;
        })
    }
}

/// Inserts both rows of a webhook.
async fn insert(tx: &mut Tx, id: &str, webhook: &NewWebhook, created_ms: i64, created_by: &str) -> Result<()> {
    let NewWebhook { url, target, kinds, secret } = webhook;
    let sql = "INSERT INTO webhooks (id, target, url, secret, kinds, created_ms, created_by) \
         VALUES ($1, $2, $3, $4, $5, $6, $7)";
    let insert = sqlx::query(sql).bind(id).bind(target).bind(url.as_bytes().to_vec()).bind(secret.clone());
    let insert = insert.bind(to_json(kinds, "kinds")?).bind(created_ms).bind(created_by);
    insert.execute(&mut **tx).await?;
    let sql = "INSERT INTO deliveries (webhook, last_event, delivered, skipped, attempts) \
         VALUES ($1, (SELECT last_event FROM store WHERE id = 1), 0, 0, 0)";
    sqlx::query(sql).bind(id).execute(&mut **tx).await?;
    Ok(())
}

/// An error as it is kept.
fn bounded(error: &str) -> String {
    let mut end = error.len().min(MAX_ERROR_BYTES);
    while !error.is_char_boundary(end) {
        end -= 1;
    }
    error[..end].replace('\0', " ")
}

/// Kinds that this release does not have are passed over: a webhook of such kinds alone is disabled for it.
fn webhook_of(row: &AnyRow) -> Result<WebhookRecord> {
    let asked: Vec<String> = json(&get::<String>(row, "kinds")?, "kinds")?;
    let kinds: Vec<EventKind> = asked.iter().filter_map(|kind| EventKind::named(kind)).collect();
    let unknown = (kinds.is_empty() && !asked.is_empty()).then(|| format!("no events of kind {}", asked.join(", ")));
    let created_ms = get(row, "created_ms")?;
    Ok(read!(row => WebhookRecord {
        id, target, created_by;
        disabled_ms: get::<Option<i64>>(row, "disabled_ms")?.or(unknown.as_ref().map(|_| created_ms)),
        disabled_why: get::<Option<String>>(row, "disabled_why")?.or(unknown),
        created_ms,
        kinds,
        delivery: read!(row => DeliveryRecord {
            last_event, delivered, delivered_ms, skipped, attempts, failing_ms, next_ms, last_error
        }),
    }))
}
