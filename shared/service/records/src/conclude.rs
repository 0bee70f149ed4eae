//! Verdicts and all that becomes known with them, in one transaction.

use std::collections::BTreeSet;

use assay_policy::{DeviceRate, End};
use assay_protocol::verdict::{DeviceWork, Verdict};

use crate::document::to_json;
use crate::keys::ensure_miners;
use crate::rows::Rows;
use crate::tx::Tx;
use crate::{
    ChallengeStart, Conclusion, EventDocument, RecordsError, Result, Transition, VerdictEvent, challenges, evidence,
    memory, receipts, standing,
};

/// Writes verdicts; false where one of their challenges has a verdict.
pub(crate) async fn conclude_all(tx: &mut Tx, conclusions: &[&Conclusion]) -> Result<bool> {
    for batch in batches(conclusions) {
        let rows = rows_of(tx, batch).await?;
        if !write(tx, &rows).await? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Writes a verdict; false where it was written so before.
pub(crate) async fn conclude(tx: &mut Tx, conclusion: &Conclusion) -> Result<bool> {
    let rows = rows_of(tx, &[conclusion]).await?;
    if write(tx, &rows).await? {
        return Ok(true);
    }
    let Some(ConclusionRow { challenge, document, .. }) = rows.into_iter().next() else { return Ok(false) };
    let before = sqlx::query_scalar("SELECT document FROM verdicts WHERE challenge = $1").bind(&challenge);
    let before: String = before.fetch_one(&mut **tx).await?;
    if before == document { Ok(false) } else { Err(RecordsError::ConcludedBefore { challenge }) }
}

/// Parts in which no miner has two verdicts: one statement changes its row once.
fn batches<'a, 'b>(mut rest: &'b [&'a Conclusion]) -> impl Iterator<Item = &'b [&'a Conclusion]> {
    std::iter::from_fn(move || {
        let mut seen = BTreeSet::new();
        let length = rest.iter().take_while(|conclusion| seen.insert(conclusion.verdict.miner_key)).count();
        let (batch, others) = rest.split_at(length);
        rest = others;
        (length > 0).then_some(batch)
    })
}

async fn rows_of<'a>(tx: &mut Tx, conclusions: &[&'a Conclusion]) -> Result<Vec<ConclusionRow<'a>>> {
    let key = |conclusion: &&Conclusion| (conclusion.verdict.miner_key.to_string(), conclusion.at_ms);
    let miners = ensure_miners(tx, conclusions.iter().map(key).collect()).await?;
    let rows = conclusions.iter().zip(miners).map(|(conclusion, miner)| {
        let (challenge, document) =
            (conclusion.verdict.challenge_id.to_string(), to_json(&conclusion.verdict, "verdict")?);
        Ok(ConclusionRow { conclusion, challenge, miner, document })
    });
    rows.collect()
}

/// False where a challenge has a verdict.
async fn write(tx: &mut Tx, rows: &[ConclusionRow<'_>]) -> Result<bool> {
    challenges::insert_ended(tx, rows.iter().map(ConclusionRow::begun_and_ended)).await?;
    if !insert_verdicts(tx, rows).await? {
        return Ok(false);
    }
    for row in rows {
        tx.tell(row.conclusion.at_ms, Some(&row.miner), Some(&row.challenge), EventDocument::Verdict(row.told()));
    }
    insert_reasons(tx, rows).await?;
    insert_devices(tx, rows).await?;
    update_devices(tx, rows).await?;
    memory::insert_shown(tx, rows.iter().flat_map(ConclusionRow::shown)).await?;
    insert_telemetry(tx, rows).await?;
    insert_commitments(tx, rows).await?;
    for row in rows {
        let ConclusionRow { conclusion, challenge, miner, .. } = row;
        let at_ms = conclusion.at_ms;
        if let Some(kept) = &conclusion.evidence {
            evidence::insert(tx, challenge, kept, at_ms).await?;
        }
        for finding in &conclusion.findings {
            standing::insert_finding(tx, finding, Some(challenge), at_ms).await?;
        }
        if let Some(transition) = row.transition() {
            standing::insert_transition(tx, miner, transition, Some(challenge)).await?;
        }
    }
    let receipt = |row: &'_ ConclusionRow<'_>| {
        let receipt = row.conclusion.receipt.as_ref()?;
        Some(receipts::row(&row.challenge, &row.miner, receipt))
    };
    receipts::insert(tx, rows.iter().filter_map(receipt)).await?;
    update_miners(tx, rows).await?;
    Ok(true)
}

/// A conclusion as it is written.
struct ConclusionRow<'a> {
    conclusion: &'a Conclusion,
    challenge: String,
    miner: String,
    document: String,
}

