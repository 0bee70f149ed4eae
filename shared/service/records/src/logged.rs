//! The verdicts that are in their validator's log, and those that are not yet.

use crate::column::{get, read};
use crate::{MAX_ROWS, Records, Result};

/// A verdict that is not in its validator's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnloggedVerdict {
    pub challenge: String,
    /// The verdict's JSON.
    pub document: String,
    /// The receipt's token.
    pub receipt: Option<String>,
}

impl Records {
    /// The first verdicts of a validator that are not in its log, in their order.
    pub async fn unlogged(&self, validator: &str, limit: u32) -> Result<Vec<UnloggedVerdict>> {
        let sql = "SELECT v.challenge, v.document, (SELECT r.token FROM receipts r WHERE r.challenge = v.challenge \
             ORDER BY r.issued_ms, r.id LIMIT 1) AS token FROM verdicts v \
             WHERE v.validator = $1 AND v.log_index IS NULL ORDER BY v.at_ms, v.challenge LIMIT $2";
        let query = sqlx::query(sql).bind(validator).bind(i64::from(limit.min(MAX_ROWS)));
        self.list("look for verdicts to log", query, |row| {
            Ok(read!(row => UnloggedVerdict { challenge, document; receipt: get(row, "token")? }))
        })
        .await
    }

    /// Number of entries that a validator's log has at least: the records have the index of the last one.
    pub async fn logged(&self, validator: &str) -> Result<u64> {
        let last =
            sqlx::query_scalar("SELECT MAX(log_index) FROM verdicts WHERE validator = $1 AND log_index IS NOT NULL");
        let last: Option<i64> = last.bind(validator).fetch_one(self.read()).await?;
        Ok(last.map_or(0, |last| last.unsigned_abs() + 1))
    }

    /// Notes that the verdicts of these challenges are in their validator's log, from this index on. One that has an index
    /// keeps it. Returns the number of challenges without a verdict here.
    pub async fn note_logged(&self, first: u64, challenges: &[String]) -> Result<u64> {
        transaction!(self, "note logged verdicts", |tx| {
            let mut unknown = 0;
            for (index, challenge) in (first..).zip(challenges) {
                let index = i64::try_from(index).unwrap_or(i64::MAX);
                let sql = "UPDATE verdicts SET log_index = $1 WHERE challenge = $2 AND log_index IS NULL";
                let noted = sqlx::query(sql).bind(index).bind(challenge.as_str()).execute(&mut *tx).await?;
                if noted.rows_affected() == 0 {
                    let known = sqlx::query_scalar("SELECT COUNT(*) FROM verdicts WHERE challenge = $1");
                    let known: i64 = known.bind(challenge.as_str()).fetch_one(&mut *tx).await?;
                    unknown += u64::from(known == 0);
                }
            }
            unknown
        })
    }

    /// The validator whose log has the verdict of a challenge, and its index there.
    pub async fn log_index(&self, challenge: &str) -> Result<Option<(String, u64)>> {
        let sql = "SELECT validator, log_index FROM verdicts WHERE challenge = $1 AND log_index IS NOT NULL";
        self.find_row("look up a logged verdict", sqlx::query(sql).bind(challenge), |row| {
            Ok((get(row, "validator")?, get::<i64>(row, "log_index")?.unsigned_abs()))
        })
        .await
    }
}
