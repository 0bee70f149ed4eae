//! Sessions of miners, and the devices that each listed.

use std::collections::BTreeMap;

use sqlx::any::AnyRow;

use crate::column::{get, read};
use crate::devices::ListedDevice;
use crate::document::json;
use crate::keys::join_keys;
use crate::rows::Rows;
use crate::tx::Tx;
use crate::{
    Approval, ConnectedEvent, DisconnectedEvent, EventDocument, MAX_ROWS, MinerRecord, Records, RecordsError, Result,
    SessionRecord, devices, id,
};

/// Sessions of a miner that are kept, the newest: of one that connects anew every hour, half a year's.
const MAX_SESSIONS: i64 = 4096;
/// Why a session ended whose validator's process counted as lost.
pub(crate) const LOST: &str = "the validator was lost";

#[derive(Debug, Clone)]
pub struct ConnectedSession {
    /// The session's id, in hexadecimal.
    pub session: String,
    /// The validator's key, and which run of its process ([`Records::heartbeat`]).
    pub validator: String,
    /// Which run of the validator's process.
    pub instance: String,
    /// Its keys, oldest first, each proven by the one before; the last one is the session's.
    pub keys: Vec<String>,
    /// The status when it is not known yet.
    pub status: Approval,
    /// Where it connects from, without the port.
    pub address: String,
    /// The software that it names: a claim.
    pub software: String,
    pub devices: Vec<ListedDevice>,
    /// Other claims about its host, as JSON.
    pub inventory: String,
    /// The time, in ms since 1970.
    pub at_ms: i64,
}

impl Records {
    /// Notes a miner that connected: the miner and its keys, the session, and the devices it lists. Devices that come,
    /// go, and lie with other miners too become events. Gives the miner's record back.
    pub async fn connected(&self, connected: &ConnectedSession) -> Result<MinerRecord> {
        let miner = transaction!(self, "note a miner's session", |tx| {
            let miner = note_session(&mut tx, connected).await?;
            devices::note(&mut tx, &miner, &connected.session, &by_id(&connected.devices), connected.at_ms).await?;
            let sql = "DELETE FROM sessions WHERE miner = $1 AND disconnected_ms IS NOT NULL AND connected_ms < \
                 (SELECT o.connected_ms FROM sessions o WHERE o.miner = $1 ORDER BY o.connected_ms DESC \
                 LIMIT 1 OFFSET $2)";
            sqlx::query(sql).bind(&miner).bind(MAX_SESSIONS - 1).execute(&mut *tx).await?;
            miner
        })?;
        self.miner(&miner).await?.ok_or(RecordsError::NoSuchMiner(miner))
    }

    /// Notes that a connected miner lists other devices now.
    ///
    /// # Errors
    /// [`RecordsError::NoSuchMiner`], or the store cannot be written.
    pub async fn devices_changed(&self, key: &str, session: &str, seen: &[ListedDevice], at_ms: i64) -> Result<()> {
        transaction!(self, "note a miner's devices", |tx| {
            let miner = crate::keys::known_miner(&mut tx, key).await?;
            devices::note(&mut tx, &miner, session, &by_id(seen), at_ms).await?;
        })
    }

    pub async fn disconnected(&self, session: &str, at_ms: i64, why: &str) -> Result<()> {
        transaction!(self, "note the end of a session", |tx| {
            let sql = "UPDATE sessions SET disconnected_ms = $2, why = $3 WHERE id = $1 AND disconnected_ms IS NULL \
                 RETURNING *";
            let ended = sqlx::query(sql).bind(session).bind(at_ms).bind(why).fetch_optional(&mut *tx).await?;
            if let Some(row) = ended {
                tell_left(&mut tx, &row)?;
                let sql = "UPDATE miners SET last_seen_ms = $2 WHERE last_seen_ms < $2 \
                     AND id = (SELECT s.miner FROM sessions s WHERE s.id = $1)";
                sqlx::query(sql).bind(session).bind(at_ms).execute(&mut *tx).await?;
            }
        })
    }

