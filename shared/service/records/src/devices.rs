//! Devices as miners list them, and their history.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sqlx::any::AnyRow;

use crate::column::{get, read};
use crate::document::json;
use crate::rows::{Rows, placeholders};
use crate::tx::Tx;
use crate::{DeviceEvent, DeviceRecord, MAX_ROWS, Records, Result, id};

/// A device that a miner lists: all of it claims.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedDevice {
    /// Its id, in hexadecimal.
    pub device_id: String,
    /// The name that the miner gives it.
    pub name: String,
    /// The product name; empty where it is unknown.
    pub model: String,
    /// The total memory; 0 where it is unknown.
    pub memory_bytes: i64,
    /// The miner's other claims about it, as JSON; empty without any.
    pub claims: String,
}

/// A selection of devices; an empty field selects all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeviceQuery {
    /// Any key of the miner.
    pub miner: Option<String>,
    /// The device's id or its beginning.
    pub device_id: Option<String>,
    pub model: Option<String>,
    /// Also those that are gone.
    pub gone: bool,
    /// Only those that follow this miner and device in order of both.
    pub after: Option<(String, String)>,
    /// The most rows, [`MAX_ROWS`] at most.
    pub limit: Option<u32>,
}

impl Records {
    /// Devices in order of miner and id.
    pub async fn devices(&self, filter: &DeviceQuery) -> Result<Vec<DeviceRecord>> {
        let sql = sql!(
            "SELECT d.*, (SELECT {}(other.miner, ' ') FROM (SELECT o.miner FROM devices o WHERE o.device_id = d.device_id \
             AND o.miner <> d.miner ORDER BY o.miner LIMIT {MAX_ELSEWHERE}) AS other) AS also_at FROM devices d \
             WHERE ($1 = '' OR miner = (SELECT k.miner FROM miner_keys k WHERE k.key = $1)) \
             AND device_id >= $2 AND ($2 = '' OR device_id < $3) AND ($4 = '' OR model = $4) \
             AND ($5 = 1 OR gone_ms IS NULL) AND (miner > $6 OR (miner = $6 AND device_id > $7)) \
             ORDER BY miner, device_id LIMIT $8",
            self.store.kind.join()
        );
        let prefix = filter.device_id.as_deref().unwrap_or("");
        let (miner, device) = filter.after.clone().unwrap_or_default();
        let query = sqlx::query(sql)
            .bind(filter.miner.as_deref().unwrap_or(""))
            .bind(prefix)
            .bind(format!("{prefix}g"))
            .bind(filter.model.as_deref().unwrap_or(""))
            .bind(i64::from(filter.gone))
            .bind(miner)
            .bind(device)
            .bind(i64::from(filter.limit.unwrap_or(MAX_ROWS).min(MAX_ROWS)));
        self.list("list devices", query, device_of).await
    }

    /// The changes of a miner's devices, or of one device at all miners, newest first.
    pub async fn device_events(
        &self,
        miner: Option<&str>,
        device_id: Option<&str>,
        limit: u32,
    ) -> Result<Vec<DeviceEvent>> {
        // Only the conditions in use are in the statement: then the database can choose an index by them.
        let of_miner = match miner {
            Some(_) => "miner = (SELECT k.miner FROM miner_keys k WHERE k.key = $1)",
            None => "$1 = ''",
        };
        let of_device = if device_id.is_some() { "device_id = $2" } else { "$2 = ''" };
        let sql =
            sql!("SELECT * FROM device_events WHERE {of_miner} AND {of_device} ORDER BY at_ms DESC, id DESC LIMIT $3");
        let query = sqlx::query(sql).bind(miner.unwrap_or("")).bind(device_id.unwrap_or(""));
        self.list("list changes of devices", query.bind(i64::from(limit.min(MAX_ROWS))), event_of).await
    }
}

fn device_of(row: &AnyRow) -> Result<DeviceRecord> {
    let also_at: Option<String> = get(row, "also_at")?;
    Ok(read!(row => DeviceRecord {
        miner, device_id, name, model, memory_bytes, first_seen_ms, last_seen_ms, gone_ms, last_challenge,
        last_pass_ms;
        claims: json(&get::<String>(row, "claims")?, "claims")?,
        also_at: also_at.unwrap_or_default().split_whitespace().map(str::to_owned).collect(),
    }))
}

