//! Join tokens: each lets one miner in. The store has only their hashes.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::action::note_action;
use crate::api_tokens::ENDED_KEPT_MS;
use crate::column::ttl_ms;
use crate::column::{get, read};
use crate::document::{json, to_json};
use crate::keys::ensure_miner;
use crate::miner::status_of;
use crate::{Actor, Approval, Labels, MAX_ROWS, Records, RecordsError, Result, TokenRecord, id};

/// The prefix of every token, by which a leaked one is recognised.
const PREFIX: &str = "assay-join-";
/// Random bytes of a token: too many to guess, so that a hash without salt protects it.
const TOKEN_BYTES: usize = 32;
/// The longest text that is looked at.
const MAX_TOKEN_BYTES: usize = 256;

/// A token is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum TokenRefusal {
    /// It was never given out here.
    #[error("the join token is unknown: ask the validator's operator for one")]
    Unknown,
    /// It let another miner in.
    #[error("the join token has been used by another key: ask the validator's operator for a new one")]
    Used,
    /// Its time is over.
    #[error("the join token has expired: ask the validator's operator for a new one")]
    Expired,
    /// The miner was revoked, and stays so.
    #[error("this key was revoked: a join token does not change that")]
    Revoked,
}

cursor! {
    /// Where a page of tokens ended.
    TokenCursor after TokenRecord: created_ms, hash
}

fn hash(token: &str) -> String {
    blake3::Hasher::new_derive_key("assay 2026 join token").update(token.as_bytes()).finalize().to_hex().to_string()
}

impl Records {
    /// Makes a token that lets one miner in, with these labels, within a time. This is the only time that it is shown.
    pub async fn create_token(
        &self,
        labels: &Labels,
        lifetime: Duration,
        actor: &Actor,
    ) -> Result<(String, TokenRecord)> {
        let mut random = [0; TOKEN_BYTES];
        getrandom::fill(&mut random).map_err(RecordsError::Random)?;
        let token = format!("{PREFIX}{}", hex::encode(random));
        let created_ms = id::now_ms();
        let mut record = TokenRecord {
            hash: hash(&token),
            labels: labels.clone(),
            created_ms,
            created_by: actor.name.clone(),
            expires_ms: created_ms.saturating_add(ttl_ms(lifetime)),
            used_ms: None,
            used_by: None,
        };
        transaction!(self, "note a join token", |tx| {
            if self.lock_tokens(&mut tx, actor).await? == 0 {
                record.expires_ms = created_ms;
            }
            let sql =
                "INSERT INTO tokens (hash, labels, created_ms, created_by, expires_ms) VALUES ($1, $2, $3, $4, $5)";
            let insert = sqlx::query(sql).bind(&record.hash).bind(to_json(labels, "labels")?).bind(created_ms);
            insert.bind(&actor.name).bind(record.expires_ms).execute(&mut *tx).await?;
            note_action(&mut tx, actor, "enroll", None, &format!("token {}", &record.hash[..16])).await?;
        })?;
        Ok((token, record))
    }

    /// Lets a miner in by its token: the miner is approved and has the token's labels from then on. A token is used
    /// once, however many try at once; the miner that used it may show it again, as one does that heard no answer.
    ///
    /// # Errors
    /// The store cannot be written. A token that is not good is the inner error.
    pub async fn redeem(&self, token: &str, key: &str, now_ms: i64) -> Result<Result<Labels, TokenRefusal>> {
        if token.len() > MAX_TOKEN_BYTES || !token.starts_with(PREFIX) {
            return Ok(Err(TokenRefusal::Unknown));
        }
        let hash = hash(token);
        self.write("redeem a join token", self.redeem_hash(&hash, key, now_ms)).await
    }

