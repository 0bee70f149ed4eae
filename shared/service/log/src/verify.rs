//! A whole log, checked without its validator: every hash, every tile, entries against leaves, signatures.

use std::collections::{BTreeMap, HashSet};

use crate::checkpoint::{Checkpoint, SignedCheckpoint};
use crate::edge::Edge;
use crate::entry::VerdictEntry;
use crate::error::LogError;
use crate::file;
use crate::hash::Hash;
use crate::note::NoteKey;
use crate::source::{CHECKPOINT, Source};
use crate::tile::{TILE_WIDTH, Tile, TileKind};

/// Problems that are listed.
const MAX_PROBLEMS: usize = 1000;

/// The result of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedLog {
    /// The checkpoint; `None` where it does not hold itself.
    pub checkpoint: Option<Checkpoint>,
    /// Names of the witnesses that cosigned it.
    pub cosigned: Vec<String>,
    /// Files beyond the checkpoint, of an append that is under way or was cut short: no part of the log.
    pub uncommitted: usize,
    /// Contradictions, each with its file; none: the log holds.
    pub problems: Vec<String>,
}

/// Checks a whole log. Each of these witnesses must have cosigned its checkpoint.
///
/// # Errors
/// [`LogError::File`], [`LogError::Http`] or [`LogError::NotThere`]: it cannot be read. What contradicts is among the problems.
pub async fn verify(source: &Source, log: &NoteKey, witnesses: &[NoteKey]) -> Result<VerifiedLog, LogError> {
    // Before the checkpoint: a file that comes meanwhile is beyond it.
    let files = match source {
        Source::Folder(folder) => Some(files(folder)?),
        Source::Url(_) => None,
    };
    verify_listed(source, files, log, witnesses).await
}

/// Checks a log whose files were listed before.
pub(crate) async fn verify_listed(
    source: &Source,
    files: Option<Files>,
    log: &NoteKey,
    witnesses: &[NoteKey],
) -> Result<VerifiedLog, LogError> {
    let mut found = VerifiedLog { checkpoint: None, cosigned: Vec::new(), uncommitted: 0, problems: Vec::new() };
    let opened = async { SignedCheckpoint::open(&source.checkpoint().await?, log, witnesses) };
    let Some(signed) = found.note(opened.await)? else { return Ok(found) };
    signed.missing(witnesses).for_each(|missing| found.problem(missing));
    found.cosigned = signed.cosigned.iter().map(|witness| witness.name().to_owned()).collect();
    let size = signed.checkpoint.size;
    let mut check = LogCheck { source, size, files, edge: Edge::default(), challenges: HashSet::new(), found };
    check.entries().await?;
    if check.edge.root() != signed.checkpoint.root {
        check.found.problem("the root of the checkpoint is not that of the entries");
    }
    let mut found = check.finish();
    found.checkpoint = Some(signed.checkpoint);
    Ok(found)
}

/// The tiles of a folder by kind and index, and other files.
pub(crate) struct Files {
    tiles: BTreeMap<String, Vec<Tile>>,
    others: Vec<String>,
}

pub(crate) fn files(folder: &std::path::Path) -> Result<Files, LogError> {
    let mut files = Files { tiles: BTreeMap::new(), others: Vec::new() };
    for name in file::files(folder)? {
        match name.parse::<Tile>() {
            Ok(tile) => files.tiles.entry(tile.full().path()).or_default().push(tile),
            Err(_) if name == CHECKPOINT || name.ends_with(file::NEW) => {}
            Err(_) => files.others.push(name),
        }
    }
    Ok(files)
}

struct LogCheck<'a> {
    source: &'a Source,
    size: u64,
    files: Option<Files>,
    edge: Edge,
    challenges: HashSet<[u8; 16]>,
    found: VerifiedLog,
}

