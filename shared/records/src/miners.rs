//! Miners: who may take part, under which labels, and who decided that.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sqlx::any::AnyRow;

use crate::document::{json, to_json};
use crate::group::Waiting;
use crate::kind::Kind;
use crate::rows::Rows;
use crate::store::{Store, get};
use crate::tx::Tx;
use crate::{Action, Actor, Due, MAX_ROWS, Records, RecordsError, Told, id};

/// The labels of a miner, set by operators.
pub type Labels = BTreeMap<String, String>;

/// Whether a miner takes part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = MinerStatus))]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Nobody has decided yet.
    Pending,
    /// It takes part.
    Approved,
    /// It is not challenged for now.
    Suspended,
    /// It is not let in any more.
    Revoked,
}

impl Status {
    /// Every status.
    pub const ALL: [Self; 4] = [Self::Pending, Self::Approved, Self::Suspended, Self::Revoked];

    /// The stable name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Approved => "approved",
            Self::Suspended => "suspended",
            Self::Revoked => "revoked",
        }
    }

    /// The stricter of two, for records that turn out to be one miner's.
    fn stricter(self, other: Self) -> Self {
        let strictness = |status| match status {
            // Nobody has decided: whatever was decided about the other one counts.
            Self::Pending => 0,
            Self::Approved => 1,
            Self::Suspended => 2,
            Self::Revoked => 3,
        };
        if strictness(other) > strictness(self) { other } else { self }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Status {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|status| status.name() == text);
        found.ok_or_else(|| format!("no status {text:?}: there are pending, approved, suspended and revoked"))
    }
}

/// The last verdict about a miner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct LastVerdict {
    /// The challenge.
    pub challenge: String,
    /// What it ended in.
    pub outcome: String,
    /// When the challenge was sent.
    pub at_ms: i64,
}

/// A miner.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct MinerRecord {
    /// The first key of it that was seen: its id.
    pub id: String,
    /// Its newest key.
    pub key: String,
    /// Every key of it, oldest first.
    pub keys: Vec<String>,
    /// Whether it takes part.
    pub status: Status,
    /// What operators call it.
    pub labels: Labels,
    /// Its attestation state.
    pub state: String,
    /// What the state rests on, as it was given with a conclusion.
    #[cfg_attr(feature = "schema", schema(value_type = Option<Object>))]
    pub standing: Option<Box<RawValue>>,
    /// When it came first.
    pub first_seen_ms: i64,
    /// When it connected or disconnected last.
    pub last_seen_ms: i64,
    /// Where it connected from last.
    pub address: String,
    /// The software that it named last: a claim.
    pub software: String,
    /// Its next challenge.
    pub due: Option<Due>,
    /// Its last verdict.
    pub last_verdict: Option<LastVerdict>,
    /// The validator that it is connected to.
    pub connected_to: Option<String>,
}

/// Which miners; what is empty leaves none out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MinerFilter {
    /// The status.
    pub status: Option<Status>,
    /// The attestation state.
    pub state: Option<String>,
    /// Labels that it has, all of them.
    pub labels: Labels,
    /// The product name of a device that it lists now.
    pub model: Option<String>,
    /// What its last verdict ended in.
    pub outcome: Option<String>,
    /// A text that is somewhere in its keys, its labels, its address or its software, in capitals or not.
    pub text: Option<String>,
    /// Only those connected to a validator now, or only the others.
    pub connected: Option<bool>,
    /// Only those that follow this id in order of ids.
    pub after: Option<String>,
    /// At most so many, and at most [`MAX_ROWS`].
    pub limit: Option<u32>,
}

impl MinerFilter {
    /// Whether the database leaves out all that it leaves out. It does not where labels are asked for: no SQL for JSON is
    /// the same in both databases.
    fn is_sql(&self) -> bool {
        self.labels.is_empty() && self.connected.is_none() && self.text.is_none()
    }

