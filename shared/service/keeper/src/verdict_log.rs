//! This validator's log of its verdicts. A task appends them after their transactions, in order: verdicts never wait for
//! it. The records have the index of each entry; an entry that they do not know of, since a crash came between, is noted
//! when the log is opened.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use assay_log::{
    CHECKPOINT, LogError, LogWriter, NoteKey, ReceiptProof, SignedCheckpoint, Source, Tile, TileKind, TreeReader,
    VerdictEntry, WitnessAddress, add_checkpoint, log_key,
};
use assay_protocol::identity::Identity;
use assay_protocol::verdict::ReasonCode;
use assay_records::{Records, RecordsError, UnloggedVerdict};
use assay_work::PublicKey;
use tokio::sync::Mutex;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::timeout;

/// How long the witnesses may take to cosign a checkpoint, all at once: the log waits for them, verdicts do not.
const WITNESS_LIMIT: Duration = Duration::from_secs(5);
/// Entries of a full tile.
const WIDTH: u64 = assay_log::TILE_WIDTH as u64;
/// Verdicts that are appended at once.
const BATCH: u32 = 256;
/// The least time between two appends: each takes a dozen flushes of the disk.
const PAUSE: Duration = Duration::from_secs(1);
/// How long after a failure another attempt is made, and how often absent witnesses are asked again.
const RETRY: Duration = Duration::from_secs(30);

