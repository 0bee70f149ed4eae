//! Attestation states of miners, their changes, and findings.

use serde::{Deserialize, Serialize};
use sqlx::any::AnyRow;

use crate::column::get;
use crate::keys::{ensure_miner, known_miner};
use crate::tx::Tx;
use crate::{FindingRecord, MAX_ROWS, Records, RecordsError, Status, Told, Transition, id};

/// Which findings; what is empty leaves none out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FindingFilter {
    /// Any key of the miner.
    pub miner: Option<String>,
    /// The code.
    pub code: Option<String>,
    /// Not before this time.
    pub since_ms: Option<i64>,
    /// At most so many, and at most [`MAX_ROWS`].
    pub limit: Option<u32>,
}

/// A finding as it was noted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct NotedFinding {
    /// Its id.
    pub id: String,
    /// When.
    pub at_ms: i64,
    /// The challenge with which it was noted.
    pub challenge: Option<String>,
    /// The finding.
    #[serde(flatten)]
    pub finding: FindingRecord,
}

/// A change of a state as it was noted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct NotedTransition {
    /// Its id.
    pub id: String,
    /// The challenge with which it came.
    pub challenge: Option<String>,
    /// The change.
    #[serde(flatten)]
    pub transition: Transition,
}

impl Records {
    /// Sets a miner's attestation state without a verdict, as time or an operator does, and what it rests on.
    ///
    /// # Errors
    /// The store cannot be written.
    pub async fn transition(&self, transition: &Transition, standing: Option<&str>) -> Result<(), RecordsError> {
        self.write("change an attestation state", async {
            let mut tx = self.begin().await?;
            let miner = known_miner(&mut tx, &transition.miner).await?;
            insert_transition(&mut tx, &miner, transition, None).await?;
            let sql = "UPDATE miners SET state = $2, standing = COALESCE($3, standing) WHERE id = $1";
            let update = sqlx::query(sql).bind(&miner).bind(&transition.to).bind(standing.map(str::to_owned));
            update.execute(&mut *tx).await?;
            tx.commit().await
        })
        .await
    }

    /// Sets what a miner's attestation state rests on; the state stays.
    ///
    /// # Errors
    /// The store cannot be written.
    pub async fn set_standing(&self, miner: &str, standing: &str) -> Result<(), RecordsError> {
        self.write("note an attestation state", async {
            let mut tx = self.begin().await?;
            let miner = known_miner(&mut tx, miner).await?;
            let update = sqlx::query("UPDATE miners SET standing = $2 WHERE id = $1").bind(&miner).bind(standing);
            update.execute(&mut *tx).await?;
            tx.commit().await
        })
        .await
    }

    /// The changes of a miner's attestation state, newest first.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn transitions(&self, miner: &str, limit: u32) -> Result<Vec<NotedTransition>, RecordsError> {
        let sql = "SELECT * FROM transitions WHERE miner = (SELECT k.miner FROM miner_keys k WHERE k.key = $1) \
             ORDER BY at_ms DESC, id DESC LIMIT $2";
        let rows = sqlx::query(sql).bind(miner).bind(i64::from(limit.min(MAX_ROWS))).fetch_all(self.read()).await;
        let rows = rows.map_err(|e| RecordsError::from(e).doing("list changes of state"))?;
        rows.iter().map(transition_of).collect()
    }

    /// Notes findings without a verdict.
    ///
    /// # Errors
    /// The store cannot be written.
    pub async fn note_findings(&self, findings: &[FindingRecord], at_ms: i64) -> Result<(), RecordsError> {
        self.write("note findings", async {
            let mut tx = self.begin().await?;
            for finding in findings {
                insert_finding(&mut tx, finding, None, at_ms).await?;
            }
            tx.commit().await
        })
        .await
    }

    /// Findings, newest first.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn findings(&self, filter: &FindingFilter) -> Result<Vec<NotedFinding>, RecordsError> {
        let sql = "SELECT * FROM findings WHERE ($1 = '' OR miner = (SELECT k.miner FROM miner_keys k WHERE k.key = $1)) \
             AND ($2 = '' OR code = $2) AND at_ms >= $3 ORDER BY at_ms DESC, id DESC LIMIT $4";
        let query = sqlx::query(sql)
            .bind(filter.miner.as_deref().unwrap_or(""))
            .bind(filter.code.as_deref().unwrap_or(""))
            .bind(filter.since_ms.unwrap_or(0))
            .bind(i64::from(filter.limit.unwrap_or(MAX_ROWS).min(MAX_ROWS)));
        let rows = query.fetch_all(self.read()).await.map_err(|e| RecordsError::from(e).doing("list findings"))?;
        rows.iter().map(finding_of).collect()
    }
}

pub(crate) async fn insert_transition(
    tx: &mut Tx,
    miner: &str,
    transition: &Transition,
    challenge: Option<&str>,
) -> Result<(), RecordsError> {
    let Transition { miner: _, at_ms, from, to, why, detail } = transition;
    let sql = "INSERT INTO transitions (id, miner, at_ms, from_state, to_state, why, detail, challenge) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
    let insert = sqlx::query(sql).bind(id::new(*at_ms)?).bind(miner).bind(*at_ms).bind(from).bind(to).bind(why);
    insert.bind(detail).bind(challenge).execute(&mut **tx).await?;
    let told = Transition { miner: miner.to_owned(), ..transition.clone() };
    tx.tell(*at_ms, Some(miner), challenge, Told::State(told));
    Ok(())
}

pub(crate) async fn insert_finding(
    tx: &mut Tx,
    finding: &FindingRecord,
    challenge: Option<&str>,
    at_ms: i64,
) -> Result<(), RecordsError> {
    let FindingRecord { code, miner, other_miner, device_id, detail, enforced } = finding;
    let miner = ensure_miner(tx, miner, Status::Pending, at_ms).await?;
    let other = match other_miner {
        Some(other) => Some(ensure_miner(tx, other, Status::Pending, at_ms).await?),
        None => None,
    };
    let sql = "INSERT INTO findings (id, miner, at_ms, code, other_miner, device_id, detail, enforced, challenge) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
    let insert = sqlx::query(sql).bind(id::new(at_ms)?).bind(&miner).bind(at_ms).bind(code).bind(other.clone());
    let insert = insert.bind(device_id.clone()).bind(detail).bind(i64::from(*enforced)).bind(challenge);
    insert.execute(&mut **tx).await?;
    let told = FindingRecord { miner: miner.clone(), other_miner: other, ..finding.clone() };
    tx.tell(at_ms, Some(&miner), challenge, Told::Finding(told));
    Ok(())
}

pub(crate) fn transition_of(row: &AnyRow) -> Result<NotedTransition, RecordsError> {
    let transition = Transition {
        miner: get(row, "miner")?,
        at_ms: get(row, "at_ms")?,
        from: get(row, "from_state")?,
        to: get(row, "to_state")?,
        why: get(row, "why")?,
        detail: get(row, "detail")?,
    };
    Ok(NotedTransition { id: get(row, "id")?, challenge: get(row, "challenge")?, transition })
}

pub(crate) fn finding_of(row: &AnyRow) -> Result<NotedFinding, RecordsError> {
    let finding = FindingRecord {
        code: get(row, "code")?,
        miner: get(row, "miner")?,
        other_miner: get(row, "other_miner")?,
        device_id: get(row, "device_id")?,
        detail: get(row, "detail")?,
        enforced: get::<i64>(row, "enforced")? == 1,
    };
    Ok(NotedFinding { id: get(row, "id")?, at_ms: get(row, "at_ms")?, challenge: get(row, "challenge")?, finding })
}