    /// Whether a miner has what the database does not compare.
    fn fits(&self, miner: &MinerRecord) -> bool {
        self.labels.iter().all(|(name, value)| miner.labels.get(name) == Some(value))
            && self.connected.is_none_or(|wanted| wanted == miner.connected_to.is_some())
            && self.text.as_ref().is_none_or(|text| has_text(miner, &text.to_lowercase()))
    }
}

/// Whether a text in small letters is somewhere in what names a miner.
fn has_text(miner: &MinerRecord, text: &str) -> bool {
    let labels = miner.labels.iter().map(|(name, value)| format!("{name}={value}"));
    let names = [&miner.id, &miner.address, &miner.software].into_iter().cloned();
    let mut texts = names.chain(miner.keys.iter().cloned()).chain(labels);
    texts.any(|named| named.to_lowercase().contains(text))
}

/// Rows that are read at once where not all of them are given.
const MIN_ROWS: usize = 1000;

/// Open sessions count only while their validator's process lives.
const SELECT: &str = "SELECT m.*, (SELECT JOIN_TEXTS(k.key, ' ' ORDER BY k.position) FROM miner_keys k \
     WHERE k.miner = m.id) AS all_keys, (SELECT MAX(s.validator) FROM sessions s JOIN validators v \
     ON v.key = s.validator AND v.instance = s.instance WHERE s.miner = m.id AND s.disconnected_ms IS NULL \
     AND v.expires_ms > NOW) AS connected_to FROM miners m";

fn select(kind: Kind) -> String {
    SELECT.replace("JOIN_TEXTS", kind.join()).replace("NOW", kind.now())
}

