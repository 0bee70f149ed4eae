//! The queue of replays: validators submit jobs, replay workers take them.
//!
//! A job is taken by one worker at a time, under a lease. A worker that is lost loses its job to another one; after
//! [`MAX_JOB_ATTEMPTS`] the job has failed, since it may be the cause of the losses.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sqlx::any::AnyRow;

use crate::column::ttl_ms;
use crate::column::{get, read};
use crate::document::json;
use crate::schema::{SCHEMA_VERSION, check_schema};
use crate::{Records, RecordsError, Result, id};

/// The largest job: far more than the roots and inputs of the largest challenge.
pub const MAX_JOB_BYTES: usize = 16 << 20;
/// How often a job is given to workers.
pub const MAX_JOB_ATTEMPTS: i64 = 3;

#[derive(Debug, Clone)]
pub struct JobRequest<'a> {
    /// The challenge that it belongs to.
    pub challenge: &'a str,
    /// Who submits it: the run of a validator's process.
    pub submitted_by: &'a str,
    /// Memory that the largest share needs on one device, in bytes.
    pub needs_bytes: i64,
    /// The submitter's limit of waiting.
    pub ttl: Duration,
    /// The job's document, at most [`MAX_JOB_BYTES`].
    pub document: &'a [u8],
}

/// A job that a worker has taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    pub id: String,
    /// The challenge that it belongs to.
    pub challenge: String,
    /// Which attempt it is, from 1 on.
    pub attempt: i64,
    /// The end of the submitter's wait, in ms since 1970 by the database's clock.
    pub expires_ms: i64,
    /// The job's document.
    pub document: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum JobState {
    /// It waits for a worker.
    Waiting {
        /// How many are before it.
        ahead: i64,
    },
    Running {
        worker: String,
    },
    Done {
        result: String,
    },
    Failed {
        why: String,
    },
}

/// A worker that lives.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct WorkerRecord {
    pub id: String,
    pub address: String,
    /// Its claims about its capacity, as JSON.
    pub capacity: Box<RawValue>,
    /// When it was heard of last.
    pub heartbeat_ms: i64,
}

impl Records {
    /// Puts a job into the queue, and gives its id.
    ///
    /// # Errors
    /// The job is too large, or the store cannot be written.
    pub async fn submit(&self, request: &JobRequest<'_>) -> Result<String> {
        let len = request.document.len();
        if len > MAX_JOB_BYTES {
            return Err(RecordsError::TooLarge { what: "a replay job", len, max: MAX_JOB_BYTES });
        }
        let now = self.store.kind.now();
        let sql = sql!(
            "INSERT INTO jobs (id, challenge, submitted_by, submitted_ms, expires_ms, needs_bytes, state, attempts, \
             document) VALUES ($1, $2, $3, {now}, {now} + $4, $5, 'waiting', 0, $6)"
        );
        transaction!(self, "submit a replay", |tx| {
            let id = id::new(id::now_ms())?;
            let insert = sqlx::query(sql).bind(&id).bind(request.challenge).bind(request.submitted_by);
            let insert = insert.bind(ttl_ms(request.ttl)).bind(request.needs_bytes).bind(request.document);
            insert.execute(&mut *tx).await?;
            id
        })
    }

    /// Takes the oldest job that fits a worker's memory, for a time: it must be renewed before that is over. Several
    /// workers that ask at once get different jobs.
    pub async fn take(&self, worker: &str, memory_bytes: i64, ttl: Duration) -> Result<Option<Job>> {
        let now = self.store.kind.now();
        let select = sql!(
            "SELECT id FROM jobs WHERE needs_bytes <= $1 AND expires_ms > {now} AND attempts < {MAX_JOB_ATTEMPTS} \
             AND (state = 'waiting' OR (state = 'running' AND lease_ms <= {now})) \
             ORDER BY submitted_ms, id LIMIT 1 {}",
            self.store.kind.skip_locked()
        );
        let update = sql!(
            "UPDATE jobs SET state = 'running', worker = $2, lease_ms = {now} + $3, attempts = attempts + 1 \
             WHERE id = $1 RETURNING id, challenge, attempts, expires_ms, document"
        );
        transaction!(self, "take a replay", |tx| {
            let id: Option<String> = sqlx::query_scalar(select).bind(memory_bytes).fetch_optional(&mut *tx).await?;
            let Some(id) = id else { return Ok(None) };
            let row = sqlx::query(update).bind(id).bind(worker).bind(ttl_ms(ttl)).fetch_one(&mut *tx).await?;
            Some(job_of(&row)?)
        })
    }

    /// Prolongs a worker's hold on a job. False when the worker lost the job, or the job was given up.
    pub async fn renew_job(&self, id: &str, worker: &str, ttl: Duration) -> Result<bool> {
        let now = self.store.kind.now();
        let sql = sql!(
            "UPDATE jobs SET lease_ms = {now} + $3 WHERE id = $1 AND worker = $2 AND state = 'running' \
             AND expires_ms > {now}"
        );
        self.execute("renew a replay", sqlx::query(sql).bind(id).bind(worker).bind(ttl_ms(ttl))).await
    }

    /// Ends a job with the worker's result, as JSON. False when it had lost the job: its result does not count.
    ///
    /// # Errors
    /// The result is too large, or the store cannot be written.
    pub async fn finish(&self, id: &str, worker: &str, result: &str) -> Result<bool> {
        if result.len() > MAX_JOB_BYTES {
            return Err(RecordsError::TooLarge { what: "a replay's result", len: result.len(), max: MAX_JOB_BYTES });
        }
        self.end_job("end a replay", id, worker, "done", result).await
    }