/// Why verdicts are not appended. They stay in the records until they are.
#[derive(Debug, thiserror::Error)]
pub enum VerdictLogError {
    #[error(transparent)]
    Log(#[from] LogError),
    #[error(transparent)]
    Records(#[from] RecordsError),
}

/// The log of a validator, and those of its earlier keys.
pub struct VerdictLog {
    records: Records,
    /// The folder of a log for each key.
    folder: PathBuf,
    identity: Identity,
    witnesses: Vec<WitnessAddress>,
    writing: Mutex<Option<OpenLog>>,
    /// Why verdicts are not appended now.
    trouble: parking_lot::Mutex<Option<String>>,
}

/// The log while it is open.
struct OpenLog {
    writer: LogWriter,
    /// For each witness the size that it cosigned last, as far as known, and its line for the last checkpoint.
    cosigned: Vec<(u64, Option<String>)>,
    /// When the witnesses were asked for that.
    asked: Option<Instant>,
}

impl VerdictLog {
    pub fn new(records: Records, folder: PathBuf, identity: Identity, witnesses: Vec<WitnessAddress>) -> Self {
        Self { records, folder, identity, witnesses, writing: Mutex::default(), trouble: Default::default() }
    }

    /// The reason why verdicts are not appended now.
    pub fn trouble(&self) -> Option<String> {
        self.trouble.lock().clone()
    }

    /// Appends verdicts as they are concluded, for ever.
    pub async fn run(self: Arc<Self>) {
        let mut events = self.records.event_watch();
        loop {
            events.mark_unchanged();
            let appended = self.catch_up().await;
            *self.trouble.lock() = appended.as_ref().err().map(ToString::to_string);
            if let Err(error) = appended {
                tracing::error!(%error, "verdicts are not in the log yet: they are appended once this is mended");
                tokio::time::sleep(RETRY).await;
                continue;
            }
            tokio::time::sleep(PAUSE).await;
            // An error means that the records have ended.
            let _ = timeout(RETRY, events.changed()).await;
        }
    }

    /// Appends the last verdicts, but for no longer than this.
    pub async fn finish(&self, limit: Duration) {
        if !matches!(timeout(limit, self.catch_up()).await, Ok(Ok(()))) {
            tracing::warn!("the validator ends before the log has all verdicts: the others follow at the next start");
        }
    }

    /// Appends every verdict that is not in the log, and has witnesses cosign it.
    ///
    /// # Errors
    /// [`VerdictLogError`]; entries that are in the log by then are noted when it is opened again.
    pub async fn catch_up(&self) -> Result<(), VerdictLogError> {
        let mut writing = self.writing.lock().await;
        let mut open = match writing.take() {
            Some(open) => open,
            None => self.open().await?,
        };
        loop {
            let unlogged = self.records.unlogged(&self.key(), BATCH).await?;
            if unlogged.is_empty() {
                break;
            }
            if self.note_restored(open.writer.size(), &unlogged).await? {
                continue;
            }
            let entries = unlogged.iter().map(|it| {
                let challenge = it.challenge.parse().map_err(|_| malformed("an id in the records"))?;
                Ok(VerdictEntry::of(challenge, &it.document, it.receipt.as_deref()))
            });
            let (entries, first): (Vec<_>, _) = (entries.collect::<Result<_, LogError>>()?, open.writer.size());
            let mut writer = open.writer;
            open.writer = blocking(move || writer.append(&entries).map(|()| writer)).await?;
            open.cosigned.iter_mut().for_each(|(_, line)| *line = None);
            open.asked = None;
            let challenges: Vec<_> = unlogged.into_iter().map(|it| it.challenge).collect();
            self.records.note_logged(first, &challenges).await?;
        }
        *writing = Some(self.cosign(open).await?);
        Ok(())
    }

    /// Opens the log and notes its entries in the records. Witnesses are asked before the first append: one with a larger
    /// checkpoint of this key shows that this is an old copy.
    async fn open(&self) -> Result<OpenLog, VerdictLogError> {
        let (folder, identity) = (self.folder.join(self.key()), self.identity.clone());
        let noted = self.records.logged(&self.key()).await?;
        let lacks = |size: u64| {
            LogError::Inconsistent(format!(
                "the log has {size} entries and the records know of {noted}: put the newest copy of the folder {} back",
                self.folder.display()
            ))
        };
        // First: an empty checkpoint that is signed would be a log that was rolled back.
        if noted > 0 && matches!(tokio::fs::try_exists(folder.join(CHECKPOINT)).await, Ok(false)) {
            return Err(lacks(0).into());
        }
        let newest = |error| match error {
            LogError::Malformed(why) | LogError::NotThere(why) => {
                LogError::Malformed(format!("{why}: put the newest copy of the folder {} back", self.folder.display()))
            }
            error => error,
        };
        let writer = blocking(move || LogWriter::open(&folder, identity)).await.map_err(newest)?;
        let size = writer.size();
        if noted > size {
            return Err(lacks(size).into());
        }
        let mut unknown = 0;
        for index in noted / WIDTH..size.div_ceil(WIDTH) {
            let challenges = self.challenges(index, size).await?;
            let (first, known) = (index * WIDTH, noted.saturating_sub(index * WIDTH));
            let (before, after) = challenges.split_at(challenges.len().min(known as usize));
            // Those before the last one that is known were removed since.
            self.records.note_logged(first, before).await?;
            unknown += self.records.note_logged(first + known, after).await?;
        }
        if unknown > 0 {
            tracing::warn!(
                unknown,
                entries = size,
                "the log has verdicts that the records do not know: they were removed, as too old or a stranger's, or the \
                 records are an older copy, and what was decided since is lost"
            );
        }
        self.cosign(OpenLog { writer, cosigned: vec![(size, None); self.witnesses.len()], asked: None }).await
    }

    /// Notes the entries that the log has of challenges whose new verdict is that they were lost, and returns whether there
    /// was one: records that were restored lack the first verdicts, and a second entry would break the log.
    async fn note_restored(&self, size: u64, unlogged: &[UnloggedVerdict]) -> Result<bool, VerdictLogError> {
        // A text in a document has no quotes.
        let lost = format!("\"code\":\"{}\"", ReasonCode::ValidatorLost);
        let lost = unlogged.iter().filter(|it| it.document.contains(&lost));
        let (lost, mut found): (HashSet<_>, _) = (lost.map(|it| &it.challenge).collect(), false);
        let tiles = if lost.is_empty() { 0 } else { size.div_ceil(WIDTH) };
        for index in 0..tiles {
            for (at, challenge) in (index * WIDTH..).zip(self.challenges(index, size).await?) {
                if lost.contains(&challenge) {
                    self.records.note_logged(at, &[challenge]).await?;
                    found = true;
                }
            }
        }
        Ok(found)
    }

    /// The challenges of a tile's entries in the log of this size.
    async fn challenges(&self, index: u64, size: u64) -> Result<Vec<String>, LogError> {
        let Some(tile) = Tile::in_tree(TileKind::Entries, index, size) else { return Ok(Vec::new()) };
        let (_, entries) = self.source(&self.key()).entries(tile).await?;
        Ok(entries.iter().map(|(entry, _)| entry.challenge.to_string()).collect())
    }

    /// Has the witnesses cosign the last checkpoint that have not. One that is away or refuses is asked again later.
    async fn cosign(&self, mut open: OpenLog) -> Result<OpenLog, VerdictLogError> {
        if open.asked.is_some_and(|asked| asked.elapsed() < RETRY) {
            return Ok(open);
        }
        let mut asked = JoinSet::new();
        for (at, witness) in self.witnesses.iter().enumerate().filter(|(at, _)| open.cosigned[*at].1.is_none()) {
            let (witness, source, signed) =
                (witness.clone(), self.source(&self.key()), open.writer.checkpoint().clone());
            let log = log_key(self.identity.public_key());
            let mut known = open.cosigned[at].0.min(signed.checkpoint.size);
            asked.spawn(async move {
                let asked = add_checkpoint(&witness, &log, &source, &signed, &mut known);
                let cosigned = timeout(WITNESS_LIMIT, asked).await;
                let late = |_| Err(LogError::Http(format!("{witness}: no answer within {WITNESS_LIMIT:?}")));
                (at, cosigned.unwrap_or_else(late), known)
            });
        }
        if asked.is_empty() {
            return Ok(open);
        }
        open.asked = Some(Instant::now());
        while let Some(answered) = asked.join_next().await {
            let (at, answer, known) = answered.map_err(|_| malformed("the answer of a task that ended"))?;
            match answer {
                Ok(line) => open.cosigned[at] = (known, Some(line)),
                Err(error @ LogError::Inconsistent(_)) => return Err(error.into()),
                Err(error) => {
                    tracing::warn!(%error, "a witness does not cosign the log");
                    continue;
                }
            }
            // Published at once: another witness may hang.
            let lines: String = open.cosigned.iter().filter_map(|(_, line)| line.as_deref()).collect();
            let mut writer = open.writer;
            open.writer = blocking(move || writer.cosign(&lines).map(|()| writer)).await?;
        }
        Ok(open)
    }

    fn key(&self) -> String {
        self.identity.public_key().to_string()
    }

    fn source(&self, key: &str) -> Source {
        Source::Folder(self.folder.join(key))
    }

    /// The proof that a receipt is in a log; `None` before it is there.
    pub async fn proof(&self, challenge: &str, token: &str) -> Result<Option<ReceiptProof>, VerdictLogError> {
        let Some((validator, index)) = self.records.log_index(challenge).await? else { return Ok(None) };
        let key: PublicKey = validator.parse().map_err(|_| malformed("a key in the records"))?;
        let (key, source): (NoteKey, _) = (log_key(key), self.source(&validator));
        let signed = SignedCheckpoint::open(&source.checkpoint().await?, &key, &[])?;
        let size = signed.checkpoint.size;
        let beyond = || LogError::Inconsistent(format!("entry {index} is not in the log of {size}"));
        let tile = Tile::in_tree(TileKind::Entries, index / WIDTH, size).ok_or_else(beyond)?;
        let entries = source.entries(tile).await?.1;
        let (entry, _) = entries.get((index % WIDTH) as usize).copied().ok_or_else(beyond)?;
        let hashes = TreeReader::new(&source, size).inclusion(index).await?;
        let proof = ReceiptProof { entry, index, hashes, note: signed.note };
        let challenge = challenge.parse().map_err(|_| malformed("an id in the records"))?;
        proof.check((challenge, token), &key, &[])?;
        Ok(Some(proof))
    }

    /// The file at a path of the log of a key; whether it changes. `None`: there is none.
    pub async fn read(&self, key: &str, path: &str) -> Result<Option<(Vec<u8>, bool)>, LogError> {
        if key.parse::<PublicKey>().is_err() {
            return Ok(None);
        }
        if path == CHECKPOINT {
            return match self.source(key).checkpoint().await {
                Ok(note) => Ok(Some((note.into_bytes(), true))),
                Err(LogError::NotThere(_)) => Ok(None),
                Err(error) => Err(error),
            };
        }
        let Ok(tile) = path.parse::<Tile>() else { return Ok(None) };
        Ok(self.source(key).read(path, tile.max_bytes()).await?.map(|bytes| (bytes, false)))
    }
}

fn malformed(what: &str) -> LogError {
    LogError::Malformed(format!("{what} is malformed"))
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, LogError> + Send + 'static,
) -> Result<T, LogError> {
    spawn_blocking(work).await.map_err(|_| malformed("the state of a thread that ended"))?
}

#[cfg(test)]
mod tests;
