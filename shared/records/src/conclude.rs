//! A verdict and all that becomes known with it, in one transaction.

use assay_protocol::verdict::{DeviceWork, Verdict};
use sqlx::query;

use crate::document::to_json;
use crate::miners::ensure_miner;
use crate::tx::Tx;
use crate::{Begun, Conclusion, RecordsError, Status, Told, VerdictTold, challenges, evidence, receipts, standing};

/// False where it was concluded so before.
pub(crate) async fn conclude(tx: &mut Tx, conclusion: &Conclusion) -> Result<bool, RecordsError> {
    let verdict = &conclusion.verdict;
    let at_ms = conclusion.at_ms;
    let challenge = verdict.challenge_id.to_string();
    let document = to_json(verdict, "verdict")?;
    let miner = ensure_miner(tx, &verdict.miner_key.to_string(), Status::Pending, at_ms).await?;
    challenges::insert(tx, &miner, &begun(conclusion, &challenge, at_ms)).await?;
    let row = Row { conclusion, challenge: &challenge, miner: &miner, at_ms };
    if !row.verdict(tx, &document).await? {
        let before: String = sqlx::query_scalar("SELECT document FROM verdicts WHERE challenge = $1")
            .bind(&challenge)
            .fetch_one(&mut **tx)
            .await?;
        return if before == document { Ok(false) } else { Err(RecordsError::ConcludedBefore { challenge }) };
    }
    tx.tell(at_ms, Some(&miner), Some(&challenge), Told::Verdict(row.told()));
    row.end(tx).await?;
    row.reasons(tx).await?;
    for device in &verdict.devices {
        row.device(tx, device).await?;
    }
    row.commitment(tx).await?;
    if let Some(kept) = &conclusion.evidence {
        evidence::insert(tx, &challenge, kept, at_ms).await?;
    }
    for finding in &conclusion.findings {
        standing::insert_finding(tx, finding, Some(&challenge), at_ms).await?;
    }
    if let Some(transition) = &conclusion.transition {
        standing::insert_transition(tx, &miner, transition, Some(&challenge)).await?;
    }
    if let Some(receipt) = &conclusion.receipt {
        receipts::insert(tx, &challenge, &miner, receipt).await?;
    }
    row.miner(tx).await?;
    Ok(true)
}

/// What a challenge that was not noted at its beginning is noted as.
fn begun(conclusion: &Conclusion, challenge: &str, at_ms: i64) -> Begun {
    Begun {
        challenge: challenge.to_owned(),
        miner: conclusion.verdict.miner_key.to_string(),
        validator: conclusion.verdict.validator_key.to_string(),
        instance: String::new(),
        session: conclusion.session.clone(),
        group: conclusion.group.clone(),
        kind: conclusion.kind.clone(),
        asked: conclusion.asked.clone(),
        round: conclusion.round.clone(),
        begun_ms: at_ms,
        device_ms: conclusion.device_ms,
    }
}

/// What the rows of a conclusion have in common.
struct Row<'a> {
    conclusion: &'a Conclusion,
    challenge: &'a str,
    miner: &'a str,
    at_ms: i64,
}