impl Records {
    /// A miner, by any of its keys.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn miner(&self, key: &str) -> Result<Option<MinerRecord>, RecordsError> {
        let store = &self.store;
        let found = store.looking_up.ask(key.to_owned(), || look_up_waiting(store.clone())).await;
        found.map_err(|error| error.doing("look up a miner"))
    }

    /// Miners in order of their ids.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn miners(&self, filter: &MinerFilter) -> Result<Vec<MinerRecord>, RecordsError> {
        let limit = filter.limit.unwrap_or(MAX_ROWS).min(MAX_ROWS) as usize;
        let mut found = Vec::new();
        let mut after = filter.after.clone().unwrap_or_default();
        while found.len() < limit {
            // What is compared here leaves out rows that were read.
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

    async fn miner_rows(&self, filter: &MinerFilter, after: &str, limit: usize) -> Result<Vec<AnyRow>, RecordsError> {
        let sql = format!(
            "{} WHERE m.id > $1 AND ($2 = '' OR m.status = $2) AND ($3 = '' OR m.state = $3) \
             AND ($4 = '' OR m.last_outcome = $4) AND ($5 = '' OR EXISTS (SELECT 1 FROM devices d \
             WHERE d.miner = m.id AND d.model = $5 AND d.gone_ms IS NULL)) ORDER BY m.id LIMIT $6",
            select(self.store.kind)
        );
        let query = sqlx::query(&sql)
            .bind(after)
            .bind(filter.status.map_or("", Status::name))
            .bind(filter.state.as_deref().unwrap_or(""))
            .bind(filter.outcome.as_deref().unwrap_or(""))
            .bind(filter.model.as_deref().unwrap_or(""))
            .bind(i64::try_from(limit).unwrap_or(i64::MAX));
        let rows = query.fetch_all(self.read()).await;
        rows.map_err(|e| RecordsError::from(e).doing("list miners"))
    }

    /// Every key of the miners that somebody decided about, with the status: those that are not pending.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn decided(&self) -> Result<Vec<(String, Status)>, RecordsError> {
        let sql = "SELECT k.key AS key, m.status AS status FROM miner_keys k JOIN miners m ON m.id = k.miner \
             WHERE m.status <> 'pending'";
        let rows = sqlx::query(sql).fetch_all(self.read()).await;
        let rows = rows.map_err(|e| RecordsError::from(e).doing("list what was decided about miners"))?;
        rows.iter().map(|row| Ok((get(row, "key")?, status_of(&get::<String>(row, "status")?)?))).collect()
    }

    /// The id of a miner: the first of its keys that was seen.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn miner_id(&self, key: &str) -> Result<Option<String>, RecordsError> {
        let found = sqlx::query_scalar("SELECT miner FROM miner_keys WHERE key = $1").bind(key);
        let found = found.fetch_optional(self.read()).await;
        found.map_err(|e| RecordsError::from(e).doing("look up a miner"))
    }

    /// The ids of miners whose id or any of whose keys begins with these digits, at most `limit`.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn miners_by_prefix(&self, prefix: &str, limit: u32) -> Result<Vec<String>, RecordsError> {
        let sql = "SELECT DISTINCT miner FROM miner_keys WHERE key >= $1 AND key < $2 ORDER BY miner LIMIT $3";
        let found = sqlx::query_scalar(sql).bind(prefix).bind(format!("{prefix}g")).bind(i64::from(limit));
        let found = found.fetch_all(self.read()).await;
        found.map_err(|e| RecordsError::from(e).doing("look up a miner"))
    }

    /// Decides whether a miner takes part, and notes who did. Gives the status before. A miner that never came is
    /// noted too: that is an allow-list.
    ///
    /// # Errors
    /// The store cannot be written.
    pub async fn set_status(&self, key: &str, status: Status, actor: &Actor) -> Result<Status, RecordsError> {
        let (action, work) = match status {
            Status::Pending => ("unapprove", self.set_status_now(key, status)),
            Status::Approved => ("approve", self.set_status_now(key, status)),
            Status::Suspended => ("suspend", self.set_status_now(key, status)),
            Status::Revoked => ("revoke", self.set_status_now(key, status)),
        };
        self.write("change the status of a miner", async {
            let (mut tx, miner, before) = work.await?;
            note_action(&mut tx, actor, action, Some(&miner), &format!("{before} → {status}")).await?;
            tx.commit().await?;
            Ok(before)
        })
        .await
    }

    async fn set_status_now(&self, key: &str, status: Status) -> Result<(Tx, String, Status), RecordsError> {
        let mut tx = self.begin().await?;
        let miner = ensure_miner(&mut tx, key, Status::Pending, id::now_ms()).await?;
        let before = self.status_for_update(&mut tx, &miner).await?;
        let update = sqlx::query("UPDATE miners SET status = $2 WHERE id = $1").bind(&miner).bind(status.name());
        update.execute(&mut *tx).await?;
        Ok((tx, miner, before))
    }

    async fn status_for_update(&self, tx: &mut Tx, miner: &str) -> Result<Status, RecordsError> {
        let sql = format!("SELECT status FROM miners WHERE id = $1 {}", self.store.kind.for_update());
        let text: String = sqlx::query_scalar(&sql).bind(miner).fetch_one(&mut **tx).await?;
        status_of(&text)
    }

    /// Sets labels and takes others away (`None`), and notes who did. Gives the labels as they are then.
    ///
    /// # Errors
    /// [`RecordsError::NoSuchMiner`], or the store cannot be written.
    pub async fn set_labels(
        &self,
        key: &str,
        changes: &BTreeMap<String, Option<String>>,
        actor: &Actor,
    ) -> Result<Labels, RecordsError> {
        self.write("change the labels of a miner", async {
            let mut tx = self.begin().await?;
            let miner = known_miner(&mut tx, key).await?;
            let labels = self.change_labels(&mut tx, &miner, changes).await?;
            note_action(&mut tx, actor, "label", Some(&miner), &to_json(changes, "labels")?).await?;
            tx.commit().await?;
            Ok(labels)
        })
        .await
    }

    pub(crate) async fn change_labels(
        &self,
        tx: &mut Tx,
        miner: &str,
        changes: &BTreeMap<String, Option<String>>,
    ) -> Result<Labels, RecordsError> {
        let sql = format!("SELECT labels FROM miners WHERE id = $1 {}", self.store.kind.for_update());
        let text: String = sqlx::query_scalar(&sql).bind(miner).fetch_one(&mut **tx).await?;
        let mut labels: Labels = json(&text, "labels")?;
        for (name, value) in changes {
            match value {
                Some(value) => labels.insert(name.clone(), value.clone()),
                None => labels.remove(name),
            };
        }
        let update = sqlx::query("UPDATE miners SET labels = $2 WHERE id = $1").bind(miner);
        update.bind(to_json(&labels, "labels")?).execute(&mut **tx).await?;
        Ok(labels)
    }

    /// Notes what an operator did.
    ///
    /// # Errors
    /// The store cannot be written.
    pub async fn note_action(
        &self,
        actor: &Actor,
        action: &str,
        miner: Option<&str>,
        detail: &str,
    ) -> Result<(), RecordsError> {
        self.write("note an operator's action", async {
            let mut tx = self.begin().await?;
            let miner = match miner {
                Some(key) => Some(known_miner(&mut tx, key).await?),
                None => None,
            };
            note_action(&mut tx, actor, action, miner.as_deref(), detail).await?;
            tx.commit().await
        })
        .await
    }

    /// What operators did since a time, newest first, for one miner or all.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn actions(&self, miner: Option<&str>, since_ms: i64, limit: u32) -> Result<Vec<Action>, RecordsError> {
        let sql = "SELECT * FROM actions WHERE ($1 = '' OR miner = (SELECT k.miner FROM miner_keys k WHERE k.key = $1)) \
             AND at_ms >= $2 ORDER BY at_ms DESC, id DESC LIMIT $3";
        let query = sqlx::query(sql).bind(miner.unwrap_or("")).bind(since_ms).bind(i64::from(limit.min(MAX_ROWS)));
        let rows = query.fetch_all(self.read()).await;
        let rows = rows.map_err(|e| RecordsError::from(e).doing("list actions"))?;
        rows.iter().map(action_of).collect()
    }
}

