//! Attestation states of miners, their changes, and findings.

use sqlx::any::AnyRow;

use crate::column::{get, read};
use crate::keys::{ensure_miner, known_miner};
use crate::tx::Tx;
use crate::{
    Approval, EventDocument, FindingRecord, MAX_ROWS, NotedFinding, NotedTransition, Records, RecordsError, Result,
    StandingChange, Transition, id,
};

impl Records {
    /// Changes the basis of a miner's attestation without a verdict, because of time or a finding.
    ///
    /// # Errors
    /// [`RecordsError::StandingChanged`], or the store cannot be written.
    pub async fn change_standing(&self, miner: &str, change: &StandingChange) -> Result<()> {
        transaction!(self, "change an attestation state", |tx| {
            let miner = known_miner(&mut tx, miner).await?;
            change_standing(&mut tx, &miner, change).await?;
        })
    }

    /// Notes findings without a verdict, but none that was noted within `again_ms`. Gives for each whether it is new.
    pub async fn note_new_findings(&self, findings: &[FindingRecord], again_ms: i64, at_ms: i64) -> Result<Vec<bool>> {
        if findings.is_empty() {
            return Ok(Vec::new());
        }
        let sql = "SELECT COUNT(*) FROM findings WHERE miner = (SELECT k.miner FROM miner_keys k WHERE k.key = $1) \
             AND at_ms > $2 AND code = $3 AND enforced = $4 AND COALESCE(device_id, '') = $5 \
             AND COALESCE(other_miner, '') = COALESCE((SELECT o.miner FROM miner_keys o WHERE o.key = $6), '')";
        transaction!(self, "note findings", |tx| {
            let mut are_new = Vec::new();
            for finding in findings {
                let FindingRecord { code, miner, other_miner, device_id, enforced, .. } = finding;
                let known = sqlx::query_scalar(sql).bind(miner).bind(at_ms - again_ms).bind(code);
                let known = known.bind(i64::from(*enforced)).bind(device_id.as_deref().unwrap_or(""));
                let known: i64 = known.bind(other_miner.as_deref().unwrap_or("")).fetch_one(&mut *tx).await?;
                if known == 0 {
                    insert_finding(&mut tx, finding, None, at_ms).await?;
                }
                are_new.push(known == 0);
            }
            are_new
        })
    }

    /// Findings, newest first, at most `limit` and [`MAX_ROWS`]: those about a miner, by any of its keys, or all.
    pub async fn findings(&self, miner: Option<&str>, limit: u32) -> Result<Vec<NotedFinding>> {
        // Only the conditions in use are in the statement: then the database can choose an index by them.
        let of_miner = match miner {
            Some(_) => "miner = (SELECT k.miner FROM miner_keys k WHERE k.key = $1)",
            None => "$1 = ''",
        };
        let sql = sql!("SELECT * FROM findings WHERE {of_miner} ORDER BY at_ms DESC, id DESC LIMIT $2");
        let query = sqlx::query(sql).bind(miner.unwrap_or("")).bind(i64::from(limit.min(MAX_ROWS)));
        self.list("list findings", query, finding_of).await
    }
}

/// Changes it in a transaction, which must not be committed after an error.
pub(crate) async fn change_standing(tx: &mut Tx, miner: &str, change: &StandingChange) -> Result<()> {
    let StandingChange { before, after, transition } = change;
    let sql = "UPDATE miners SET state = COALESCE($2, state), standing = $3 \
         WHERE id = $1 AND COALESCE(standing, '') = COALESCE($4, standing, '')";
    let update = sqlx::query(sql).bind(miner).bind(transition.as_ref().map(|transition| transition.to.clone()));
    let updated = update.bind(after).bind(before.clone()).execute(&mut **tx).await?;
    if updated.rows_affected() == 0 {
        return Err(RecordsError::StandingChanged(miner.to_owned()));
    }
    match transition {
        Some(transition) => insert_transition(tx, miner, transition, None).await,
        None => Ok(()),
    }
}

pub(crate) async fn insert_transition(
    tx: &mut Tx,
    miner: &str,
    transition: &Transition,
    challenge: Option<&str>,
) -> Result<()> {
    let Transition { miner: _, at_ms, from, to, why, detail } = transition;
    let sql = "INSERT INTO transitions (id, miner, at_ms, from_state, to_state, why, detail, challenge) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
    let insert = sqlx::query(sql).bind(id::new(*at_ms)?).bind(miner).bind(*at_ms).bind(from).bind(to).bind(why);
    insert.bind(detail).bind(challenge).execute(&mut **tx).await?;
    let told = Transition { miner: miner.to_owned(), ..transition.clone() };
    tx.tell(*at_ms, Some(miner), challenge, EventDocument::State(told));
    Ok(())
}

pub(crate) async fn insert_finding(
    tx: &mut Tx,
    finding: &FindingRecord,
    challenge: Option<&str>,
    at_ms: i64,
) -> Result<()> {
    let FindingRecord { code, miner, other_miner, device_id, detail, enforced } = finding;
    let miner = ensure_miner(tx, miner, Approval::Pending, at_ms).await?;
    let other = match other_miner {
        Some(other) => Some(ensure_miner(tx, other, Approval::Pending, at_ms).await?),
        None => None,
    };
    let sql = "INSERT INTO findings (id, miner, at_ms, code, other_miner, device_id, detail, enforced, challenge) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
    let insert = sqlx::query(sql).bind(id::new(at_ms)?).bind(&miner).bind(at_ms).bind(code).bind(other.clone());
    let insert = insert.bind(device_id.clone()).bind(detail).bind(i64::from(*enforced)).bind(challenge);
    insert.execute(&mut **tx).await?;
    let told = FindingRecord { miner: miner.clone(), other_miner: other, ..finding.clone() };
    tx.tell(at_ms, Some(&miner), challenge, EventDocument::Finding(told));
    Ok(())
}

pub(crate) fn transition_of(row: &AnyRow) -> Result<NotedTransition> {
    let transition = read!(row => Transition {
        miner, at_ms, why, detail;
        from: get(row, "from_state")?,
        to: get(row, "to_state")?,
    });
    Ok(NotedTransition { id: get(row, "id")?, challenge: get(row, "challenge")?, transition })
}

pub(crate) fn finding_of(row: &AnyRow) -> Result<NotedFinding> {
    let finding = read!(row => FindingRecord {
        code, miner, other_miner, device_id, detail;
        enforced: get::<i64>(row, "enforced")? == 1,
    });
    Ok(read!(row => NotedFinding { id, at_ms, challenge; finding }))
}