    async fn redeem_hash(&self, hash: &str, key: &str, now_ms: i64) -> Result<Result<Labels, TokenRefusal>> {
        let mut tx = self.begin().await?;
        let sql = sql!("SELECT * FROM tokens WHERE hash = $1 {}", self.store.kind.for_update());
        let row = sqlx::query(sql).bind(hash).fetch_optional(&mut *tx).await?;
        // The lock is on the row: the second transaction sees the first one's change.
        let Some(token) = row.as_ref().map(token_of).transpose()? else { return Ok(Err(TokenRefusal::Unknown)) };
        let sql = "SELECT m.id, m.status FROM miners m JOIN miner_keys k ON k.miner = m.id WHERE k.key = $1";
        let row = sqlx::query(sql).bind(key).fetch_optional(&mut *tx).await?;
        let known =
            row.map(|row| Ok::<_, RecordsError>((get(&row, "id")?, status_of(&get::<String>(&row, "status")?)?)));
        let known: Option<(String, Approval)> = known.transpose()?;
        if let Some(refusal) = refusal(&token, known.as_ref(), now_ms) {
            return Ok(Err(refusal));
        }
        if token.used_by.is_some() {
            return Ok(Ok(token.labels));
        }
        let miner = ensure_miner(&mut tx, key, Approval::Pending, now_ms).await?;
        // An operator's suspension is an operator's to end.
        let sql = "UPDATE miners SET status = 'approved' WHERE id = $1 AND status = 'pending'";
        sqlx::query(sql).bind(&miner).execute(&mut *tx).await?;
        let sql = "UPDATE tokens SET used_ms = $2, used_by = $3 WHERE hash = $1";
        sqlx::query(sql).bind(hash).bind(now_ms).bind(&miner).execute(&mut *tx).await?;
        let changes = token.labels.iter().map(|(name, value)| (name.clone(), Some(value.clone()))).collect();
        // An operator gave these: an approval does not fail for their number.
        self.change_labels(&mut tx, &miner, &changes).await?;
        let actor = Actor { name: token.created_by.clone(), uid: None };
        note_action(&mut tx, &actor, "redeem", Some(&miner), &format!("token {}", &hash[..16])).await?;
        tx.commit().await?;
        Ok(Ok(token.labels))
    }

    /// Removes the tokens that let nobody in and expired thirty days ago. One that was used stays: its miner may show it
    /// again.
    ///
    /// # Errors
    /// The store cannot be written.
    pub async fn remove_expired_tokens(&self, now_ms: i64) -> Result<()> {
        let sql = "DELETE FROM tokens WHERE used_by IS NULL AND expires_ms < $1";
        self.execute("remove join tokens", sqlx::query(sql).bind(now_ms - ENDED_KEPT_MS)).await.map(drop)
    }

    /// The tokens that were given out, newest first; with a cursor the page after it.
    pub async fn tokens(&self, before: Option<&TokenCursor>, limit: u32) -> Result<Vec<TokenRecord>> {
        let sql = "SELECT * FROM tokens WHERE created_ms < $1 OR (created_ms = $1 AND hash < $2) \
             ORDER BY created_ms DESC, hash DESC LIMIT $3";
        let (created_ms, hash) = before.map_or((i64::MAX, ""), |cursor| (cursor.created_ms, &cursor.hash));
        let query = sqlx::query(sql).bind(created_ms).bind(hash).bind(i64::from(limit.min(MAX_ROWS)));
        self.list("list join tokens", query, token_of).await
    }
}

/// Why a token does not let a key in, which may be known as a miner's.
fn refusal(token: &TokenRecord, known: Option<&(String, Approval)>, now_ms: i64) -> Option<TokenRefusal> {
    match (&token.used_by, known) {
        (_, Some((_, Approval::Revoked))) => Some(TokenRefusal::Revoked),
        (Some(user), Some((miner, _))) if user == miner => None,
        (Some(_), _) => Some(TokenRefusal::Used),
        (None, _) if token.expires_ms <= now_ms => Some(TokenRefusal::Expired),
        (None, _) => None,
    }
}

fn token_of(row: &sqlx::any::AnyRow) -> Result<TokenRecord> {
    Ok(read!(row => TokenRecord {
        hash, created_ms, created_by, expires_ms, used_ms, used_by;
        labels: json(&get::<String>(row, "labels")?, "labels")?,
    }))
}