/// Looks up who waits for it until nobody does.
async fn look_up_waiting(store: Arc<Store>) {
    let mut worker = store.looking_up.worker();
    while let Some(group) = worker.next() {
        let keys: Vec<_> = group.iter().map(|waiting| waiting.asked.as_str()).collect();
        let mut found = store.look_up(&keys).await;
        for Waiting { asked, done } in group {
            let miner = match &mut found {
                Ok(found) => Ok(found.get(&asked).cloned()),
                // What one of them cannot be told is not what keeps the others from it.
                Err(_) => store.look_up(&[&asked]).await.map(|mut found| found.remove(&asked)),
            };
            // A caller that has gone does not want to know.
            drop(done.send(miner));
        }
    }
}

impl Store {
    /// Miners by their keys.
    async fn look_up(&self, keys: &[&str]) -> Result<HashMap<String, MinerRecord>, RecordsError> {
        let sql =
            format!("{} WHERE m.id IN (SELECT k.miner FROM miner_keys k WHERE k.key IN (VALUES", select(self.kind));
        let mut select = Rows::new(sql, "))");
        keys.iter().for_each(|key| select.push([(*key).into()]));
        let mut connection = self.read().acquire().await?;
        let mut found = HashMap::new();
        for row in select.fetch(&mut connection).await? {
            let miner = miner_of(&row)?;
            let asked = miner.keys.iter().filter(|key| keys.contains(&key.as_str())).cloned().collect::<Vec<_>>();
            found.extend(asked.into_iter().map(|key| (key, miner.clone())));
        }
        Ok(found)
    }
}

fn miner_of(row: &AnyRow) -> Result<MinerRecord, RecordsError> {
    let keys: Option<String> = get(row, "all_keys")?;
    let standing: Option<String> = get(row, "standing")?;
    let last: (Option<String>, Option<String>, Option<i64>) =
        (get(row, "last_challenge")?, get(row, "last_outcome")?, get(row, "last_verdict_ms")?);
    let last_verdict = match last {
        (Some(challenge), Some(outcome), Some(at_ms)) => Some(LastVerdict { challenge, outcome, at_ms }),
        _ => None,
    };
    Ok(MinerRecord {
        id: get(row, "id")?,
        key: get(row, "key")?,
        keys: keys.iter().flat_map(|keys| keys.split(' ')).map(str::to_owned).collect(),
        status: status_of(&get::<String>(row, "status")?)?,
        labels: json(&get::<String>(row, "labels")?, "labels")?,
        state: get(row, "state")?,
        standing: standing.map(|text| json(&text, "standing")).transpose()?,
        first_seen_ms: get(row, "first_seen_ms")?,
        last_seen_ms: get(row, "last_seen_ms")?,
        address: get(row, "address")?,
        software: get(row, "software")?,
        due: Due::of(row)?,
        last_verdict,
        connected_to: get(row, "connected_to")?,
    })
}

