//! Miners: who may take part, under which labels, and who decided that.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use assay_api::MAX_LABELS;
use sqlx::any::AnyRow;

use crate::action::note_action;
use crate::column::{get, read};
use crate::document::{json, to_json};
use crate::due::due_of;
use crate::keys::{ensure_miner, known_miner};
use crate::kind::DatabaseKind;
use crate::miner::status_of;
use crate::request_group::PendingRequest;
use crate::rows::Rows;
use crate::standing::change_standing;
use crate::store::{Store, with_limit};
use crate::tx::Tx;
use crate::validators::is_alive;
use crate::{
    Actor, Approval, Labels, LastVerdict, MAX_ROWS, MinerFilter, MinerRecord, OperatorAction, Records, RecordsError,
    Result, StandingChange, id,
};

/// Rows that are read at once where not all of them are given.
const MIN_ROWS: usize = 1000;

/// Open sessions count only while their validator's process lives.
const SELECT: &str = "SELECT m.*, (SELECT JOIN_TEXTS(k.key, ' ' ORDER BY k.position) FROM miner_keys k \
     WHERE k.miner = m.id) AS all_keys, (SELECT MAX(s.validator) FROM sessions s JOIN validators v \
     ON v.key = s.validator AND v.instance = s.instance WHERE s.miner = m.id AND s.disconnected_ms IS NULL \
     AND IS_ALIVE) AS connected_to FROM miners m";

/// An operator's change of a miner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MinerChange {
    /// The name of the action in the records, one word.
    pub action: &'static str,
    /// Whether the miner takes part from now on; `None` leaves that as it is.
    pub status: Option<Approval>,
    /// The change of its attestation's basis.
    pub standing: Option<StandingChange>,
}

/// A decision about a miner, for one of its keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyDecision {
    pub status: Approval,
    /// Whether the miner has connected with a newer key.
    pub is_superseded: bool,
}

pub(crate) fn select(kind: DatabaseKind) -> String {
    SELECT.replace("JOIN_TEXTS", kind.join()).replace("IS_ALIVE", &is_alive(&kind.now()))
}

impl Records {
    /// A miner, by any of its keys.
    pub async fn miner(&self, key: &str) -> Result<Option<MinerRecord>> {
        let store = &self.store;
        let work = || store.clone().call_for_others(look_up_waiting(store.clone()));
        let found = store.call(store.looking_up.ask(key.to_owned(), work)).await;
        found.map_err(|error| error.doing("look up a miner"))
    }

    /// Miners in order of their ids.
    pub async fn miners(&self, filter: &MinerFilter) -> Result<Vec<MinerRecord>> {
        let limit = filter.limit.unwrap_or(MAX_ROWS).min(MAX_ROWS) as usize;
        let mut found = Vec::new();
        let mut after = filter.after.clone().unwrap_or_default();
        while found.len() < limit {
            // Conditions that are compared here leave out rows that were read.
            let wanted = limit - found.len();
            let rows_wanted = if filter.is_sql() { wanted } else { wanted.max(MIN_ROWS) };
            let rows = self.miner_rows(filter, &after, rows_wanted).await?;
            let Some(last) = rows.last() else { break };
            after = get(last, "id")?;
            for row in &rows {
                let miner = miner_of(row)?;
                if filter.fits(&miner) && found.len() < limit {
                    found.push(miner);
                }
            }
            if rows.len() < rows_wanted {
                break;
            }
        }
        Ok(found)
    }

    async fn miner_rows(&self, filter: &MinerFilter, after: &str, limit: usize) -> Result<Vec<AnyRow>> {
        let sql = sql!(
            "{} WHERE m.id > $1 AND ($2 = '' OR m.status = $2) AND ($3 = '' OR m.state = $3) \
             AND ($4 = '' OR m.last_outcome = $4) AND ($5 = '' OR EXISTS (SELECT 1 FROM devices d \
             WHERE d.miner = m.id AND d.model = $5 AND d.gone_ms IS NULL)) ORDER BY m.id LIMIT $6",
            select(self.store.kind)
        );
        let query = sqlx::query(sql)
            .bind(after)
            .bind(filter.status.map_or("", Approval::name))
            .bind(filter.state.as_deref().unwrap_or(""))
            .bind(filter.outcome.as_deref().unwrap_or(""))
            .bind(filter.model.as_deref().unwrap_or(""))
            .bind(i64::try_from(limit).unwrap_or(i64::MAX));
        let rows = query.fetch_all(self.read()).await;
        rows.map_err(|e| RecordsError::from(e).doing("list miners"))
    }

