//! Which miner a key is: miners are chains of keys.

use std::collections::HashMap;

use assay_policy::{Labels, Standing};

use crate::action::note_action;
use crate::column::get;
use crate::document::{json, to_json};
use crate::miner::status_of;
use crate::rows::Rows;
use crate::tx::Tx;
use crate::{Actor, Approval, RecordsError, Result};

/// The id of the miner with a key.
async fn find(tx: &mut Tx, key: &str) -> Result<Option<String>> {
    let found = sqlx::query_scalar("SELECT miner FROM miner_keys WHERE key = $1").bind(key);
    Ok(found.fetch_optional(&mut **tx).await?)
}

/// The id of a miner that must be known.
pub(crate) async fn known_miner(tx: &mut Tx, key: &str) -> Result<String> {
    find(tx, key).await?.ok_or_else(|| RecordsError::NoSuchMiner(key.to_owned()))
}

/// The id of a miner, noted with this status when it is new.
pub(crate) async fn ensure_miner(tx: &mut Tx, key: &str, status: Approval, at_ms: i64) -> Result<String> {
    if let Some(miner) = find(tx, key).await? {
        return Ok(miner);
    }
    let sql = "INSERT INTO miners (id, key, status, labels, state, first_seen_ms, last_seen_ms, address, software) \
         VALUES ($1, $1, $2, '{}', 'enrolled', $3, $3, '', '') ON CONFLICT (id) DO NOTHING";
    sqlx::query(sql).bind(key).bind(status.name()).bind(at_ms).execute(&mut **tx).await?;
    let sql = "INSERT INTO miner_keys (key, miner, position, since_ms) VALUES ($1, $1, 0, $2) \
         ON CONFLICT (key) DO NOTHING";
    sqlx::query(sql).bind(key).bind(at_ms).execute(&mut **tx).await?;
    // Another validator may have been faster, and may know it as a successor.
    known_miner(tx, key).await
}

/// The ids of miners by their keys, in their order; those that were never seen are noted at the times given.
pub(crate) async fn ensure_miners(tx: &mut Tx, keys: Vec<(String, i64)>) -> Result<Vec<String>> {
    let mut select = Rows::new("SELECT k.key AS key, k.miner AS miner FROM miner_keys k WHERE k.key IN (VALUES", ")");
    keys.iter().for_each(|(key, _)| select.push([key.as_str().into()]));
    let found = select.fetch(tx).await?;
    let found = found.iter().map(|row| Ok((get(row, "key")?, get(row, "miner")?)));
    let mut known = found.collect::<Result<HashMap<String, String>>>()?;
    let mut miners = Vec::new();
    for (key, at_ms) in keys {
        let miner = match known.get(&key) {
            Some(miner) => miner.clone(),
            None => ensure_miner(tx, &key, Approval::Pending, at_ms).await?,
        };
        known.insert(key, miner.clone());
        miners.push(miner);
    }
    Ok(miners)
}

/// Every table that names a miner besides its keys and the results that its devices showed, and under which column.
const OF_A_MINER: [(&str, &str); 14] = [
    ("sessions", "miner"),
    ("device_events", "miner"),
    ("device_events", "other_miner"),
    ("challenges", "miner"),
    ("verdicts", "miner"),
    ("transitions", "miner"),
    ("findings", "miner"),
    ("findings", "other_miner"),
    ("receipts", "miner"),
    ("actions", "miner"),
    ("tokens", "used_by"),
    ("devices", "miner"),
    ("round_members", "miner"),
    ("device_results", "miner"),
];

/// The most keys of a miner: a change a month for five years.
pub(crate) const MAX_KEYS: i64 = 64;