pub(crate) fn status_of(text: &str) -> Result<Status, RecordsError> {
    json(&format!("\"{text}\""), "status")
}

pub(crate) fn action_of(row: &AnyRow) -> Result<Action, RecordsError> {
    let uid: Option<i64> = get(row, "uid")?;
    Ok(Action {
        id: get(row, "id")?,
        at_ms: get(row, "at_ms")?,
        actor: Actor { name: get(row, "actor")?, uid: uid.and_then(|uid| u32::try_from(uid).ok()) },
        action: get(row, "action")?,
        miner: get(row, "miner")?,
        detail: get(row, "detail")?,
    })
}

pub(crate) async fn note_action(
    tx: &mut Tx,
    actor: &Actor,
    action: &str,
    miner: Option<&str>,
    detail: &str,
) -> Result<(), RecordsError> {
    let at_ms = id::now_ms();
    let sql = "INSERT INTO actions (id, at_ms, actor, uid, action, miner, detail) VALUES ($1, $2, $3, $4, $5, $6, $7)";
    let id = id::new(at_ms)?;
    let insert = sqlx::query(sql).bind(&id).bind(at_ms).bind(&actor.name).bind(actor.uid.map(i64::from));
    insert.bind(action).bind(miner).bind(detail).execute(&mut **tx).await?;
    let (action, detail) = (action.to_owned(), detail.to_owned());
    let noted = Action { id, at_ms, actor: actor.clone(), action, miner: miner.map(str::to_owned), detail };
    tx.tell(at_ms, miner, None, Told::Action(noted));
    Ok(())
}

/// The id of a miner that must be known.
pub(crate) async fn known_miner(tx: &mut Tx, key: &str) -> Result<String, RecordsError> {
    let found = sqlx::query_scalar("SELECT miner FROM miner_keys WHERE key = $1").bind(key);
    let found: Option<String> = found.fetch_optional(&mut **tx).await?;
    found.ok_or_else(|| RecordsError::NoSuchMiner(key.to_owned()))
}

