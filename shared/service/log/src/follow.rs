//! A follower of another's log: it keeps the last checkpoint, and each new one must go on from there.

use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::checkpoint::{Checkpoint, SignedCheckpoint};
use crate::error::LogError;
use crate::file;
use crate::hash::{Hash, sha256};
use crate::note::{MAX_NOTE_BYTES, NoteKey};
use crate::proof::is_consistent;
use crate::source::Source;
use crate::tree::TreeReader;

/// Pause before a checkpoint that lacks a cosignature is read again.
const AGAIN: Duration = Duration::from_secs(1);

/// Follows a log, with the last checkpoint in a file.
#[derive(Debug)]
pub struct Follower {
    pub source: Source,
    pub log: NoteKey,
    /// Keys of the witnesses of which each checkpoint must have a cosignature.
    pub witnesses: Vec<NoteKey>,
    /// The file with the last checkpoint.
    pub file: PathBuf,
    /// How long a checkpoint may lack a cosignature: it is published before witnesses are asked.
    pub patience: Duration,
}

impl Follower {
    /// Reads the log's checkpoint, checks that it goes on from the one that is kept, and keeps it.
    ///
    /// # Errors
    /// [`LogError::Inconsistent`] or [`LogError::Malformed`]: the log was forked, rolled back or changed; others: it cannot
    /// be read now.
    pub async fn check(&self) -> Result<Checkpoint, LogError> {
        let kept = self.kept()?;
        let until = Instant::now() + self.patience;
        let signed = loop {
            let note = self.source.checkpoint().await.map_err(|error| match (error, &kept) {
                (LogError::NotThere(source), Some(_)) => LogError::inconsistent(format!("the log of {source} is gone")),
                (error, _) => error,
            })?;
            let signed = SignedCheckpoint::open(&note, &self.log, &self.witnesses)?;
            let missing = signed.missing(&self.witnesses).next();
            match missing {
                None => break signed,
                Some(missing) if Instant::now() >= until => return Err(LogError::Inconsistent(missing)),
                Some(_) => tokio::time::sleep(AGAIN).await,
            }
        };
        let now = signed.checkpoint;
        let (kind, error) = match self.contradiction(kept.as_ref(), &now).await {
            Ok(None) => ("", None),
            Ok(Some(why)) => ("fork", Some(LogError::Inconsistent(why))),
            // Its tiles are kept back, or lost: it is no proof alone, and beside another of its size it is.
            Err(error @ (LogError::Inconsistent(_) | LogError::Malformed(_))) => ("seen", Some(error)),
            Err(error) => return Err(error),
        };
        if let Some(error) = error {
            // With the one that is kept, it proves to others that the validator signed both. Each has a file of its own,
            // and one that cannot be written hides no fork.
            let digits = hex::encode(&sha256(signed.note.as_bytes())[..4]);
            let path = self.file.with_added_extension(format!("{kind}-{digits}"));
            let _ = file::replace(&path, signed.note.as_bytes());
            return Err(error);
        }
        file::replace(&self.file, signed.note.as_bytes())?;
        Ok(now)
    }

    /// Checks a signed checkpoint against the one before it, and then against the tiles, which may be kept back: a missing
    /// tile is an error, and no contradiction.
    async fn contradiction(&self, before: Option<&Checkpoint>, now: &Checkpoint) -> Result<Option<String>, LogError> {
        let (old, root) = before.map_or((0, Hash::empty()), |before| (before.size, before.root));
        let size = now.size;
        let forked = format!("the log was forked: its first {old} entries are not those that it had");
        if size < old {
            return Ok(Some(format!("the log was rolled back: it has {size} entries, and had {old}")));
        }
        if size == old && root != now.root {
            return Ok(Some(forked));
        }
        let mut tree = TreeReader::new(&self.source, size);
        if tree.root().await? != now.root {
            return Ok(Some("the tiles are not those of the checkpoint".to_owned()));
        }
        let holds = is_consistent((old, &root), (size, &now.root), &tree.consistency(old).await?);
        Ok((!holds).then_some(forked))
    }

    /// The checkpoint that is kept: this program wrote it, and it was checked.
    ///
    /// # Errors
    /// The file cannot be read, or has none of this log.
    pub fn kept(&self) -> Result<Option<Checkpoint>, LogError> {
        let Some(note) = file::read(&self.file, MAX_NOTE_BYTES as u64)? else { return Ok(None) };
        let opened = String::from_utf8(note).ok().and_then(|note| SignedCheckpoint::open(&note, &self.log, &[]).ok());
        let other = || LogError::file(&self.file)(io::Error::other("not a checkpoint of this log"));
        opened.map(|signed| Some(signed.checkpoint)).ok_or_else(other)
    }
}
