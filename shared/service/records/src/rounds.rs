//! Synchronised rounds: who was asked to start in the same moment, and who did.

use std::collections::BTreeMap;

use sqlx::any::AnyRow;

use crate::column::{get, read};
use crate::keys::known_miner;
use crate::rows::placeholders;
use crate::sessions::LOST;
use crate::tx::Tx;
use crate::validators::is_alive;
use crate::{EventDocument, MAX_ROWS, Records, RecordsError, Result, RoundMember, RoundRecord};

cursor! {
    /// Where a page of rounds ended.
    RoundCursor after RoundRecord: begun_ms, id
}

impl Records {
    /// Notes a round with its members.
    ///
    /// # Errors
    /// A member is an unknown miner, or the store cannot be written.
    pub async fn plan_round(&self, round: &RoundRecord, members: &[RoundMember]) -> Result<()> {
        transaction!(self, "note a round", |tx| {
            let sql = "INSERT INTO rounds (id, grp, asked, validator, begun_ms, ended_ms, detail) \
                 VALUES ($1, $2, $3, $4, $5, $6, $7)";
            let RoundRecord { id, group, asked, validator, begun_ms, ended_ms, detail } = round;
            let insert = sqlx::query(sql).bind(id).bind(group).bind(asked).bind(validator).bind(*begun_ms);
            insert.bind(*ended_ms).bind(detail).execute(&mut *tx).await?;
            for member in members {
                upsert_member(&mut tx, id, member).await?;
            }
        })
    }

    /// Notes the beginning of a round, with its event.
    pub async fn begin_round(&self, round: &str, at_ms: i64) -> Result<()> {
        transaction!(self, "note the beginning of a round", |tx| {
            let sql = "UPDATE rounds SET begun_ms = $2 WHERE id = $1 RETURNING *";
            let begun = sqlx::query(sql).bind(round).bind(at_ms).fetch_optional(&mut *tx).await?;
            if let Some(row) = begun {
                tx.tell(at_ms, None, None, EventDocument::RoundBegun(round_of(&row)?));
            }
        })
    }

    /// Notes the state of a member of a round, whether the round lists it or not.
    ///
    /// # Errors
    /// The round or the miner is unknown, or the store cannot be written.
    pub async fn round_member(&self, round: &str, member: &RoundMember) -> Result<()> {
        transaction!(self, "note a member of a round", |tx| {
            upsert_member(&mut tx, round, member).await?;
        })
    }

    pub async fn end_round(&self, round: &str, at_ms: i64, detail: &str) -> Result<()> {
        transaction!(self, "note the end of a round", |tx| {
            let sql = "UPDATE rounds SET ended_ms = $2, detail = $3 WHERE id = $1 AND ended_ms IS NULL RETURNING *";
            let ended = sqlx::query(sql).bind(round).bind(at_ms).bind(detail).fetch_optional(&mut *tx).await?;
            if let Some(row) = ended {
                tx.tell(at_ms, None, None, EventDocument::RoundEnded(round_of(&row)?));
            }
        })
    }

    /// Ends the open rounds of a validator, as those of an earlier run of its process; without one, those of lost
    /// validators. Members that were not heard of stay invited. Gives the count of rounds.
    pub async fn end_open_rounds(&self, validator: Option<&str>) -> Result<u64> {
        let now = self.store.kind.now();
        let ended = sql!(
            "UPDATE rounds SET ended_ms = {now} WHERE ended_ms IS NULL AND (validator = $1 OR ($1 = '' \
             AND NOT EXISTS (SELECT 1 FROM validators v WHERE v.key = rounds.validator AND {}))) RETURNING *",
            is_alive(&now)
        );
        transaction!(self, "end rounds of lost validators", |tx| {
            let ended = sqlx::query(ended).bind(validator.unwrap_or_default()).fetch_all(&mut *tx).await?;
            for row in &ended {
                let round = round_of(row)?;
                let sql = "UPDATE round_members SET detail = $2 WHERE round = $1 AND state = 'invited'";
                sqlx::query(sql).bind(&round.id).bind(LOST).execute(&mut *tx).await?;
                tx.tell(round.ended_ms.unwrap_or_default(), None, None, EventDocument::RoundEnded(round));
            }
            ended.len() as u64
        })
    }