impl ConclusionRow<'_> {
    /// The miner's id, the beginning to note for a challenge that was not noted when it began, and the time of its end.
    fn begun_and_ended(&self) -> (&str, ChallengeStart, i64) {
        let Conclusion { verdict, at_ms, asked, group, kind, round, session, device_ms, .. } = self.conclusion;
        let begun = ChallengeStart {
            challenge: self.challenge.clone(),
            miner: verdict.miner_key.to_string(),
            validator: verdict.validator_key.to_string(),
            instance: String::new(),
            session: session.clone(),
            group: group.clone(),
            kind: kind.clone(),
            asked: asked.clone(),
            round: round.clone(),
            begun_ms: *at_ms,
            device_ms: *device_ms,
        };
        (&self.miner, begun, crate::id::now_ms().max(*at_ms))
    }

    fn told(&self) -> VerdictEvent {
        let Conclusion { verdict, group, kind, asked, round, receipt, .. } = self.conclusion;
        let Verdict { outcome, reasons, mode, n, whole, .. } = verdict;
        VerdictEvent {
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
            state: self.transition().map(|transition| transition.to.clone()),
            receipt: receipt.as_ref().map(|receipt| receipt.id.clone()),
        }
    }

    fn transition(&self) -> Option<&Transition> {
        self.conclusion.standing.as_ref()?.transition.as_ref()
    }

    /// The devices' results, each with its miner's id.
    fn shown(&self) -> impl Iterator<Item = (&str, &DeviceRate)> {
        self.conclusion.shown.iter().map(|shown| (self.miner.as_str(), shown))
    }

    fn operator(&self) -> &str {
        self.conclusion.operator.as_deref().unwrap_or("")
    }

    fn devices(&self) -> impl Iterator<Item = (&DeviceWork, bool)> {
        let held = self.conclusion.verdict.work_held();
        self.conclusion.verdict.devices.iter().map(move |device| (device, held && device.work.matrices > 0))
    }
}

