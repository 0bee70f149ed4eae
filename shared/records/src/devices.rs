//! Devices as miners list them, and their history.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sqlx::any::AnyRow;

use crate::column::get;
use crate::document::json;
use crate::tx::Tx;
use crate::{MAX_ROWS, Records, RecordsError, id};

/// A device that a miner lists: all of it claims.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceSeen {
    /// Its id, in hexadecimal.
    pub device_id: String,
    /// The name that the miner gives it.
    pub name: String,
    /// The product name; empty where it is unknown.
    pub model: String,
    /// The total memory; 0 where it is unknown.
    pub memory_bytes: i64,
    /// What else the miner says about it, as JSON; empty for nothing.
    pub claims: String,
}

/// A device of a miner.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct DeviceRecord {
    /// The miner's id.
    pub miner: String,
    /// Its id: a claim.
    pub device_id: String,
    /// The name that the miner gives it: a claim.
    pub name: String,
    /// The product name: a claim; empty where it is unknown.
    pub model: String,
    /// The total memory: a claim; 0 where it is unknown.
    pub memory_bytes: i64,
    /// What else the miner says about it.
    #[cfg_attr(feature = "schema", schema(value_type = Option<Object>))]
    pub claims: Box<RawValue>,
    /// When the miner listed it first.
    pub first_seen_ms: i64,
    /// When the miner listed it last.
    pub last_seen_ms: i64,
    /// Since when the miner does not list it any more.
    pub gone_ms: Option<i64>,
    /// The last challenge that it took part in.
    pub last_challenge: Option<String>,
    /// When its work held last.
    pub last_pass_ms: Option<i64>,
    /// The other miners that list this id now or did.
    pub also_at: Vec<String>,
}

/// Which devices; what is empty leaves none out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceFilter {
    /// Any key of the miner.
    pub miner: Option<String>,
    /// The device's id or its beginning.
    pub device_id: Option<String>,
    /// The product name.
    pub model: Option<String>,
    /// Also those that are gone.
    pub gone: bool,
    /// Only those that follow this miner and device in order of both.
    pub after: Option<(String, String)>,
    /// At most so many, and at most [`MAX_ROWS`].
    pub limit: Option<u32>,
}

/// A change of a miner's devices.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct DeviceEvent {
    /// Its id.
    pub id: String,
    /// The miner's id.
    pub miner: String,
    /// The device.
    pub device_id: String,
    /// When.
    pub at_ms: i64,
    /// `seen`, `returned`, `gone`, `renamed`, or `elsewhere`: another miner lists it too, or did.
    pub what: String,
    /// The other miner.
    pub other_miner: Option<String>,
    /// The session in which it was noticed.
    pub session: Option<String>,
    /// The circumstances.
    pub detail: String,
}

impl Records {
    /// Devices in order of miner and id.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn devices(&self, filter: &DeviceFilter) -> Result<Vec<DeviceRecord>, RecordsError> {
        let sql = "SELECT * FROM devices WHERE ($1 = '' OR miner = (SELECT k.miner FROM miner_keys k WHERE k.key = $1)) \
             AND device_id >= $2 AND ($2 = '' OR device_id < $3) AND ($4 = '' OR model = $4) \
             AND ($5 = 1 OR gone_ms IS NULL) AND (miner > $6 OR (miner = $6 AND device_id > $7)) \
             ORDER BY miner, device_id LIMIT $8";
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
        let rows = query.fetch_all(self.read()).await.map_err(|e| RecordsError::from(e).doing("list devices"))?;
        let mut devices = Vec::with_capacity(rows.len());
        for row in rows {
            devices.push(self.device_of(&row).await?);
        }
        Ok(devices)
    }

    /// What changed about a miner's devices, or about one device at all miners, newest first.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn device_events(
        &self,
        miner: Option<&str>,
        device_id: Option<&str>,
        limit: u32,
    ) -> Result<Vec<DeviceEvent>, RecordsError> {
        let sql = "SELECT * FROM device_events \
             WHERE ($1 = '' OR miner = (SELECT k.miner FROM miner_keys k WHERE k.key = $1)) \
             AND ($2 = '' OR device_id = $2) ORDER BY at_ms DESC, id DESC LIMIT $3";
        let query = sqlx::query(sql).bind(miner.unwrap_or("")).bind(device_id.unwrap_or(""));
        let rows = query.bind(i64::from(limit.min(MAX_ROWS))).fetch_all(self.read()).await;
        let rows = rows.map_err(|e| RecordsError::from(e).doing("list changes of devices"))?;
        rows.iter().map(event_of).collect()
    }

    async fn device_of(&self, row: &AnyRow) -> Result<DeviceRecord, RecordsError> {
        let (miner, device_id): (String, String) = (get(row, "miner")?, get(row, "device_id")?);
        let sql = "SELECT miner FROM devices WHERE device_id = $1 AND miner <> $2 ORDER BY miner LIMIT 16";
        let also_at = sqlx::query_scalar(sql).bind(&device_id).bind(&miner).fetch_all(self.read()).await?;
        Ok(DeviceRecord {
            miner,
            device_id,
            name: get(row, "name")?,
            model: get(row, "model")?,
            memory_bytes: get(row, "memory_bytes")?,
            claims: json(&get::<String>(row, "claims")?, "claims")?,
            first_seen_ms: get(row, "first_seen_ms")?,
            last_seen_ms: get(row, "last_seen_ms")?,
            gone_ms: get(row, "gone_ms")?,
            last_challenge: get(row, "last_challenge")?,
            last_pass_ms: get(row, "last_pass_ms")?,
            also_at,
        })
    }
}

