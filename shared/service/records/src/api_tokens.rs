//! Tokens of callers of the API, each with a role. The store has only their hashes.

use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use sqlx::any::AnyRow;

use crate::action::note_action;
use crate::column::ttl_ms;
use crate::column::{get, read};
use crate::document::json;
use crate::tx::Tx;
use crate::webhooks::AUTHOR_REVOKED;
use crate::{Actor, ApiTokenRecord, MAX_ROWS, Records, RecordsError, Result, Role, id};

/// The prefix of every token, by which a leaked one is recognised.
const PREFIX: &str = "assay_";
/// Random bytes of a token: too many to guess, so that a hash without salt protects it.
const TOKEN_BYTES: usize = 32;
/// The longest text that is looked at.
const MAX_TOKEN_BYTES: usize = 128;
/// The longest name of a token.
pub const MAX_TOKEN_NAME_BYTES: usize = 64;
/// How long a token that ended stays in the list; its actions stay for good.
pub(crate) const ENDED_KEPT_MS: i64 = 30 * 86_400_000;
/// The most tokens that can be used at one time.
pub const MAX_API_TOKENS: i64 = 1024;

cursor! {
    /// Where a page of tokens of the API ended.
    ApiTokenCursor after ApiTokenRecord: created_ms, id
}

fn hash(token: &str) -> String {
    blake3::Hasher::new_derive_key("assay 2026 api token").update(token.as_bytes()).finalize().to_hex().to_string()
}

/// The names of a token and of those that were made with it, as authors.
const ENDED_NAMES: &str = "WITH RECURSIVE ended (id, name) AS (SELECT id, name FROM api_tokens WHERE id = $1 UNION \
     SELECT t.id, t.name FROM api_tokens t JOIN ended e ON t.parent = e.id) \
     SELECT 'token ' || name || ' (' || id || ')' FROM ended";

impl Records {
    /// Makes a token of the API. This is the only time that it is shown.
    ///
    /// # Errors
    /// [`RecordsError::TooMany`], [`RecordsError::TooLarge`] for its name, or the store cannot be written.
    pub async fn create_api_token(
        &self,
        role: Role,
        name: &str,
        lifetime: Duration,
        actor: &Actor,
    ) -> Result<(String, ApiTokenRecord)> {
        if name.len() > MAX_TOKEN_NAME_BYTES {
            let (what, max) = ("the name of a token", MAX_TOKEN_NAME_BYTES);
            return Err(RecordsError::TooLarge { what, len: name.len(), max });
        }
        let mut random = [0; TOKEN_BYTES];
        getrandom::fill(&mut random).map_err(RecordsError::Random)?;
        let token = format!("{PREFIX}{role}_{}", BASE64_URL_SAFE_NO_PAD.encode(random));
        let created_ms = id::now_ms();
        let mut record = ApiTokenRecord {
            id: id::random()?,
            role,
            name: name.to_owned(),
            created_ms,
            created_by: actor.name.clone(),
            expires_ms: created_ms.saturating_add(ttl_ms(lifetime)),
            revoked_ms: None,
            last_used_ms: None,
        };
        let hash = hash(&token);
        let inserted = self.insert_api_token(&record, &hash, actor);
        record.expires_ms = self.write("note a token of the API", inserted).await?;
        Ok((token, record))
    }

    /// Gives when it ends: no later than the token that it was made with.
    async fn insert_api_token(&self, record: &ApiTokenRecord, hash: &str, actor: &Actor) -> Result<i64> {
        let mut tx = self.begin().await?;
        let ends_ms = self.lock_tokens(&mut tx, actor).await?;
        let expires_ms = record.expires_ms.min(ends_ms.max(record.created_ms));
        let sql = "DELETE FROM api_tokens WHERE revoked_ms < $1 OR expires_ms < $1";
        sqlx::query(sql).bind(record.created_ms - ENDED_KEPT_MS).execute(&mut *tx).await?;
        let sql = "SELECT COUNT(*) FROM api_tokens WHERE revoked_ms IS NULL AND expires_ms > $1";
        let count: i64 = sqlx::query_scalar(sql).bind(record.created_ms).fetch_one(&mut *tx).await?;
        if count >= MAX_API_TOKENS {
            return Err(RecordsError::TooMany { what: "tokens of the API", max: MAX_API_TOKENS });
        }
        let sql = "INSERT INTO api_tokens (id, hash, role, name, created_ms, created_by, expires_ms, parent) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
        let insert = sqlx::query(sql).bind(&record.id).bind(hash).bind(record.role.name()).bind(&record.name);
        let insert = insert.bind(record.created_ms).bind(&actor.name).bind(expires_ms).bind(actor.token_id());
        insert.execute(&mut *tx).await?;
        let detail = format!("token {} {:?}, role {}", record.id, record.name, record.role);
        note_action(&mut tx, actor, "create token", None, &detail).await?;
        tx.commit().await?;
        Ok(expires_ms)
    }

    /// Makes tokens and revocations follow one another: a revocation would not see a token that is being made with the
    /// revoked one. Gives the end of the author's own token; 0 of one that was revoked.
    pub(crate) async fn lock_tokens(&self, tx: &mut Tx, actor: &Actor) -> Result<i64> {
        let sql = sql!("SELECT id FROM store WHERE id = 1 {}", self.store.kind.for_update());
        sqlx::query(sql).fetch_one(&mut **tx).await?;
        let Some(own) = actor.token_id() else { return Ok(i64::MAX) };
        let sql = "SELECT expires_ms FROM api_tokens WHERE id = $1 AND revoked_ms IS NULL";
        let ends_ms: Option<i64> = sqlx::query_scalar(sql).bind(own).fetch_optional(&mut **tx).await?;
        Ok(ends_ms.unwrap_or(0))
    }