impl Row<'_> {
    /// The verdict in short.
    fn told(&self) -> VerdictTold {
        let Conclusion { verdict, group, kind, asked, round, transition, receipt, .. } = self.conclusion;
        let Verdict { outcome, reasons, mode, n, whole, .. } = verdict;
        VerdictTold {
            outcome: outcome.to_string(),
            codes: reasons.iter().map(|reason| reason.code.name().to_owned()).collect(),
            mode: mode.map(|mode| mode.name().to_owned()),
            key: verdict.miner_key.to_string(),
            validator: verdict.validator_key.to_string(),
            group: group.clone(),
            kind: kind.clone(),
            asked: asked.clone(),
            round: round.clone(),
            n: *n,
            devices: u32::try_from(verdict.devices.len()).unwrap_or(u32::MAX),
            tops: finite(whole.tops),
            bytes_held: integer(whole.bytes_held),
            gb_per_s: finite(whole.probe_gb_per_s),
            seconds: finite(whole.seconds),
            state: transition.as_ref().map(|transition| transition.to.clone()),
            receipt: receipt.as_ref().map(|receipt| receipt.id.clone()),
        }
    }

    fn operator(&self) -> &str {
        self.conclusion.operator.as_deref().unwrap_or("")
    }

    /// False where the challenge has a verdict.
    async fn verdict(&self, tx: &mut Tx, document: &str) -> Result<bool, RecordsError> {
        let verdict = &self.conclusion.verdict;
        let Verdict { outcome, mode, n, iterations, iterations_checked, whole, .. } = verdict;
        let sql = "INSERT INTO verdicts (challenge, miner, key, validator, at_ms, outcome, mode, n, iterations, \
             iterations_checked, bytes_held, tops, seconds, probe_gb_per_s, probe_seconds, operator, document) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17) \
             ON CONFLICT (challenge) DO NOTHING";
        let insert = query(sql)
            .bind(self.challenge)
            .bind(self.miner)
            .bind(verdict.miner_key.to_string())
            .bind(verdict.validator_key.to_string())
            .bind(self.at_ms)
            .bind(outcome.to_string())
            .bind(mode.map(|mode| mode.name()))
            .bind(i64::from(*n))
            .bind(i64::from(*iterations))
            .bind(i64::from(*iterations_checked))
            .bind(integer(whole.bytes_held))
            .bind(finite(whole.tops))
            .bind(finite(whole.seconds))
            .bind(finite(whole.probe_gb_per_s))
            .bind(finite(whole.probe_seconds))
            .bind(self.operator())
            .bind(document);
        Ok(insert.execute(&mut **tx).await?.rows_affected() > 0)
    }

    async fn end(&self, tx: &mut Tx) -> Result<(), RecordsError> {
        let ended_ms = crate::id::now_ms().max(self.at_ms);
        let end = query("UPDATE challenges SET ended_ms = $2, device_ms = $3 WHERE id = $1").bind(self.challenge);
        end.bind(ended_ms).bind(self.conclusion.device_ms).execute(&mut **tx).await?;
        Ok(())
    }

    async fn reasons(&self, tx: &mut Tx) -> Result<(), RecordsError> {
        for (position, reason) in (0_i64..).zip(&self.conclusion.verdict.reasons) {
            let sql = "INSERT INTO reasons (challenge, position, code, class, device_id, detail) \
                 VALUES ($1, $2, $3, $4, $5, $6)";
            let insert = query(sql).bind(self.challenge).bind(position).bind(reason.code.name());
            let insert = insert.bind(reason.code.class().name()).bind(reason.device_id.map(|id| id.to_string()));
            insert.bind(&reason.detail).execute(&mut **tx).await?;
        }
        Ok(())
    }

    async fn device(&self, tx: &mut Tx, device: &DeviceWork) -> Result<(), RecordsError> {
        let (id, work) = (device.device_id.to_string(), &device.work);
        let held = self.conclusion.verdict.work_held() && work.matrices > 0;
        let sql = "INSERT INTO device_results (challenge, device_id, miner, model, operator, at_ms, n, work_held, \
             matrices, bytes_held, tops, seconds, probe_bytes, probe_gb_per_s, probe_seconds, hidden_share) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)";
        let insert = query(sql)
            .bind(self.challenge)
            .bind(&id)
            .bind(self.miner)
            .bind(&device.name)
            .bind(self.operator())
            .bind(self.at_ms)
            .bind(i64::from(self.conclusion.verdict.n))
            .bind(i64::from(held))
            .bind(integer(work.matrices))
            .bind(integer(work.bytes_held))
            .bind(finite(work.tops))
            .bind(finite(work.seconds))
            .bind(integer(work.probe_bytes))
            .bind(finite(work.probe_gb_per_s))
            .bind(finite(work.probe_seconds))
            .bind(device.hiding.map_or(1.0, |hiding| finite(hiding.share)));
        insert.execute(&mut **tx).await?;
        if let Some(telemetry) = &device.claimed_telemetry {
            let sql = "INSERT INTO telemetry (challenge, device_id, samples, document) VALUES ($1, $2, $3, $4)";
            let insert = query(sql).bind(self.challenge).bind(&id).bind(i64::from(telemetry.samples));
            insert.bind(to_json(telemetry, "telemetry")?).execute(&mut **tx).await?;
        }
        let passed_ms = held.then_some(self.at_ms);
        let sql = "UPDATE devices SET last_challenge = $3, last_pass_ms = COALESCE($4, last_pass_ms) \
             WHERE miner = $1 AND device_id = $2";
        let update = query(sql).bind(self.miner).bind(&id).bind(self.challenge).bind(passed_ms);
        update.execute(&mut **tx).await?;
        Ok(())
    }

    async fn commitment(&self, tx: &mut Tx) -> Result<(), RecordsError> {
        let Some(commitment) = &self.conclusion.commitment else { return Ok(()) };
        let sql = "INSERT INTO commitments (challenge, checksum, signature, probe_checksum, probe_signature) \
             VALUES ($1, $2, $3, $4, $5)";
        let insert = query(sql).bind(self.challenge).bind(&commitment.checksum).bind(&commitment.signature);
        let insert = insert.bind(commitment.probe_checksum.clone()).bind(commitment.probe_signature.clone());
        insert.execute(&mut **tx).await?;
        Ok(())
    }

    /// What the miner's own row says of it.
    async fn miner(&self, tx: &mut Tx) -> Result<(), RecordsError> {
        let Conclusion { verdict, standing, transition, next_due, .. } = self.conclusion;
        let (due_ms, due_kind) = next_due.clone().unzip();
        let sql = "UPDATE miners SET state = COALESCE($2, state), standing = COALESCE($3, standing), \
             due_ms = COALESCE($4, due_ms), due_kind = COALESCE($5, due_kind) WHERE id = $1";
        let update = query(sql).bind(self.miner).bind(transition.as_ref().map(|t| t.to.clone()));
        update.bind(standing.clone()).bind(due_ms).bind(due_kind).execute(&mut **tx).await?;
        let sql = "UPDATE miners SET last_challenge = $2, last_outcome = $3, last_verdict_ms = $4 \
             WHERE id = $1 AND (last_verdict_ms IS NULL OR last_verdict_ms <= $4)";
        let update = query(sql).bind(self.miner).bind(self.challenge).bind(verdict.outcome.to_string());
        update.bind(self.at_ms).execute(&mut **tx).await?;
        Ok(())
    }
}

/// A count for a column.
fn integer(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// A figure for a column: JSON and columns have no infinity.
fn finite(value: f64) -> f64 {
    if value.is_finite() { value } else { 0.0 }
}