    /// Every key of the miners whose status is not pending.
    pub async fn decided(&self) -> Result<Vec<(String, KeyDecision)>> {
        let sql = "SELECT k.key AS key, m.status AS status, m.key AS newest FROM miner_keys k \
             JOIN miners m ON m.id = k.miner WHERE m.status <> 'pending'";
        self.list("list what was decided about miners", sqlx::query(sql), |row| {
            let (key, newest): (String, String) = (get(row, "key")?, get(row, "newest")?);
            let status = status_of(&get::<String>(row, "status")?)?;
            Ok((key.clone(), KeyDecision { status, is_superseded: key != newest }))
        })
        .await
    }

    /// The id of a miner: the first of its keys that was seen.
    pub async fn miner_id(&self, key: &str) -> Result<Option<String>> {
        let query = sqlx::query("SELECT miner FROM miner_keys WHERE key = $1").bind(key);
        self.find_row("look up a miner", query, |row| get(row, "miner")).await
    }

    /// The ids of miners whose id or any of whose keys begins with these digits, at most `limit`.
    pub async fn miners_by_prefix(&self, prefix: &str, limit: u32) -> Result<Vec<String>> {
        let sql = "SELECT DISTINCT miner FROM miner_keys WHERE key >= $1 AND key < $2 ORDER BY miner LIMIT $3";
        let query = sqlx::query(sql).bind(prefix).bind(format!("{prefix}g")).bind(i64::from(limit));
        self.list("look up a miner", query, |row| get(row, "miner")).await
    }

    /// Makes a change that an operator decided on, whole or not at all, and notes who did. Gives the status before. A
    /// miner that never came is noted too: that is an allow-list.
    ///
    /// # Errors
    /// [`RecordsError::StandingChanged`], or the store cannot be written.
    pub async fn change_miner(&self, key: &str, change: &MinerChange, actor: &Actor) -> Result<Approval> {
        let MinerChange { action, status, standing } = change;
        transaction!(self, "change a miner", |tx| {
            let miner = ensure_miner(&mut tx, key, Approval::Pending, id::now_ms()).await?;
            let before = self.status_for_update(&mut tx, &miner).await?;
            if let Some(status) = status {
                let update = sqlx::query("UPDATE miners SET status = $2 WHERE id = $1").bind(&miner);
                update.bind(status.name()).execute(&mut *tx).await?;
            }
            let moved = standing.as_ref().and_then(|standing| standing.transition.as_ref());
            let detail = match (status, moved) {
                (Some(status), _) => format!("{before} → {status}"),
                (None, Some(moved)) => format!("{} → {}", moved.from, moved.to),
                (None, None) => String::new(),
            };
            note_action(&mut tx, actor, action, Some(&miner), &detail).await?;
            if let Some(standing) = standing {
                change_standing(&mut tx, &miner, standing).await?;
            }
            before
        })
    }

    async fn status_for_update(&self, tx: &mut Tx, miner: &str) -> Result<Approval> {
        let sql = sql!("SELECT status FROM miners WHERE id = $1 {}", self.store.kind.for_update());
        let text: String = sqlx::query_scalar(sql).bind(miner).fetch_one(&mut **tx).await?;
        status_of(&text)
    }

    /// Sets labels and takes others away (`None`), and notes who did. Gives the labels as they are then.
    ///
    /// # Errors
    /// [`RecordsError::NoSuchMiner`], [`RecordsError::TooMany`], or the store cannot be written.
    pub async fn set_labels(
        &self,
        key: &str,
        changes: &BTreeMap<String, Option<String>>,
        actor: &Actor,
    ) -> Result<Labels> {
        transaction!(self, "change the labels of a miner", |tx| {
            let miner = known_miner(&mut tx, key).await?;
            let (before, labels) = self.change_labels(&mut tx, &miner, changes).await?;
            if labels.len() > before.max(MAX_LABELS) {
                return Err(RecordsError::TooMany { what: "labels of the miner", max: MAX_LABELS as i64 });
            }
            note_action(&mut tx, actor, "label", Some(&miner), &to_json(changes, "labels")?).await?;
            labels
        })
    }

    /// Changes labels; gives the number of labels before, and the labels as they are then.
    pub(crate) async fn change_labels(
        &self,
        tx: &mut Tx,
        miner: &str,
        changes: &BTreeMap<String, Option<String>>,
    ) -> Result<(usize, Labels)> {
        let sql = sql!("SELECT labels FROM miners WHERE id = $1 {}", self.store.kind.for_update());
        let text: String = sqlx::query_scalar(sql).bind(miner).fetch_one(&mut **tx).await?;
        let mut labels: Labels = json(&text, "labels")?;
        let before = labels.len();
        for (name, value) in changes {
            match value {
                Some(value) => labels.insert(name.clone(), value.clone()),
                None => labels.remove(name),
            };
        }
        let update = sqlx::query("UPDATE miners SET labels = $2 WHERE id = $1").bind(miner);
        update.bind(to_json(&labels, "labels")?).execute(&mut **tx).await?;
        Ok((before, labels))
    }