    /// The record of a token that can be used now. That it was used is noted, at most once a minute; whether that
    /// succeeds does not matter here.
    pub async fn api_token(&self, token: &str) -> Result<Option<ApiTokenRecord>> {
        if token.len() > MAX_TOKEN_BYTES || !token.starts_with(PREFIX) {
            return Ok(None);
        }
        let query = sqlx::query("SELECT * FROM api_tokens WHERE hash = $1").bind(hash(token));
        let (token, now_ms) = (self.find_row("look up a token of the API", query, token_of).await?, id::now_ms());
        let token = token.filter(|token| token.is_good(now_ms));
        if let Some(token) =
            token.as_ref().filter(|token| self.store.token_uses.is_due(&token.id, token.last_used_ms, now_ms))
        {
            let (records, id) = (self.clone(), token.id.clone());
            tokio::spawn(async move {
                if let Err(error) = records.note_use(&id, now_ms).await {
                    tracing::debug!(token = id, %error, "the records do not have the use of a token");
                }
            });
        }
        Ok(token)
    }

    async fn note_use(&self, id: &str, now_ms: i64) -> Result<()> {
        let sql = "UPDATE api_tokens SET last_used_ms = $2 WHERE id = $1 AND COALESCE(last_used_ms, 0) < $2";
        self.execute("note the use of a token", sqlx::query(sql).bind(id).bind(now_ms)).await.map(drop)
    }

    /// The tokens of the API that were made, newest first; with a cursor the page after it.
    pub async fn api_tokens(&self, before: Option<&ApiTokenCursor>, limit: u32) -> Result<Vec<ApiTokenRecord>> {
        let sql = "SELECT * FROM api_tokens WHERE created_ms < $1 OR (created_ms = $1 AND id < $2) \
             ORDER BY created_ms DESC, id DESC LIMIT $3";
        let (created_ms, id) = before.map_or((i64::MAX, ""), |cursor| (cursor.created_ms, &cursor.id));
        let query = sqlx::query(sql).bind(created_ms).bind(id).bind(i64::from(limit.min(MAX_ROWS)));
        self.list("list tokens of the API", query, token_of).await
    }

    /// Revokes a token of the API by its id, with the tokens that were made with it, or a join token by its hash; false
    /// where there is none that can be used.
    pub async fn revoke_api_token(&self, id: &str, actor: &Actor) -> Result<bool> {
        transaction!(self, "revoke a token of the API", |tx| {
            // In this order, as a webhook that is disabled and a token that is used lock them.
            let lock = self.store.kind.for_update();
            sqlx::query(sql!("SELECT id FROM webhooks {lock}")).execute(&mut *tx).await?;
            sqlx::query(sql!("SELECT hash FROM tokens WHERE used_by IS NULL {lock}")).execute(&mut *tx).await?;
            self.lock_tokens(&mut tx, actor).await?;
            let sql = "UPDATE api_tokens SET revoked_ms = $2 WHERE id = $1 AND revoked_ms IS NULL";
            let revoked = sqlx::query(sql).bind(id).bind(id::now_ms()).execute(&mut *tx).await?.rows_affected();
            let sql = "UPDATE api_tokens SET revoked_ms = $2 WHERE revoked_ms IS NULL AND id IN \
                 (WITH RECURSIVE ended (id) AS (SELECT id FROM api_tokens WHERE id = $1 UNION SELECT t.id FROM \
                 api_tokens t JOIN ended e ON t.parent = e.id) SELECT id FROM ended)";
            let children = sqlx::query(sql).bind(id).bind(id::now_ms()).execute(&mut *tx).await?.rows_affected();
            let of_itself = sqlx::query("DELETE FROM tokens WHERE used_by IS NULL AND hash = $1").bind(id);
            let of_itself = of_itself.execute(&mut *tx).await?.rows_affected();
            let sql = sql!("DELETE FROM tokens WHERE used_by IS NULL AND created_by IN ({ENDED_NAMES})");
            let joins = sqlx::query(sql).bind(id).execute(&mut *tx).await?.rows_affected();
            // They would go on telling their author all events.
            let sql = sql!(
                "UPDATE webhooks SET disabled_ms = $2, disabled_why = $3 WHERE disabled_ms IS NULL AND created_by IN \
                 ({ENDED_NAMES})"
            );
            let disable = sqlx::query(sql).bind(id).bind(id::now_ms()).bind(AUTHOR_REVOKED);
            let webhooks = disable.execute(&mut *tx).await?.rows_affected();
            let made = children + joins + webhooks;
            if revoked + of_itself + made > 0 {
                let detail = match made {
                    _ if of_itself > 0 => format!("join token {}", id.get(..16).unwrap_or(id)),
                    0 => format!("token {id}"),
                    made => format!("token {id}, and {made} made with it"),
                };
                note_action(&mut tx, actor, "revoke token", None, &detail).await?;
            }
            revoked + of_itself + made > 0
        })
    }
}

fn token_of(row: &AnyRow) -> Result<ApiTokenRecord> {
    Ok(read!(row => ApiTokenRecord {
        id, name, created_ms, created_by, expires_ms, revoked_ms, last_used_ms;
        role: json(&format!("\"{}\"", get::<String>(row, "role")?), "role")?,
    }))
}