    /// Gives a job back that a worker cannot do: another one may. False when it had lost the job.
    pub async fn hand_back(&self, id: &str, worker: &str, why: &str) -> Result<bool> {
        self.end_job("hand a replay back", id, worker, "waiting", why).await
    }

    async fn end_job(&self, doing: &'static str, id: &str, worker: &str, state: &str, result: &str) -> Result<bool> {
        let now = self.store.kind.now();
        let sql = sql!(
            "UPDATE jobs SET state = $3, result = $4, lease_ms = NULL, ended_ms = {now} \
             WHERE id = $1 AND worker = $2 AND state = 'running'"
        );
        self.execute(doing, sqlx::query(sql).bind(id).bind(worker).bind(state).bind(result)).await
    }

    /// The state of a job; `None` when no job has this id any more.
    pub async fn job(&self, id: &str) -> Result<Option<JobState>> {
        let now = self.store.kind.now();
        let sql = sql!(
            "SELECT j.state, j.worker, j.result, j.attempts, CASE WHEN j.expires_ms <= {now} THEN 1 ELSE 0 END AS late, \
             CASE WHEN j.lease_ms <= {now} THEN 1 ELSE 0 END AS lost, (SELECT COUNT(*) FROM jobs o \
             WHERE o.state = 'waiting' AND o.expires_ms > {now} AND (o.submitted_ms < j.submitted_ms \
             OR (o.submitted_ms = j.submitted_ms AND o.id < j.id))) AS ahead FROM jobs j WHERE j.id = $1"
        );
        self.find_row("look at a replay", sqlx::query(sql).bind(id), state_of).await
    }

    /// Takes a job out of the queue: its submitter has given it up. Its worker learns that when it renews.
    pub async fn remove_job(&self, id: &str) -> Result<()> {
        self.execute("remove a replay", sqlx::query("DELETE FROM jobs WHERE id = $1").bind(id)).await.map(drop)
    }

    /// Takes all jobs of a challenge out of the queue, as for a validator that was lost.
    pub async fn remove_jobs_of(&self, challenge: &str) -> Result<()> {
        self.execute("remove replays", sqlx::query("DELETE FROM jobs WHERE challenge = $1").bind(challenge))
            .await
            .map(drop)
    }

    /// Removes jobs whose submitters' time is over, and workers that are long gone.
    pub async fn sweep_queue(&self, kept: Duration) -> Result<u64> {
        let now = self.store.kind.now();
        transaction!(self, "sweep the queue of replays", |tx| {
            let sql = sql!("DELETE FROM jobs WHERE expires_ms <= {now} - $1");
            let swept = sqlx::query(sql).bind(ttl_ms(kept)).execute(&mut *tx).await?;
            let sql = sql!("DELETE FROM workers WHERE expires_ms <= {now} - $1");
            sqlx::query(sql).bind(ttl_ms(kept)).execute(&mut *tx).await?;
            swept.rows_affected()
        })
    }

    /// Notes that a worker lives, for a time, and its capacity, as JSON.
    ///
    /// # Errors
    /// [`RecordsError::Newer`] once a newer release has migrated the store beyond this program.
    pub async fn worker_heartbeat(&self, worker: &str, address: &str, capacity: &str, ttl: Duration) -> Result<()> {
        let now = self.store.kind.now();
        let sql = sql!(
            "INSERT INTO workers (id, address, capacity, heartbeat_ms, expires_ms, schema_version) \
             VALUES ($1, $2, $3, {now}, {now} + $4, {SCHEMA_VERSION}) ON CONFLICT (id) DO UPDATE SET address = $2, \
             capacity = $3, heartbeat_ms = {now}, expires_ms = {now} + $4, schema_version = {SCHEMA_VERSION}"
        );
        check_schema(self.read(), self.location()).await?;
        let beat = sqlx::query(sql).bind(worker).bind(address).bind(capacity).bind(ttl_ms(ttl));
        self.execute("note a worker's heartbeat", beat).await.map(drop)
    }

    pub async fn workers(&self) -> Result<Vec<WorkerRecord>> {
        let sql = sql!("SELECT * FROM workers WHERE expires_ms > {} ORDER BY id", self.store.kind.now());
        self.list("list workers", sqlx::query(sql), worker_of).await
    }
}

fn worker_of(row: &AnyRow) -> Result<WorkerRecord> {
    let capacity = json(&get::<String>(row, "capacity")?, "capacity")?;
    Ok(read!(row => WorkerRecord { id, address, heartbeat_ms; capacity }))
}

fn job_of(row: &AnyRow) -> Result<Job> {
    Ok(read!(row => Job { id, challenge, expires_ms, document; attempt: get(row, "attempts")? }))
}

fn state_of(row: &AnyRow) -> Result<JobState> {
    let (state, result): (String, Option<String>) = (get(row, "state")?, get(row, "result")?);
    let (attempts, is_late): (i64, bool) = (get(row, "attempts")?, get::<i64>(row, "late")? == 1);
    let worker: Option<String> = get(row, "worker")?;
    let is_free = state == "waiting" || get::<i64>(row, "lost")? == 1;
    Ok(match state.as_str() {
        "done" => JobState::Done { result: result.unwrap_or_default() },
        _ if is_late => JobState::Failed { why: "nobody finished it in time".to_owned() },
        _ if is_free && attempts >= MAX_JOB_ATTEMPTS => {
            let last = result.unwrap_or_else(|| "the last worker was lost".to_owned());
            JobState::Failed { why: format!("{attempts} workers took it, and none finished it: {last}") }
        }
        _ if is_free => JobState::Waiting { ahead: get(row, "ahead")? },
        _ => JobState::Running { worker: worker.unwrap_or_default() },
    })
}
