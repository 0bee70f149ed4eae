//! The validators that share a store: who lives, by the database's clock.

use std::time::Duration;

use assay_program::clock;
use serde::{Deserialize, Serialize};

use crate::column::{get, read, ttl_ms};
use crate::schema::{SCHEMA_VERSION, check_schema};
use crate::sessions::{LOST, tell_left};
use crate::{Records, RecordsError, Result, id};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ValidatorRecord {
    pub key: String,
    /// Which run of its process.
    pub instance: String,
    /// The address at which miners reach it.
    pub address: String,
    /// The start of this run, in ms since 1970.
    pub started_ms: i64,
    /// When it was heard of last.
    pub heartbeat_ms: i64,
    /// Whether it counts as alive.
    pub is_alive: bool,
}

/// The condition that the process of the validator `v` counts as alive. Its end lies further ahead than twice the time of
/// a heartbeat where the database's clock has gone back since.
pub(crate) fn is_alive(now: &str) -> String {
    format!("v.expires_ms > {now} AND v.expires_ms - {now} <= 2 * (v.expires_ms - v.heartbeat_ms)")
}

impl Records {
    /// Says that a run of a validator's process lives, for a time. Where another run of the same key lives, the newer
    /// one counts: challenges of the older one are orphans from then on.
    ///
    /// # Errors
    /// [`RecordsError::Newer`] once a newer release has migrated the store beyond this program.
    pub async fn heartbeat(&self, key: &str, instance: &str, address: &str, ttl: Duration) -> Result<()> {
        let now = self.store.kind.now();
        let sql = sql!(
            "INSERT INTO validators (key, instance, address, started_ms, heartbeat_ms, expires_ms, schema_version) \
             VALUES ($1, $2, $3, {now}, {now}, {now} + $4, {SCHEMA_VERSION}) ON CONFLICT (key) DO UPDATE SET instance = $2, \
             address = $3, schema_version = {SCHEMA_VERSION}, started_ms = CASE WHEN validators.instance = $2 THEN validators.started_ms ELSE {now} END, \
             heartbeat_ms = {now}, expires_ms = {now} + $4 RETURNING heartbeat_ms"
        );
        check_schema(self.read(), self.location()).await?;
        let beat = sqlx::query_scalar(sql).bind(key).bind(instance).bind(address).bind(ttl_ms(ttl));
        let database_ms =
            transaction!(self, "note the validator's heartbeat", |tx| { beat.fetch_one(&mut *tx).await? })?;
        self.store.beats.note(clock::now(), database_ms, ttl);
        Ok(())
    }

    /// Whether a validator whose heartbeat has expired is lost: not so in the time after an outage of the database, in
    /// which none could be sent, or a step of its clock. This process' heartbeats tell, which have gone on for as long as
    /// one counts.
    pub fn is_steady(&self) -> bool {
        !self.is_shared() || self.store.beats.are_steady(clock::now())
    }

    /// Says that a run of a validator ends: its leases end, its sessions too.
    pub async fn retire(&self, key: &str, instance: &str) -> Result<()> {
        let now = self.store.kind.now();
        transaction!(self, "note the validator's end", |tx| {
            let sql = sql!("UPDATE validators SET expires_ms = {now} WHERE key = $1 AND instance = $2");
            sqlx::query(sql).bind(key).bind(instance).execute(&mut *tx).await?;
            let sql = sql!(
                "UPDATE sessions SET disconnected_ms = {now}, why = 'the validator ended' \
                 WHERE validator = $1 AND instance = $2 AND disconnected_ms IS NULL RETURNING *"
            );
            let ended = sqlx::query(sql).bind(key).bind(instance).fetch_all(&mut *tx).await?;
            ended.iter().try_for_each(|row| tell_left(&mut tx, row))?;
            sqlx::query("DELETE FROM leases WHERE holder = $1").bind(instance).execute(&mut *tx).await?;
        })
    }

    /// Ends the sessions whose validator's process lives no more, and gives how many there were.
    pub async fn end_lost_sessions(&self) -> Result<u64> {
        let now = self.store.kind.now();
        let sql = sql!(
            "UPDATE sessions SET disconnected_ms = {now}, why = '{LOST}' \
             WHERE disconnected_ms IS NULL AND NOT EXISTS (SELECT 1 FROM validators v WHERE v.key = sessions.validator \
             AND v.instance = sessions.instance AND {}) RETURNING *",
            is_alive(&now)
        );
        transaction!(self, "end sessions of lost validators", |tx| {
            let ended = sqlx::query(sql).fetch_all(&mut *tx).await?;
            ended.iter().try_for_each(|row| tell_left(&mut tx, row))?;
            ended.len() as u64
        })
    }

    /// Every validator that was ever heard of.
    pub async fn validators(&self) -> Result<Vec<ValidatorRecord>> {
        let sql = sql!(
            "SELECT v.*, CASE WHEN {} THEN 1 ELSE 0 END AS is_alive FROM validators v ORDER BY v.key",
            is_alive(&self.store.kind.now())
        );
        self.list("list validators", sqlx::query(sql), |row| {
            let is_alive = get::<i64>(row, "is_alive")? == 1;
            Ok(read!(row => ValidatorRecord { key, instance, address, started_ms, heartbeat_ms; is_alive }))
        })
        .await
    }

    /// The validators whose heartbeat has ended.
    pub async fn lost(&self) -> Result<Vec<ValidatorRecord>> {
        let all = self.validators().await?;
        Ok(all.into_iter().filter(|validator| !validator.is_alive).collect())
    }

    /// A new name for a run of a validator's process.
    ///
    /// # Errors
    /// The system gives no random bytes.
    pub fn new_instance() -> Result<String> {
        id::new(id::now_ms())
    }

    /// The database's time, in milliseconds since 1970.
    pub async fn now_ms(&self) -> Result<i64> {
        let sql = sql!("SELECT {}", self.store.kind.now());
        let now = sqlx::query_scalar(sql).fetch_one(self.read()).await;
        now.map_err(|e| RecordsError::from(e).doing("ask for the time"))
    }
}