/// Makes a chain of keys, oldest first, one miner, and gives its id. The records of several ids become the oldest's,
/// with the stricter status and [`Standing::joined`], and the labels of both: a new key sheds nothing. Unknown keys
/// before a known one stay out: a miner can make up any.
///
/// # Errors
/// [`RecordsError::TooMany`] keys, or the store cannot be written.
pub(crate) async fn join_keys(tx: &mut Tx, chain: &[&str], status: Approval, at_ms: i64) -> Result<String> {
    let (mut miner, mut chain): (Option<String>, _) = (None, chain);
    for (at, key) in chain.iter().enumerate() {
        match (&miner, find(tx, key).await?) {
            (None, Some(found)) => (miner, chain) = (Some(found), &chain[at..]),
            (Some(kept), Some(other)) if *kept != other => merge(tx, kept, &other).await?,
            _ => {}
        }
    }
    let miner = match (miner, chain.first()) {
        (Some(miner), _) => miner,
        (None, Some(first)) => ensure_miner(tx, first, status, at_ms).await?,
        (None, None) => return Err(RecordsError::NoSuchMiner(String::new())),
    };
    let mut next = 0;
    for key in chain {
        // A key that is new, or was older than the one before it, comes after all of the miner.
        let sql = "SELECT COALESCE((SELECT k.position FROM miner_keys k WHERE k.key = $1 AND k.position >= $3), \
             (SELECT MAX(k.position) + 1 FROM miner_keys k WHERE k.miner = $2), 0)";
        let position: i64 = sqlx::query_scalar(sql).bind(*key).bind(&miner).bind(next).fetch_one(&mut **tx).await?;
        let sql = "INSERT INTO miner_keys (key, miner, position, since_ms) VALUES ($1, $2, $3, $4) \
             ON CONFLICT (key) DO UPDATE SET position = $3";
        sqlx::query(sql).bind(*key).bind(&miner).bind(position).bind(at_ms).execute(&mut **tx).await?;
        next = position + 1;
    }
    let count = sqlx::query_scalar("SELECT COUNT(*) FROM miner_keys WHERE miner = $1").bind(&miner);
    let keys: i64 = count.fetch_one(&mut **tx).await?;
    if keys > MAX_KEYS {
        return Err(RecordsError::TooMany { what: "keys of the miner", max: MAX_KEYS });
    }
    let newest = "SELECT k.key FROM miner_keys k WHERE k.miner = $1 ORDER BY k.position DESC, k.since_ms DESC LIMIT 1";
    let sql = sql!("UPDATE miners SET key = ({newest}) WHERE id = $1 AND key <> ({newest}) RETURNING key, status");
    let changed = sqlx::query(sql).bind(&miner).fetch_optional(&mut **tx).await?;
    if let Some(row) = changed
        && status_of(&get::<String>(&row, "status")?)? == Approval::Approved
    {
        // As an operator's action, which the other validators of these records follow.
        let detail = format!("to {}", get::<String>(&row, "key")?);
        note_action(tx, &Actor::validator(), "rotate", Some(&miner), &detail).await?;
    }
    Ok(miner)
}

/// The parts of a record that are joined.
struct Joined {
    status: Approval,
    standing: Standing,
    labels: Labels,
    first_seen_ms: i64,
}

async fn read(tx: &mut Tx, miner: &str) -> Result<Joined> {
    let sql = "SELECT status, state, standing, labels, first_seen_ms FROM miners WHERE id = $1";
    let row = sqlx::query(sql).bind(miner).fetch_one(&mut **tx).await?;
    let text = |name| get::<String>(&row, name);
    let standing: Option<String> = get(&row, "standing")?;
    let standing = standing.map(|standing| json::<Standing>(&standing, "standing")).transpose()?.unwrap_or_default();
    Ok(Joined {
        status: status_of(&text("status")?)?,
        standing: Standing { state: json(&format!("\"{}\"", text("state")?), "state")?, ..standing },
        labels: json(&text("labels")?, "labels")?,
        first_seen_ms: get(&row, "first_seen_ms")?,
    })
}

/// Gives devices that both miners list the later of their passes.
async fn raise_devices(tx: &mut Tx, kept: &str, gone: &str) -> Result<()> {
    let sql = "UPDATE devices AS d SET last_pass_ms = o.last_pass_ms FROM devices AS o WHERE d.miner = $1 \
         AND o.miner = $2 AND o.device_id = d.device_id AND o.last_pass_ms > COALESCE(d.last_pass_ms, 0)";
    sqlx::query(sql).bind(kept).bind(gone).execute(&mut **tx).await?;
    Ok(())
}

/// Makes the results of one miner's devices another's. Of two of one device the most bytes and the fastest linked probe
/// stay, and the later rates: otherwise a key that showed less would forget what another one showed.
async fn join_shown(tx: &mut Tx, kept: &str, gone: &str) -> Result<()> {
    let set = |by: &str, column: &str| {
        format!("{column} = CASE WHEN excluded.{by} > shown.{by} THEN excluded.{column} ELSE shown.{column} END")
    };
    let most = ["bytes", "linked_bytes_per_s", "at_ms"].map(|column| set(column, column)).join(", ");
    let latest = ["name", "macs_per_s", "tops", "probe_bytes_per_s"].map(|column| set("at_ms", column)).join(", ");
    let columns = "device_id, precision, name, bytes, macs_per_s, tops, probe_bytes_per_s, linked_bytes_per_s, at_ms";
    let sql = sql!(
        "INSERT INTO shown (miner, {columns}) SELECT $1, {columns} FROM shown WHERE miner = $2 \
         ON CONFLICT (miner, device_id, precision) DO UPDATE SET {most}, {latest}"
    );
    sqlx::query(sql).bind(kept).bind(gone).execute(&mut **tx).await?;
    sqlx::query("DELETE FROM shown WHERE miner = $1").bind(gone).execute(&mut **tx).await?;
    Ok(())
}