impl LogCheck<'_> {
    async fn entries(&mut self) -> Result<(), LogError> {
        for index in 0..self.size.div_ceil(TILE_WIDTH.into()) {
            let Some(bundle) = Tile::in_tree(TileKind::Entries, index, self.size) else { break };
            if self.found.problems.len() == MAX_PROBLEMS {
                break;
            }
            let tile = Tile { kind: TileKind::Hashes(0), ..bundle };
            let read = self.source.entries(bundle).await;
            let leaves: Vec<Hash> = match self.found.note(read)? {
                Some((bytes, entries)) => {
                    let ends: Vec<_> = entries.iter().map(|(_, end)| *end).collect();
                    self.copies(bundle, &bytes, &ends).await?;
                    entries.iter().map(|(entry, _)| self.leaf(entry)).collect()
                }
                // The rest is checked with the hashes that are there.
                None => self.found.note(self.source.hashes(tile).await)?.unwrap_or_default(),
            };
            for leaf in leaves {
                for (tile, hashes) in self.edge.push(leaf) {
                    self.tile(tile, &hashes).await?;
                }
            }
        }
        let partial: Vec<_> = self.edge.partial().map(|(tile, hashes)| (tile, hashes.to_vec())).collect();
        for (tile, hashes) in partial {
            self.tile(tile, &hashes).await?;
        }
        Ok(())
    }

    fn leaf(&mut self, entry: &VerdictEntry) -> Hash {
        if !self.challenges.insert(entry.challenge.0) {
            self.found.problem(format!("challenge {} is in the log twice", entry.challenge));
        }
        entry.leaf()
    }

    async fn tile(&mut self, tile: Tile, hashes: &[Hash]) -> Result<(), LogError> {
        let read = self.source.hashes(tile).await;
        if let Some(read) = self.found.note(read)?
            && read != hashes
        {
            self.found.problem(format!("{} does not have the hashes of the tiles or entries below", tile.path()));
        }
        let bytes: Vec<u8> = hashes.iter().flat_map(|hash| hash.0).collect();
        let ends: Vec<_> = (1..=hashes.len()).map(|count| count * 32).collect();
        self.copies(tile, &bytes, &ends).await
    }

    /// Checks the tile's file and the partial tiles of earlier checkpoints: each is the beginning of this content.
    async fn copies(&mut self, tile: Tile, bytes: &[u8], ends: &[usize]) -> Result<(), LogError> {
        let copies = self.files.as_mut().and_then(|files| files.tiles.remove(&tile.full().path()));
        for copy in copies.unwrap_or_default() {
            let Some(end) = ends.get(usize::from(copy.width) - 1) else {
                self.found.uncommitted += 1;
                continue;
            };
            // The full tile has replaced a partial one that is gone.
            let read = self.source.tile(copy).await;
            if let Some(read) = self.found.note(read)?
                && Some(&*read) != bytes.get(..*end)
            {
                self.found.problem(format!("{} is not the beginning of {}", copy.path(), tile.path()));
            }
        }
        Ok(())
    }

    fn finish(mut self) -> VerifiedLog {
        let Some(files) = self.files else { return self.found };
        for tile in files.tiles.into_values().flatten() {
            match Tile::in_tree(tile.kind, tile.index, self.size) {
                Some(_) if self.found.problems.is_empty() => {
                    self.found.problem(format!("{} was not checked", tile.path()));
                }
                Some(_) => {}
                None => self.found.uncommitted += 1,
            }
        }
        for name in files.others {
            self.found.problem(format!("{name} is no file of a log"));
        }
        self.found
    }
}

impl VerifiedLog {
    fn problem(&mut self, problem: impl Into<String>) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(problem.into());
        }
    }

    /// Notes a contradiction; passes on that a log cannot be read.
    fn note<T>(&mut self, read: Result<T, LogError>) -> Result<Option<T>, LogError> {
        match read {
            Ok(read) => Ok(Some(read)),
            Err(error @ (LogError::File { .. } | LogError::Http(_) | LogError::NotThere(_))) => Err(error),
            Err(error) => {
                self.problem(error.to_string());
                Ok(None)
            }
        }
    }
}