pub(crate) fn event_of(row: &AnyRow) -> Result<DeviceEvent> {
    Ok(read!(row => DeviceEvent { id, miner, device_id, at_ms, what, other_miner, session, detail }))
}

/// Known devices of a miner beyond which those are removed that are gone and never showed work: four times the most
/// that an inventory lists at once, since inventories cost nothing to make up.
const MAX_KNOWN_DEVICES: i64 = 256;
/// Changes of a miner's devices that are kept, the newest: of sixty-four devices that come and go once a day, a
/// month's.
const MAX_DEVICE_EVENTS: i64 = 4096;
/// Other miners that are named where a device is listed elsewhere too.
const MAX_ELSEWHERE: u32 = 16;

/// Events of a miner's devices, with the session and time of their detection.
struct DetectedEvents<'a> {
    miner: &'a str,
    session: &'a str,
    at_ms: i64,
    events: Rows<8>,
}

/// Notes a miner's inventory and its changes: in a number of statements that does not grow with its devices.
pub(crate) async fn note(
    tx: &mut Tx,
    miner: &str,
    session: &str,
    seen: &BTreeMap<&str, &ListedDevice>,
    at_ms: i64,
) -> Result<()> {
    let insert = "INSERT INTO device_events (id, miner, device_id, at_ms, what, other_miner, session, detail) VALUES";
    let mut noticed = DetectedEvents { miner, session, at_ms, events: Rows::new(insert, "") };
    let ids: Vec<_> = seen.keys().copied().collect();
    let mut known = known(tx, miner, &ids).await?;
    let is_listed = |id: &&str| known.get(*id).is_some_and(|device| device.gone_ms.is_none());
    let came: Vec<_> = ids.iter().copied().filter(|id| !is_listed(id)).collect();
    let mut elsewhere = elsewhere(tx, miner, &came).await?;
    for (id, device) in seen {
        let before = known.remove(*id);
        match &before {
            None => noticed.event(id, "seen", None, &device.name)?,
            Some(RecordedDevice { gone_ms: Some(_), .. }) => noticed.event(id, "returned", None, &device.name)?,
            Some(RecordedDevice { name, model, .. }) if (name, model) != (&device.name, &device.model) => {
                let detail = format!("{name} {model} → {} {}", device.name, device.model);
                noticed.event(id, "renamed", None, &detail)?;
            }
            Some(_) => {}
        }
        for (other, gone_ms) in elsewhere.remove(*id).unwrap_or_default() {
            let detail =
                if gone_ms.is_some() { "the other miner listed it before" } else { "the other miner lists it" };
            noticed.event(id, "elsewhere", Some(other), detail)?;
        }
    }
    for (id, device) in &known {
        noticed.event(id, "gone", None, &device.name)?;
    }
    upsert(tx, miner, seen, at_ms).await?;
    if !known.is_empty() {
        let sql = sql!(
            "UPDATE devices SET gone_ms = $2 WHERE miner = $1 AND gone_ms IS NULL AND NOT {}",
            within(3, ids.len())
        );
        let update = sqlx::query(sql).bind(miner).bind(at_ms);
        ids.iter().fold(update, |query, id| query.bind(*id)).execute(&mut **tx).await?;
    }
    if noticed.events.execute(tx).await? > 0 {
        remove_oldest(tx, miner).await?;
    }
    Ok(())
}

/// The records' knowledge of a device before an inventory.
struct RecordedDevice {
    name: String,
    model: String,
    gone_ms: Option<i64>,
}

/// The condition that a device is one of `count`, by parameters from the number `first` on.
fn within(first: usize, count: usize) -> String {
    match count {
        // Both databases refuse an empty list.
        0 => "(1 = 0)".to_owned(),
        _ => format!("device_id IN ({})", placeholders(first, count)),
    }
}

/// Devices of a miner: those that it listed until now, and these.
async fn known(tx: &mut Tx, miner: &str, ids: &[&str]) -> Result<BTreeMap<String, RecordedDevice>> {
    let sql = sql!(
        "SELECT device_id, name, model, gone_ms FROM devices WHERE miner = $1 AND (gone_ms IS NULL OR {})",
        within(2, ids.len())
    );
    let rows = ids.iter().fold(sqlx::query(sql).bind(miner), |query, id| query.bind(*id));
    let rows = rows.fetch_all(&mut **tx).await?;
    let device = |row: &AnyRow| {
        let known =
            RecordedDevice { name: get(row, "name")?, model: get(row, "model")?, gone_ms: get(row, "gone_ms")? };
        Ok((get(row, "device_id")?, known))
    };
    rows.iter().map(device).collect()
}