    pub async fn note_action(&self, actor: &Actor, action: &str, miner: Option<&str>, detail: &str) -> Result<()> {
        transaction!(self, "note an operator's action", |tx| {
            let miner = match miner {
                Some(key) => Some(known_miner(&mut tx, key).await?),
                None => None,
            };
            note_action(&mut tx, actor, action, miner.as_deref(), detail).await?;
        })
    }

    /// The operators' actions since a time, newest first, for one miner or all.
    pub async fn actions(&self, miner: Option<&str>, since_ms: i64, limit: u32) -> Result<Vec<OperatorAction>> {
        let of_miner = match miner {
            Some(_) => "miner = (SELECT k.miner FROM miner_keys k WHERE k.key = $1)",
            None => "$1 = ''",
        };
        let sql = sql!("SELECT * FROM actions WHERE {of_miner} AND at_ms >= $2 ORDER BY at_ms DESC, id DESC LIMIT $3");
        let query = sqlx::query(sql).bind(miner.unwrap_or("")).bind(since_ms).bind(i64::from(limit.min(MAX_ROWS)));
        self.list("list actions", query, action_of).await
    }
}

/// Serves the waiting look-ups until the queue is empty.
async fn look_up_waiting(store: Arc<Store>) {
    let mut worker = store.looking_up.worker();
    while let Some(group) = worker.next() {
        let keys: Vec<_> = group.iter().map(|waiting| waiting.asked.as_str()).collect();
        let mut found = with_limit(store.look_up(&keys)).await;
        for PendingRequest { asked, done } in group {
            let miner = match &mut found {
                Ok(found) => Ok(found.get(&asked).cloned()),
                // One look-up's error must not fail the others.
                Err(_) if done.is_closed() => continue,
                Err(_) => with_limit(store.look_up(&[&asked])).await.map(|mut found| found.remove(&asked)),
            };
            // A caller that has gone does not want to know.
            drop(done.send(miner));
        }
    }
}

impl Store {
    async fn look_up(&self, keys: &[&str]) -> Result<HashMap<String, MinerRecord>> {
        let sql =
            format!("{} WHERE m.id IN (SELECT k.miner FROM miner_keys k WHERE k.key IN (VALUES", select(self.kind));
        let mut select = Rows::new(sql, "))");
        keys.iter().for_each(|key| select.push([(*key).into()]));
        let mut connection = self.unlimited().acquire().await?;
        let mut found = HashMap::new();
        for row in select.fetch(&mut connection).await? {
            let miner = miner_of(&row)?;
            let asked = miner.keys.iter().filter(|key| keys.contains(&key.as_str())).cloned().collect::<Vec<_>>();
            found.extend(asked.into_iter().map(|key| (key, miner.clone())));
        }
        Ok(found)
    }
}

fn miner_of(row: &AnyRow) -> Result<MinerRecord> {
    let keys: Option<String> = get(row, "all_keys")?;
    let standing: Option<String> = get(row, "standing")?;
    let last: (Option<String>, Option<String>, Option<i64>) =
        (get(row, "last_challenge")?, get(row, "last_outcome")?, get(row, "last_verdict_ms")?);
    let last_verdict = match last {
        (Some(challenge), Some(outcome), Some(at_ms)) => Some(LastVerdict { challenge, outcome, at_ms }),
        _ => None,
    };
    Ok(read!(row => MinerRecord {
        id, key, state, first_seen_ms, last_seen_ms, address, software, connected_to;
        keys: keys.iter().flat_map(|keys| keys.split(' ')).map(str::to_owned).collect(),
        status: status_of(&get::<String>(row, "status")?)?,
        labels: json(&get::<String>(row, "labels")?, "labels")?,
        standing: standing.map(|text| json(&text, "standing")).transpose()?,
        due: due_of(row)?,
        last_verdict,
    }))
}

pub(crate) fn action_of(row: &AnyRow) -> Result<OperatorAction> {
    let uid: Option<i64> = get(row, "uid")?;
    Ok(read!(row => OperatorAction {
        id, at_ms, action, miner, detail;
        actor: Actor { name: get(row, "actor")?, uid: uid.and_then(|uid| u32::try_from(uid).ok()) },
    }))
}