/// False where a challenge has a verdict.
async fn insert_verdicts(tx: &mut Tx, rows: &[ConclusionRow<'_>]) -> Result<bool> {
    let mut insert = Rows::new(
        "INSERT INTO verdicts (challenge, miner, key, validator, at_ms, outcome, mode, n, iterations, \
         iterations_checked, bytes_held, tops, seconds, probe_gb_per_s, probe_seconds, operator, document, precision, \
         ended) VALUES",
        " ON CONFLICT (challenge) DO NOTHING",
    );
    for row in rows {
        let verdict = &row.conclusion.verdict;
        let Verdict { outcome, mode, n, iterations, iterations_checked, whole, .. } = verdict;
        insert.push([
            row.challenge.as_str().into(),
            row.miner.as_str().into(),
            verdict.miner_key.to_string().into(),
            verdict.validator_key.to_string().into(),
            row.conclusion.at_ms.into(),
            outcome.to_string().into(),
            mode.map(|mode| mode.name().to_owned()).into(),
            i64::from(*n).into(),
            i64::from(*iterations).into(),
            i64::from(*iterations_checked).into(),
            integer(whole.bytes_held).into(),
            finite(whole.tops).into(),
            finite(whole.seconds).into(),
            finite(whole.probe_gb_per_s).into(),
            finite(whole.probe_seconds).into(),
            row.operator().into(),
            row.document.as_str().into(),
            i64::from(verdict.precision.code()).into(),
            End::of(verdict).map(|end| end.name().to_owned()).into(),
        ]);
    }
    Ok(insert.execute(tx).await? == rows.len() as u64)
}

async fn insert_reasons(tx: &mut Tx, rows: &[ConclusionRow<'_>]) -> Result<()> {
    let mut insert =
        Rows::new("INSERT INTO reasons (challenge, position, code, class, device_id, detail, first_ms) VALUES", "");
    for row in rows {
        let mut codes = BTreeSet::new();
        for (position, reason) in (0_i64..).zip(&row.conclusion.verdict.reasons) {
            let first_ms = codes.insert(reason.code.name()).then_some(row.conclusion.at_ms);
            insert.push([
                row.challenge.as_str().into(),
                position.into(),
                reason.code.name().into(),
                reason.code.class().name().into(),
                reason.device_id.map(|id| id.to_string()).into(),
                reason.detail.as_str().into(),
                first_ms.into(),
            ]);
        }
    }
    insert.execute(tx).await.map(drop)
}

async fn insert_devices(tx: &mut Tx, rows: &[ConclusionRow<'_>]) -> Result<()> {
    let mut insert = Rows::new(
        "INSERT INTO device_results (challenge, device_id, miner, model, operator, at_ms, n, work_held, matrices, \
         bytes_held, tops, seconds, probe_bytes, probe_gb_per_s, probe_seconds, hidden_share, precision) VALUES",
        "",
    );
    for row in rows {
        for (device, held) in row.devices() {
            let work = &device.work;
            insert.push([
                row.challenge.as_str().into(),
                device.device_id.to_string().into(),
                row.miner.as_str().into(),
                device.name.as_str().into(),
                row.operator().into(),
                row.conclusion.at_ms.into(),
                i64::from(row.conclusion.verdict.n).into(),
                i64::from(held).into(),
                integer(work.matrices).into(),
                integer(work.bytes_held).into(),
                finite(work.tops).into(),
                finite(work.seconds).into(),
                integer(work.probe_bytes).into(),
                finite(work.probe_gb_per_s).into(),
                finite(work.probe_seconds).into(),
                device.hiding.map_or(1.0, |hiding| finite(hiding.share)).into(),
                i64::from(row.conclusion.verdict.precision.code()).into(),
            ]);
        }
    }
    insert.execute(tx).await.map(drop)
}

async fn update_devices(tx: &mut Tx, rows: &[ConclusionRow<'_>]) -> Result<()> {
    let mut update = Rows::new(
        "UPDATE devices SET last_challenge = v.column3, last_pass_ms = COALESCE(v.column4, last_pass_ms) FROM (VALUES",
        ") AS v WHERE miner = v.column1 AND device_id = v.column2",
    );
    for row in rows {
        for (device, held) in row.devices() {
            let passed_ms = held.then_some(row.conclusion.at_ms);
            let id = device.device_id.to_string();
            update.push([row.miner.as_str().into(), id.into(), row.challenge.as_str().into(), passed_ms.into()]);
        }
    }
    update.execute(tx).await.map(drop)
}

async fn insert_telemetry(tx: &mut Tx, rows: &[ConclusionRow<'_>]) -> Result<()> {
    let mut insert = Rows::new("INSERT INTO telemetry (challenge, device_id, samples, document) VALUES", "");
    for row in rows {
        for device in &row.conclusion.verdict.devices {
            let Some(telemetry) = &device.claimed_telemetry else { continue };
            let (id, samples) = (device.device_id.to_string(), i64::from(telemetry.samples));
            let document = to_json(telemetry, "telemetry")?;
            insert.push([row.challenge.as_str().into(), id.into(), samples.into(), document.into()]);
        }
    }
    insert.execute(tx).await.map(drop)
}

async fn insert_commitments(tx: &mut Tx, rows: &[ConclusionRow<'_>]) -> Result<()> {
    let mut insert = Rows::new(
        "INSERT INTO commitments (challenge, checksum, signature, probe_checksum, probe_signature) VALUES",
        "",
    );
    for row in rows {
        let Some(commitment) = &row.conclusion.commitment else { continue };
        insert.push([
            row.challenge.as_str().into(),
            commitment.checksum.as_str().into(),
            commitment.signature.as_str().into(),
            commitment.probe_checksum.clone().into(),
            commitment.probe_signature.clone().into(),
        ]);
    }
    insert.execute(tx).await.map(drop)
}

/// Updates the miners' own rows, unless their standings have changed since the conclusions were drawn.
async fn update_miners(tx: &mut Tx, rows: &[ConclusionRow<'_>]) -> Result<()> {
    let mut update = Rows::new(
        "UPDATE miners SET state = COALESCE(v.column2, state), standing = COALESCE(v.column3, standing), \
         due_ms = COALESCE(v.column4, due_ms), due_kind = COALESCE(v.column5, due_kind), \
         last_challenge = CASE WHEN COALESCE(last_verdict_ms, 0) <= v.column8 THEN v.column6 ELSE last_challenge END, \
         last_outcome = CASE WHEN COALESCE(last_verdict_ms, 0) <= v.column8 THEN v.column7 ELSE last_outcome END, \
         last_verdict_ms = CASE WHEN COALESCE(last_verdict_ms, 0) <= v.column8 THEN v.column8 ELSE last_verdict_ms END \
         FROM (VALUES",
        ") AS v WHERE id = v.column1 AND COALESCE(standing, '') = COALESCE(v.column9, standing, '')",
    );
    for row in rows {
        let ConclusionRow { conclusion, challenge, miner, .. } = row;
        let Conclusion { verdict, at_ms, standing, next_due, .. } = conclusion;
        let (due_ms, due_kind) = next_due.clone().unzip();
        update.push([
            miner.as_str().into(),
            row.transition().map(|transition| transition.to.clone()).into(),
            standing.as_ref().map(|standing| standing.after.clone()).into(),
            due_ms.into(),
            due_kind.into(),
            challenge.as_str().into(),
            verdict.outcome.to_string().into(),
            (*at_ms).into(),
            standing.as_ref().and_then(|standing| standing.before.clone()).into(),
        ]);
    }
    match (update.execute(tx).await?, rows.first()) {
        (updated, Some(first)) if updated < rows.len() as u64 => {
            Err(RecordsError::StandingChanged(first.miner.clone()))
        }
        _ => Ok(()),
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