    /// Whether two miners were challenged in one round of this group since a time, or members of one that ended since
    /// another time.
    pub async fn were_in_round(
        &self,
        miners: [&str; 2],
        group: &str,
        (since_ms, ended_ms): (i64, i64),
    ) -> Result<bool> {
        let sql = "SELECT COUNT(*) FROM round_members m JOIN rounds r ON r.id = m.round \
             JOIN round_members o ON o.round = m.round \
             WHERE m.miner = (SELECT k.miner FROM miner_keys k WHERE k.key = $1) AND m.at_ms >= $2 AND r.grp = $3 \
             AND o.miner = (SELECT k.miner FROM miner_keys k WHERE k.key = $4) \
             AND (r.ended_ms IS NULL OR r.ended_ms >= $5 OR (m.state IN ('judged', 'started') \
             AND o.state IN ('judged', 'started')))";
        let found = sqlx::query_scalar(sql).bind(miners[0]).bind(since_ms).bind(group).bind(miners[1]).bind(ended_ms);
        let found: i64 = found
            .fetch_one(self.read())
            .await
            .map_err(|e| RecordsError::from(e).doing("look for rounds of a miner"))?;
        Ok(found > 0)
    }

    /// Rounds, newest first: the page after this one, of at most `limit` and [`MAX_ROWS`].
    pub async fn rounds(&self, before: Option<&RoundCursor>, limit: u32) -> Result<Vec<RoundRecord>> {
        let sql = "SELECT * FROM rounds WHERE begun_ms < $1 OR (begun_ms = $1 AND id < $2) \
             ORDER BY begun_ms DESC, id DESC LIMIT $3";
        let before = before.cloned().unwrap_or(RoundCursor { begun_ms: i64::MAX, id: String::new() });
        let query = sqlx::query(sql).bind(before.begun_ms).bind(before.id).bind(i64::from(limit.min(MAX_ROWS)));
        self.list("list rounds", query, round_of).await
    }

    /// The members of these rounds, by the rounds' ids and in order of their own, each with the outcome of its
    /// challenge; of at most [`MAX_ROWS`] rounds.
    pub async fn round_members(&self, rounds: &[&str]) -> Result<BTreeMap<String, Vec<(RoundMember, Option<String>)>>> {
        let rounds = &rounds[..rounds.len().min(MAX_ROWS as usize)];
        let mut found = BTreeMap::<String, Vec<_>>::new();
        if rounds.is_empty() {
            return Ok(found);
        }
        let sql = sql!(
            "SELECT m.*, v.outcome AS outcome FROM round_members m LEFT JOIN verdicts v ON v.challenge = m.challenge \
             WHERE m.round IN ({}) ORDER BY m.round, m.miner",
            placeholders(1, rounds.len())
        );
        let query = rounds.iter().fold(sqlx::query(sql), |query, round| query.bind(*round));
        let rows = query.fetch_all(self.read()).await;
        for row in &rows.map_err(|e| RecordsError::from(e).doing("look up rounds"))? {
            found.entry(get(row, "round")?).or_default().push((member_of(row)?, get(row, "outcome")?));
        }
        Ok(found)
    }

    /// A round with its members, in order of their ids.
    pub async fn round(&self, id: &str) -> Result<Option<(RoundRecord, Vec<RoundMember>)>> {
        let query = sqlx::query("SELECT * FROM rounds WHERE id = $1").bind(id);
        let Some(round) = self.find_row("look up a round", query, round_of).await? else { return Ok(None) };
        let rows = sqlx::query("SELECT * FROM round_members WHERE round = $1 ORDER BY miner").bind(id);
        let rows = rows.fetch_all(self.read()).await?;
        let members = rows.iter().map(member_of).collect::<Result<_, _>>()?;
        Ok(Some((round, members)))
    }
}

async fn upsert_member(tx: &mut Tx, round: &str, member: &RoundMember) -> Result<()> {
    let miner = known_miner(tx, &member.miner).await?;
    let sql = "INSERT INTO round_members (round, miner, state, challenge, at_ms, detail) \
         VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (round, miner) DO UPDATE SET state = $3, \
         challenge = COALESCE($4, round_members.challenge), at_ms = $5, detail = $6";
    let upsert = sqlx::query(sql).bind(round).bind(miner).bind(&member.state).bind(member.challenge.clone());
    upsert.bind(member.at_ms).bind(&member.detail).execute(&mut **tx).await?;
    Ok(())
}

fn round_of(row: &AnyRow) -> Result<RoundRecord> {
    Ok(read!(row => RoundRecord { id, asked, validator, begun_ms, ended_ms, detail; group: get(row, "grp")? }))
}

fn member_of(row: &AnyRow) -> Result<RoundMember> {
    Ok(read!(row => RoundMember { miner, state, challenge, at_ms, detail }))
}