pub(crate) fn event_of(row: &AnyRow) -> Result<DeviceEvent, RecordsError> {
    Ok(DeviceEvent {
        id: get(row, "id")?,
        miner: get(row, "miner")?,
        device_id: get(row, "device_id")?,
        at_ms: get(row, "at_ms")?,
        what: get(row, "what")?,
        other_miner: get(row, "other_miner")?,
        session: get(row, "session")?,
        detail: get(row, "detail")?,
    })
}

/// Where and when something about devices was noticed.
struct Noticed<'a> {
    miner: &'a str,
    session: &'a str,
    at_ms: i64,
}

/// Notes what a miner lists, and what changed by that.
pub(crate) async fn note(
    tx: &mut Tx,
    miner: &str,
    session: &str,
    seen: &BTreeMap<&str, &DeviceSeen>,
    at_ms: i64,
) -> Result<(), RecordsError> {
    let noticed = Noticed { miner, session, at_ms };
    let rows = sqlx::query("SELECT device_id, name, model, gone_ms FROM devices WHERE miner = $1").bind(miner);
    let rows = rows.fetch_all(&mut **tx).await?;
    let mut known = BTreeMap::new();
    for row in &rows {
        let names: (String, String) = (get(row, "name")?, get(row, "model")?);
        known.insert(get::<String>(row, "device_id")?, (names, get::<Option<i64>>(row, "gone_ms")?));
    }
    for (id, device) in seen {
        let names = (device.name.clone(), device.model.clone());
        match known.remove(*id) {
            None => {
                noticed.event(tx, id, "seen", None, &device.name).await?;
                noticed.elsewhere(tx, id).await?;
            }
            Some((_, Some(_))) => {
                noticed.event(tx, id, "returned", None, &device.name).await?;
                noticed.elsewhere(tx, id).await?;
            }
            Some((before, None)) if before != names => {
                let detail = format!("{} {} → {} {}", before.0, before.1, names.0, names.1);
                noticed.event(tx, id, "renamed", None, &detail).await?;
            }
            Some(_) => {}
        }
        noticed.upsert(tx, device).await?;
    }
    for (id, (names, gone_ms)) in known {
        if gone_ms.is_none() {
            noticed.event(tx, &id, "gone", None, &names.0).await?;
            let sql = "UPDATE devices SET gone_ms = $3 WHERE miner = $1 AND device_id = $2";
            sqlx::query(sql).bind(miner).bind(&id).bind(at_ms).execute(&mut **tx).await?;
        }
    }
    Ok(())
}

impl Noticed<'_> {
    async fn upsert(&self, tx: &mut Tx, device: &DeviceSeen) -> Result<(), RecordsError> {
        let DeviceSeen { device_id, name, model, memory_bytes, claims } = device;
        let claims = if claims.is_empty() { "null" } else { claims.as_str() };
        let sql = "INSERT INTO devices (miner, device_id, name, model, memory_bytes, claims, first_seen_ms, \
             last_seen_ms) VALUES ($1, $2, $3, $4, $5, $6, $7, $7) ON CONFLICT (miner, device_id) DO UPDATE SET \
             name = $3, model = $4, memory_bytes = $5, claims = $6, last_seen_ms = $7, gone_ms = NULL";
        let upsert = sqlx::query(sql).bind(self.miner).bind(device_id).bind(name).bind(model).bind(*memory_bytes);
        upsert.bind(claims).bind(self.at_ms).execute(&mut **tx).await?;
        Ok(())
    }

    async fn event(
        &self,
        tx: &mut Tx,
        device_id: &str,
        what: &str,
        other_miner: Option<&str>,
        detail: &str,
    ) -> Result<(), RecordsError> {
        let sql = "INSERT INTO device_events (id, miner, device_id, at_ms, what, other_miner, session, detail) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
        let insert = sqlx::query(sql).bind(id::new(self.at_ms)?).bind(self.miner).bind(device_id).bind(self.at_ms);
        insert.bind(what).bind(other_miner).bind(self.session).bind(detail).execute(&mut **tx).await?;
        Ok(())
    }

    /// Notes the other miners that list a device, or did.
    async fn elsewhere(&self, tx: &mut Tx, device_id: &str) -> Result<(), RecordsError> {
        let sql = "SELECT miner, gone_ms FROM devices WHERE device_id = $1 AND miner <> $2 ORDER BY miner LIMIT 16";
        let others = sqlx::query(sql).bind(device_id).bind(self.miner).fetch_all(&mut **tx).await?;
        for row in &others {
            let (other, gone_ms): (String, Option<i64>) = (get(row, "miner")?, get(row, "gone_ms")?);
            let detail =
                if gone_ms.is_some() { "the other miner listed it before" } else { "the other miner lists it" };
            self.event(tx, device_id, "elsewhere", Some(&other), detail).await?;
        }
        Ok(())
    }
}
