//! The events of a miner, from all tables, and the objects of an id.

use serde::{Deserialize, Serialize};

use crate::column::get;
use crate::devices::event_of;
use crate::miners::action_of;
use crate::sessions::session_of;
use crate::standing::{finding_of, transition_of};
use crate::{MAX_ROWS, MinerEvent, ObjectKind, Records, RecordsError, ResolvedId, Result, VerdictFilter};

/// Where a page of events ended: the next one begins there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryCursor {
    /// [`MinerEvent::at_ms`] of the last one.
    pub at_ms: i64,
    /// Number of events of this time so far.
    pub shown: u32,
}

/// Reads an event.
type EventReader = fn(&sqlx::any::AnyRow) -> Result<MinerEvent>;

/// A table of events, its column of times, and how its rows are read.
const EVENTS: [(&str, &str, EventReader); 5] = [
    ("sessions", "connected_ms", |row| Ok(MinerEvent::Session(session_of(row)?))),
    ("transitions", "at_ms", |row| Ok(MinerEvent::Transition(transition_of(row)?))),
    ("findings", "at_ms", |row| Ok(MinerEvent::Finding(finding_of(row)?))),
    ("device_events", "at_ms", |row| Ok(MinerEvent::Device(event_of(row)?))),
    ("actions", "at_ms", |row| Ok(MinerEvent::Action(action_of(row)?))),
];

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
    /// The events of a miner, newest first, from a position on, each with its own position.
    pub async fn history(
        &self,
        miner: &str,
        after: Option<HistoryCursor>,
        limit: u32,
    ) -> Result<Vec<(HistoryCursor, MinerEvent)>> {
        let Some(miner) = self.miner_id(miner).await? else { return Ok(Vec::new()) };
        let HistoryCursor { at_ms, shown } = after.unwrap_or(HistoryCursor { at_ms: i64::MAX, shown: 0 });
        // The events of the position's time are read again.
        let limit = limit.saturating_add(shown).min(MAX_ROWS);
        let until_ms = Some(at_ms.saturating_add(1));
        let verdicts =
            VerdictFilter { miner: Some(miner.clone()), until_ms, limit: Some(limit), ..VerdictFilter::default() };
        let mut events: Vec<_> = self.verdicts(&verdicts).await?.into_iter().map(MinerEvent::Verdict).collect();
        for (table, at, event) in EVENTS {
            let sql =
                sql!("SELECT * FROM {table} WHERE miner = $1 AND {at} <= $2 ORDER BY {at} DESC, id DESC LIMIT $3");
            let query = sqlx::query(sql).bind(&miner).bind(at_ms).bind(i64::from(limit));
            events.extend(self.list("read a miner's history", query, event).await?);
        }
        // Stable: events of the same moment stay in the order of the tables.
        events.sort_by_key(|event| std::cmp::Reverse(event.at_ms()));
        let mut place = HistoryCursor { at_ms: i64::MAX, shown: 0 };
        let placed = events.into_iter().take(limit as usize).map(|event| {
            let shown = if event.at_ms() == place.at_ms { place.shown + 1 } else { 1 };
            place = HistoryCursor { at_ms: event.at_ms(), shown };
            (place, event)
        });
        Ok(placed.skip_while(|(place, _)| place.at_ms == at_ms && place.shown <= shown).collect())
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
