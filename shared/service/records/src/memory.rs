//! The memory of a miner between its challenges: their ends, and its devices' results. A verdict writes it, and every
//! validator of the store reads it when a challenge begins.

use assay_policy::{DeviceRate, End, MAX_ENDS, MinerMemory};
use assay_protocol::wire::limits::MAX_DEVICES;
use assay_work::Precision;
use sqlx::any::AnyRow;

use crate::action::note_action;
use crate::column::{get, read};
use crate::keys::known_miner;
use crate::rows::Rows;
use crate::tx::Tx;
use crate::{Actor, Records, RecordsError, Result};

/// The most results that are read of the devices of a miner: eight kinds of work of each.
const MAX_SHOWN: u32 = 8 * MAX_DEVICES as u32;

impl Records {
    /// The memory of a miner; empty for an unknown one.
    pub async fn memory(&self, key: &str) -> Result<MinerMemory> {
        const DOING: &str = "read what is remembered of a miner";
        // Last those after it and beside it: by connecting with an older key a miner sheds no expectation of a newer one.
        let sql = "SELECT k.key FROM miner_keys o JOIN miner_keys k ON k.miner = o.miner WHERE o.key = $1 \
             ORDER BY CASE WHEN k.key = o.key THEN 0 WHEN k.position < o.position THEN 1 ELSE 2 END, \
             k.position DESC, k.since_ms DESC";
        let lineage = sqlx::query_scalar(sql).bind(key);
        let lineage = lineage.fetch_all(self.read()).await.map_err(|e| RecordsError::from(e).doing(DOING))?;
        let Some(miner) = self.miner_id(key).await? else { return Ok(MinerMemory::default()) };
        let sql = "SELECT ended, at_ms FROM verdicts WHERE miner = $1 AND ended IS NOT NULL \
             ORDER BY at_ms DESC, challenge DESC LIMIT $2";
        let ends = sqlx::query(sql).bind(&miner).bind(i64::from(MAX_ENDS));
        let end = |row: &AnyRow| {
            // Another end is that of a newer release.
            let end = End::named(&get::<String>(row, "ended")?).unwrap_or(End::Other);
            Ok((end, get(row, "at_ms")?))
        };
        let ends = self.list(DOING, ends, end).await?;
        let sql = "SELECT * FROM shown WHERE miner = $1 ORDER BY device_id, precision LIMIT $2";
        let shown = self.list(DOING, sqlx::query(sql).bind(&miner).bind(i64::from(MAX_SHOWN)), shown_of).await?;
        // Without kinds of a newer release.
        Ok(MinerMemory { lineage, ends, shown: shown.into_iter().flatten().collect() })
    }

    /// Forgets the results of a miner's devices, and notes the author; gives the count of devices that were known.
    ///
    /// # Errors
    /// [`RecordsError::NoSuchMiner`], or the store cannot be written.
    pub async fn forget_devices(&self, key: &str, actor: &Actor) -> Result<u32> {
        transaction!(self, "forget the devices of a miner", |tx| {
            let miner = known_miner(&mut tx, key).await?;
            let sql = "SELECT COUNT(DISTINCT device_id) FROM shown WHERE miner = $1 AND bytes > 0";
            let count: i64 = sqlx::query_scalar(sql).bind(&miner).fetch_one(&mut *tx).await?;
            sqlx::query("DELETE FROM shown WHERE miner = $1").bind(&miner).execute(&mut *tx).await?;
            let noun = if count == 1 { "device" } else { "devices" };
            note_action(&mut tx, actor, "forget", Some(&miner), &format!("{count} {noun}")).await?;
            u32::try_from(count).unwrap_or(u32::MAX)
        })
    }
}

fn shown_of(row: &AnyRow) -> Result<Option<DeviceRate>> {
    let precision = u32::try_from(get::<i64>(row, "precision")?).ok().and_then(Precision::from_code);
    let Some(precision) = precision else { return Ok(None) };
    Ok(Some(read!(row => DeviceRate {
        device_id, name, bytes, macs_per_s, tops, probe_bytes_per_s, linked_bytes_per_s, at_ms;
        precision,
    })))
}

/// Remembers devices' results, each with its miner's id. The most bytes stay, and the rate of the last linked probe.
pub(crate) async fn insert_shown(tx: &mut Tx, shown: impl Iterator<Item = (&str, &DeviceRate)>) -> Result<()> {
    let mut insert = Rows::new(
        "INSERT INTO shown (miner, device_id, precision, name, bytes, macs_per_s, tops, probe_bytes_per_s, \
         linked_bytes_per_s, at_ms) VALUES",
        " ON CONFLICT (miner, device_id, precision) DO UPDATE SET name = excluded.name, bytes = CASE WHEN \
         shown.bytes > excluded.bytes THEN shown.bytes ELSE excluded.bytes END, macs_per_s = excluded.macs_per_s, \
         tops = excluded.tops, probe_bytes_per_s = excluded.probe_bytes_per_s, linked_bytes_per_s = CASE WHEN \
         excluded.linked_bytes_per_s > 0 THEN excluded.linked_bytes_per_s ELSE shown.linked_bytes_per_s END, \
         at_ms = excluded.at_ms",
    );
    for (miner, shown) in shown {
        let DeviceRate {
            device_id,
            precision,
            name,
            bytes,
            macs_per_s,
            tops,
            probe_bytes_per_s,
            linked_bytes_per_s,
            at_ms,
        } = shown;
        insert.push([
            miner.into(),
            device_id.as_str().into(),
            i64::from(precision.code()).into(),
            name.as_str().into(),
            (*bytes).into(),
            (*macs_per_s).into(),
            (*tops).into(),
            (*probe_bytes_per_s).into(),
            (*linked_bytes_per_s).into(),
            (*at_ms).into(),
        ]);
    }
    insert.execute(tx).await.map(drop)
}
