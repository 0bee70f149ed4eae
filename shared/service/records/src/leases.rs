//! Leases: who of several validators drives a miner. They end by themselves, by the database's clock. Where that clock
//! has gone back, an end lies further ahead than a lease can last: beyond twice its time, it is over too.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::column::read;
use crate::column::ttl_ms;
use crate::{Records, Result};

/// A lease that has not ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// The subject that is held.
    pub subject: String,
    /// Who holds it: the run of a validator's process.
    pub holder: String,
    /// The beginning, in ms since 1970.
    pub since_ms: i64,
    /// Until when, unless it is renewed.
    pub expires_ms: i64,
}

impl Records {
    /// Takes a lease that is free or whose time is over; or prolongs one's own. False while another holds it.
    pub async fn lease(&self, subject: &str, holder: &str, ttl: Duration) -> Result<bool> {
        let now = self.store.kind.now();
        let sql = sql!(
            "INSERT INTO leases (subject, holder, since_ms, expires_ms) VALUES ($1, $2, {now}, {now} + $3) \
             ON CONFLICT (subject) DO UPDATE SET since_ms = CASE WHEN leases.holder = $2 AND leases.expires_ms > {now} \
             THEN leases.since_ms ELSE {now} END, holder = $2, expires_ms = {now} + $3 \
             WHERE leases.holder = $2 OR leases.expires_ms <= {now} OR leases.expires_ms > {now} + 2 * $3"
        );
        self.execute("take a lease", sqlx::query(sql).bind(subject).bind(holder).bind(ttl_ms(ttl))).await
    }

    /// Prolongs a lease that is still held. False when it ended or is another's: the work under it must stop.
    pub async fn renew(&self, subject: &str, holder: &str, ttl: Duration) -> Result<bool> {
        let now = self.store.kind.now();
        let sql =
            sql!("UPDATE leases SET expires_ms = {now} + $3 WHERE subject = $1 AND holder = $2 AND expires_ms > {now}");
        self.execute("renew a lease", sqlx::query(sql).bind(subject).bind(holder).bind(ttl_ms(ttl))).await
    }

    /// Prolongs all leases of a holder on subjects that begin so, if they have not ended, and gives the subjects: a lease
    /// that is not among them was lost.
    pub async fn renew_all(&self, subjects: &str, holder: &str, ttl: Duration) -> Result<Vec<String>> {
        let now = self.store.kind.now();
        let sql = sql!(
            "UPDATE leases SET expires_ms = {now} + $2 WHERE holder = $1 AND expires_ms > {now} AND subject LIKE $3 \
             RETURNING subject"
        );
        transaction!(self, "renew leases", |tx| {
            let renew = sqlx::query_scalar(sql).bind(holder).bind(ttl_ms(ttl)).bind(format!("{subjects}%"));
            renew.fetch_all(&mut *tx).await?
        })
    }

    pub async fn release(&self, subject: &str, holder: &str) -> Result<()> {
        let delete = sqlx::query("DELETE FROM leases WHERE subject = $1 AND holder = $2").bind(subject).bind(holder);
        self.execute("release a lease", delete).await.map(drop)
    }

    /// The leases of this time that have not ended, of one holder or of all.
    pub async fn leases(&self, holder: Option<&str>, ttl: Duration) -> Result<Vec<Lease>> {
        let now = self.store.kind.now();
        let sql = sql!(
            "SELECT * FROM leases WHERE expires_ms > {now} AND expires_ms <= {now} + 2 * $2 \
             AND ($1 = '' OR holder = $1) ORDER BY subject"
        );
        self.list("list leases", sqlx::query(sql).bind(holder.unwrap_or("")).bind(ttl_ms(ttl)), |row| {
            Ok(read!(row => Lease { subject, holder, since_ms, expires_ms }))
        })
        .await
    }
}