    /// Opens sessions anew that were ended because their validator counted as lost, with their events; gives their count.
    pub async fn reopen_sessions(&self, sessions: Vec<String>) -> Result<u64> {
        if sessions.is_empty() {
            return Ok(0);
        }
        let sql =
            format!("UPDATE sessions SET disconnected_ms = NULL, why = NULL WHERE why = '{LOST}' AND id IN (VALUES");
        let after = ") RETURNING *, (SELECT COUNT(*) FROM devices d WHERE d.miner = sessions.miner AND d.gone_ms IS NULL) \
             AS listed";
        let mut update = Rows::new(sql, after);
        sessions.into_iter().for_each(|session| update.push([session.into()]));
        transaction!(self, "open sessions anew", |tx| {
            let opened = update.fetch(&mut tx).await?;
            opened.iter().try_for_each(|row| tell_reopened(&mut tx, row))?;
            opened.len() as u64
        })
    }

    /// The sessions of a miner, newest first.
    pub async fn sessions(&self, miner: &str, limit: u32) -> Result<Vec<SessionRecord>> {
        let sql = "SELECT * FROM sessions WHERE miner = (SELECT k.miner FROM miner_keys k WHERE k.key = $1) \
             ORDER BY connected_ms DESC, id LIMIT $2";
        self.list("list sessions", sqlx::query(sql).bind(miner).bind(i64::from(limit.min(MAX_ROWS))), session_of).await
    }
}

/// A list may name a device twice: the last one counts.
fn by_id(devices: &[ListedDevice]) -> BTreeMap<&str, &ListedDevice> {
    devices.iter().map(|device| (device.device_id.as_str(), device)).collect()
}

async fn note_session(tx: &mut Tx, connected: &ConnectedSession) -> Result<String> {
    let ConnectedSession { session, validator, instance, keys, status, address, software, devices, inventory, at_ms } =
        connected;
    let chain: Vec<_> = keys.iter().map(String::as_str).collect();
    let miner = join_keys(tx, &chain, *status, *at_ms).await?;
    let sql = "UPDATE miners SET last_seen_ms = $2, address = $3, software = $4 WHERE id = $1";
    let update = sqlx::query(sql).bind(&miner).bind(*at_ms).bind(address).bind(software);
    update.execute(&mut **tx).await?;
    let sql = "INSERT INTO sessions (id, miner, key, validator, instance, address, software, inventory, connected_ms) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT (id) DO NOTHING";
    let inventory = if inventory.is_empty() { "null" } else { inventory.as_str() };
    let insert = sqlx::query(sql).bind(session).bind(&miner).bind(keys.last()).bind(validator).bind(instance);
    let noted = insert.bind(address).bind(software).bind(inventory).bind(*at_ms).execute(&mut **tx).await?;
    if noted.rows_affected() > 0 {
        let told = ConnectedEvent {
            session: session.clone(),
            key: keys.last().cloned().unwrap_or_default(),
            validator: validator.clone(),
            address: address.clone(),
            software: software.clone(),
            devices: u32::try_from(devices.len()).unwrap_or(u32::MAX),
        };
        tx.tell(*at_ms, Some(&miner), None, EventDocument::MinerConnected(told));
    }
    Ok(miner)
}

/// Adds the event of a session that has just ended: a row of `sessions`.
pub(crate) fn tell_left(tx: &mut Tx, row: &AnyRow) -> Result<()> {
    let (miner, connected_ms): (String, i64) = (get(row, "miner")?, get(row, "connected_ms")?);
    let ended_ms: i64 = get(row, "disconnected_ms")?;
    let told = read!(row => DisconnectedEvent {
        key, validator, why;
        session: get(row, "id")?,
        connected_s: (ended_ms - connected_ms).max(0) / 1000,
    });
    tx.tell(ended_ms, Some(&miner), None, EventDocument::MinerLeft(told));
    Ok(())
}

/// Adds the event of a session that was opened anew: a row of `sessions`.
fn tell_reopened(tx: &mut Tx, row: &AnyRow) -> Result<()> {
    let miner: String = get(row, "miner")?;
    let told = read!(row => ConnectedEvent {
        key, validator, address, software;
        session: get(row, "id")?,
        devices: u32::try_from(get::<i64>(row, "listed")?).unwrap_or(u32::MAX),
    });
    tx.tell(id::now_ms(), Some(&miner), None, EventDocument::MinerConnected(told));
    Ok(())
}

pub(crate) fn session_of(row: &AnyRow) -> Result<SessionRecord> {
    Ok(read!(row => SessionRecord {
        id, miner, key, validator, instance, address, software, connected_ms, disconnected_ms, why;
        inventory: json(&get::<String>(row, "inventory")?, "inventory")?,
    }))
}