/// Makes everything of one miner another's.
async fn merge(tx: &mut Tx, kept: &str, gone: &str) -> Result<()> {
    let (ours, theirs) = (read(tx, kept).await?, read(tx, gone).await?);
    let standing = ours.standing.joined(theirs.standing);
    let (mut labels, older) = match theirs.first_seen_ms < ours.first_seen_ms {
        true => (ours.labels, theirs.labels),
        false => (theirs.labels, ours.labels),
    };
    labels.extend(older);
    // Of two due challenges the earlier one: another key puts none off.
    let sql = "UPDATE miners SET status = $2, state = $3, standing = $4, labels = $5, first_seen_ms = $6, \
         due_ms = (SELECT MIN(m.due_ms) FROM miners m WHERE m.id IN ($1, $7)), \
         due_kind = (SELECT MIN(m.due_kind) FROM miners m WHERE m.id IN ($1, $7)) WHERE id = $1";
    let last = "UPDATE miners SET last_challenge = o.last_challenge, last_outcome = o.last_outcome, \
         last_verdict_ms = o.last_verdict_ms FROM miners o WHERE miners.id = $1 AND o.id = $2 \
         AND o.last_verdict_ms > COALESCE(miners.last_verdict_ms, 0)";
    let update = sqlx::query(sql).bind(kept).bind(ours.status.stricter(theirs.status).name());
    let update =
        update.bind(standing.state.name()).bind(to_json(&standing, "standing")?).bind(to_json(&labels, "labels")?);
    update.bind(ours.first_seen_ms.min(theirs.first_seen_ms)).bind(gone).execute(&mut **tx).await?;
    sqlx::query(last).bind(kept).bind(gone).execute(&mut **tx).await?;
    raise_devices(tx, kept, gone).await?;
    // Rows that both have are kept once.
    for (table, column) in [("devices", "device_id"), ("round_members", "round")] {
        let sql = sql!(
            "DELETE FROM {table} WHERE miner = $2 AND {column} IN (SELECT o.{column} FROM {table} o WHERE o.miner = $1)"
        );
        sqlx::query(sql).bind(kept).bind(gone).execute(&mut **tx).await?;
    }
    join_shown(tx, kept, gone).await?;
    sqlx::query("UPDATE miner_keys SET miner = $1 WHERE miner = $2").bind(kept).bind(gone).execute(&mut **tx).await?;
    for (table, column) in OF_A_MINER {
        let sql = sql!("UPDATE {table} SET {column} = $1 WHERE {column} = $2");
        sqlx::query(sql).bind(kept).bind(gone).execute(&mut **tx).await?;
    }
    sqlx::query("DELETE FROM miners WHERE id = $1").bind(gone).execute(&mut **tx).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use sqlx::Row;

    use super::*;
    use crate::{Location, Records};

    /// Regression test: to remove a stranger, and to join two records, walked over the results of all devices.
    #[tokio::test]
    async fn rows_that_name_others_are_found_by_an_index() {
        let folder = tempfile::tempdir().unwrap();
        let records = Records::open(&Location::File(folder.path().join("validator.db"))).await.unwrap();
        // An index without some of the rows is of no use to the check of a reference.
        let sql = "SELECT t.name || '.' || f.\"from\" FROM sqlite_master t, pragma_foreign_key_list(t.name) f \
             WHERE t.type = 'table' AND NOT EXISTS (SELECT 1 FROM pragma_index_list(t.name) l, \
             pragma_index_info(l.name) i WHERE l.partial = 0 AND i.seqno = 0 AND i.name = f.\"from\")";
        let bare: Vec<String> = sqlx::query_scalar(sql).fetch_all(records.store.writers()).await.unwrap();
        assert_eq!(bare, [] as [String; 0]);
        for (table, column) in OF_A_MINER {
            let sql = sql!("EXPLAIN QUERY PLAN UPDATE {table} SET {column} = $1 WHERE {column} = $2");
            let plan = sqlx::query(sql).bind("a").bind("b").fetch_all(records.store.writers()).await.unwrap();
            let plan: Vec<String> = plan.iter().map(|row| row.get("detail")).collect();
            assert!(plan[0].starts_with("SEARCH"), "{table}.{column}: {plan:#?}");
        }
    }
}