/// The id of a miner, noted with this status when it is new.
pub(crate) async fn ensure_miner(tx: &mut Tx, key: &str, status: Status, at_ms: i64) -> Result<String, RecordsError> {
    let found = sqlx::query_scalar("SELECT miner FROM miner_keys WHERE key = $1").bind(key);
    let found: Option<String> = found.fetch_optional(&mut **tx).await?;
    if let Some(miner) = found {
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
pub(crate) async fn ensure_miners(tx: &mut Tx, keys: Vec<(String, i64)>) -> Result<Vec<String>, RecordsError> {
    let mut select = Rows::new("SELECT k.key AS key, k.miner AS miner FROM miner_keys k WHERE k.key IN (VALUES", ")");
    keys.iter().for_each(|(key, _)| select.push([key.as_str().into()]));
    let found = select.fetch(tx).await?;
    let found = found.iter().map(|row| Ok((get(row, "key")?, get(row, "miner")?)));
    let mut known = found.collect::<Result<HashMap<String, String>, RecordsError>>()?;
    let mut miners = Vec::new();
    for (key, at_ms) in keys {
        let miner = match known.get(&key) {
            Some(miner) => miner.clone(),
            None => ensure_miner(tx, &key, Status::Pending, at_ms).await?,
        };
        known.insert(key, miner.clone());
        miners.push(miner);
    }
    Ok(miners)
}

/// Every table that names a miner besides its keys, and under which column.
const OF_A_MINER: [(&str, &str); 14] = [
    ("sessions", "miner"),
    ("device_events", "miner"),
    ("device_events", "other_miner"),
    ("challenges", "miner"),
    ("verdicts", "miner"),
    ("device_results", "miner"),
    ("transitions", "miner"),
    ("findings", "miner"),
    ("findings", "other_miner"),
    ("receipts", "miner"),
    ("actions", "miner"),
    ("tokens", "used_by"),
    ("devices", "miner"),
    ("round_members", "miner"),
];

/// Makes a chain of keys, oldest first, one miner, and gives its id. What was known under several ids becomes the
/// oldest's, with the strictest status: nobody gets rid of a record by a new key.
pub(crate) async fn join_keys(tx: &mut Tx, chain: &[&str], status: Status, at_ms: i64) -> Result<String, RecordsError> {
    let mut miner: Option<String> = None;
    for key in chain {
        let found = sqlx::query_scalar("SELECT miner FROM miner_keys WHERE key = $1").bind(*key);
        let found: Option<String> = found.fetch_optional(&mut **tx).await?;
        match (&miner, found) {
            (None, Some(found)) => miner = Some(found),
            (Some(kept), Some(other)) if *kept != other => merge(tx, kept, &other).await?,
            _ => {}
        }
    }
    let miner = match (miner, chain.first()) {
        (Some(miner), _) => miner,
        (None, Some(first)) => ensure_miner(tx, first, status, at_ms).await?,
        (None, None) => return Err(RecordsError::NoSuchMiner(String::new())),
    };
    let sql = "SELECT COALESCE(MAX(position), 0) FROM miner_keys WHERE key = $1";
    let base: i64 = sqlx::query_scalar(sql).bind(chain.first().copied()).fetch_one(&mut **tx).await?;
    for (position, key) in (base..).zip(chain) {
        let sql = "INSERT INTO miner_keys (key, miner, position, since_ms) VALUES ($1, $2, $3, $4) \
             ON CONFLICT (key) DO UPDATE SET position = $3";
        sqlx::query(sql).bind(*key).bind(&miner).bind(position).bind(at_ms).execute(&mut **tx).await?;
    }
    let sql = "UPDATE miners SET key = (SELECT k.key FROM miner_keys k WHERE k.miner = $1 \
         ORDER BY k.position DESC, k.since_ms DESC LIMIT 1) WHERE id = $1";
    sqlx::query(sql).bind(&miner).execute(&mut **tx).await?;
    Ok(miner)
}

/// Makes everything of one miner another's.
async fn merge(tx: &mut Tx, kept: &str, gone: &str) -> Result<(), RecordsError> {
    let mut statuses = [Status::Pending; 2];
    for (status, miner) in statuses.iter_mut().zip([kept, gone]) {
        let text: String =
            sqlx::query_scalar("SELECT status FROM miners WHERE id = $1").bind(miner).fetch_one(&mut **tx).await?;
        *status = status_of(&text)?;
    }
    let status = statuses[0].stricter(statuses[1]).name();
    sqlx::query("UPDATE miners SET status = $2 WHERE id = $1").bind(kept).bind(status).execute(&mut **tx).await?;
    // What both have is kept once.
    for (table, column) in [("devices", "device_id"), ("round_members", "round")] {
        let sql = format!(
            "DELETE FROM {table} WHERE miner = $2 AND {column} IN (SELECT o.{column} FROM {table} o WHERE o.miner = $1)"
        );
        sqlx::query(&sql).bind(kept).bind(gone).execute(&mut **tx).await?;
    }
    sqlx::query("UPDATE miner_keys SET miner = $1 WHERE miner = $2").bind(kept).bind(gone).execute(&mut **tx).await?;
    for (table, column) in OF_A_MINER {
        let sql = format!("UPDATE {table} SET {column} = $1 WHERE {column} = $2");
        sqlx::query(&sql).bind(kept).bind(gone).execute(&mut **tx).await?;
    }
    sqlx::query("DELETE FROM miners WHERE id = $1").bind(gone).execute(&mut **tx).await?;
    Ok(())
}
