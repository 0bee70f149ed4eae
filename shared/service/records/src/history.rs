//! The events of a miner, from all tables, and the objects of an id.

use crate::column::get;
use crate::devices::event_of;
use crate::miners::action_of;
use crate::standing::finding_of;
use crate::{MAX_ROWS, MinerEvent, ObjectKind, Records, RecordsError, ResolvedId, Result, VerdictFilter};

/// The most objects of one kind that [`Records::find`] gives: a prefix with more matches is too short.
const MAX_FOUND: u32 = 8;

/// A table, its column that is searched, the id that it gives, and what that stands for.
type SearchedColumn = (&'static str, &'static str, &'static str, ObjectKind);

const SEARCHED: [SearchedColumn; 5] = [
    ("miner_keys", "key", "miner", ObjectKind::Miner),
    ("challenges", "id", "id", ObjectKind::Challenge),
    ("devices", "device_id", "device_id", ObjectKind::Device),
    ("receipts", "id", "id", ObjectKind::Receipt),
    ("rounds", "id", "id", ObjectKind::Round),
];

impl Records {
    /// The events of a miner, newest first.
    pub async fn history(&self, miner: &str, limit: u32) -> Result<Vec<MinerEvent>> {
        let limit = limit.min(MAX_ROWS);
        let Some(miner) = self.miner_id(miner).await? else { return Ok(Vec::new()) };
        let verdicts = VerdictFilter { miner: Some(miner.clone()), limit: Some(limit), ..VerdictFilter::default() };
        let mut events: Vec<_> = self.verdicts(&verdicts).await?.into_iter().map(MinerEvent::Verdict).collect();
        events.extend(self.sessions(&miner, limit).await?.into_iter().map(MinerEvent::Session));
        events.extend(self.transitions(&miner, limit).await?.into_iter().map(MinerEvent::Transition));
        let of_it = |table: &str| sql!("SELECT * FROM {table} WHERE miner = $1 ORDER BY at_ms DESC, id DESC LIMIT $2");
        for (table, event) in [
            ("findings", (|row| Ok(MinerEvent::Finding(finding_of(row)?))) as fn(&_) -> Result<_>),
            ("device_events", |row| Ok(MinerEvent::Device(event_of(row)?))),
            ("actions", |row| Ok(MinerEvent::Action(action_of(row)?))),
        ] {
            let rows = sqlx::query(of_it(table)).bind(&miner).bind(i64::from(limit)).fetch_all(self.read()).await;
            for row in rows.map_err(|e| RecordsError::from(e).doing("read a miner's history"))? {
                events.push(event(&row)?);
            }
        }
        // Stable: events of the same moment stay in the order of the tables.
        events.sort_by_key(|event| std::cmp::Reverse(event.at_ms()));
        events.truncate(limit as usize);
        Ok(events)
    }

    /// The objects of an id or of its prefix: several where it is ambiguous.
    pub async fn find(&self, prefix: &str) -> Result<Vec<ResolvedId>> {
        if prefix.is_empty() {
            return Ok(Vec::new());
        }
        let of_table = |(table, column, id, _): &SearchedColumn| {
            format!(
                "SELECT * FROM (SELECT DISTINCT '{table}' AS kind, {id} AS id FROM {table} WHERE {column} >= $1 \
                 AND {column} < $2 ORDER BY {id} LIMIT $3) AS of_{table}"
            )
        };
        let sql = sql!("{} ORDER BY id", SEARCHED.each_ref().map(of_table).join(" UNION ALL "));
        let rows = sqlx::query(sql).bind(prefix).bind(format!("{prefix}g")).bind(i64::from(MAX_FOUND));
        let rows = rows.fetch_all(self.read()).await.map_err(|e| RecordsError::from(e).doing("look up an id"))?;
        let mut found = Vec::new();
        for (table, .., kind) in SEARCHED {
            for row in &rows {
                if get::<String>(row, "kind")? == table {
                    found.push(ResolvedId { kind, id: get(row, "id")? });
                }
            }
        }
        Ok(found)
    }
}