type Elsewhere = BTreeMap<String, Vec<(String, Option<i64>)>>;

/// The other miners that list these devices, or did, and since when they do not: [`MAX_ELSEWHERE`] of each.
async fn elsewhere(tx: &mut Tx, miner: &str, ids: &[&str]) -> Result<Elsewhere> {
    let mut found = Elsewhere::new();
    if ids.is_empty() {
        return Ok(found);
    }
    let of_each = (2..).zip(ids).map(|(number, _)| {
        format!(
            "SELECT * FROM (SELECT device_id, miner, gone_ms FROM devices WHERE device_id = ${number} \
             AND miner <> $1 ORDER BY miner LIMIT {MAX_ELSEWHERE}) AS other"
        )
    });
    let sql = sql!("{}", of_each.collect::<Vec<_>>().join(" UNION ALL "));
    // Not kept by the connection: it is another one for each number of devices.
    let others = ids.iter().fold(sqlx::query(sql).persistent(false).bind(miner), |query, id| query.bind(*id));
    for row in &others.fetch_all(&mut **tx).await? {
        found.entry(get(row, "device_id")?).or_default().push((get(row, "miner")?, get(row, "gone_ms")?));
    }
    Ok(found)
}

async fn upsert(tx: &mut Tx, miner: &str, seen: &BTreeMap<&str, &ListedDevice>, at_ms: i64) -> Result<()> {
    let mut upsert = Rows::new(
        "INSERT INTO devices (miner, device_id, name, model, memory_bytes, claims, first_seen_ms, last_seen_ms) VALUES",
        " ON CONFLICT (miner, device_id) DO UPDATE SET name = excluded.name, model = excluded.model, \
         memory_bytes = excluded.memory_bytes, claims = excluded.claims, last_seen_ms = excluded.last_seen_ms, \
         gone_ms = NULL",
    );
    for ListedDevice { device_id, name, model, memory_bytes, claims } in seen.values() {
        let claims = if claims.is_empty() { "null" } else { claims.as_str() };
        upsert.push([
            miner.into(),
            device_id.as_str().into(),
            name.as_str().into(),
            model.as_str().into(),
            (*memory_bytes).into(),
            claims.into(),
            at_ms.into(),
            at_ms.into(),
        ]);
    }
    upsert.execute(tx).await.map(drop)
}

/// Removes a miner's rows beyond the bounds: devices that are gone and never showed work, and changes.
async fn remove_oldest(tx: &mut Tx, miner: &str) -> Result<()> {
    let known: i64 =
        sqlx::query_scalar("SELECT COUNT(*) FROM devices WHERE miner = $1").bind(miner).fetch_one(&mut **tx).await?;
    if known > MAX_KNOWN_DEVICES {
        let sql = "DELETE FROM devices WHERE miner = $1 AND device_id IN (SELECT o.device_id FROM devices o \
             WHERE o.miner = $1 AND o.gone_ms IS NOT NULL AND o.last_pass_ms IS NULL \
             ORDER BY o.last_seen_ms, o.device_id LIMIT $2)";
        sqlx::query(sql).bind(miner).bind(known - MAX_KNOWN_DEVICES).execute(&mut **tx).await?;
    }
    let sql = "DELETE FROM device_events WHERE miner = $1 AND at_ms < (SELECT o.at_ms FROM device_events o \
         WHERE o.miner = $1 ORDER BY o.at_ms DESC LIMIT 1 OFFSET $2)";
    sqlx::query(sql).bind(miner).bind(MAX_DEVICE_EVENTS - 1).execute(&mut **tx).await?;
    Ok(())
}

impl DetectedEvents<'_> {
    fn event(&mut self, device_id: &str, what: &str, other: Option<String>, detail: &str) -> Result<()> {
        self.events.push([
            id::new(self.at_ms)?.into(),
            self.miner.into(),
            device_id.into(),
            self.at_ms.into(),
            what.into(),
            other.into(),
            self.session.into(),
            detail.into(),
        ]);
        Ok(())
    }
}
