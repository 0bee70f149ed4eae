//! Appends to a log in a folder. Tiles and bundles are on disk before the checkpoint that covers them: a crash at any
//! point leaves the log of the last checkpoint, and files beyond it, which the next start removes.

use std::fs;
use std::path::{Path, PathBuf};

use assay_protocol::identity::Identity;

use crate::checkpoint::{Checkpoint, SignedCheckpoint, log_key};
use crate::edge::Edge;
use crate::entry::{VerdictEntry, bundle, unbundle};
use crate::error::LogError;
use crate::file;
use crate::hash::Hash;
use crate::note::{MAX_NOTE_BYTES, NoteKey};
use crate::source::{CHECKPOINT, beginning, hashes};
use crate::tile::{TILE_WIDTH, Tile, TileKind};

/// The one writer of a log. It blocks on the disk.
#[derive(Debug)]
pub struct LogWriter {
    folder: PathBuf,
    identity: Identity,
    key: NoteKey,
    edge: Edge,
    /// The entries of the partial bundle.
    entries: Vec<u8>,
    signed: SignedCheckpoint,
}

impl LogWriter {
    /// Opens the log of this identity, or begins one in a folder without files.
    ///
    /// # Errors
    /// [`LogError`]: the folder's log is another one's, was changed, or has lost its checkpoint. Nothing is appended to
    /// such a log.
    pub fn open(folder: &Path, identity: Identity) -> Result<Self, LogError> {
        let key = log_key(identity.public_key());
        let file = folder.join(CHECKPOINT);
        fs::create_dir_all(folder).map_err(LogError::file(folder))?;
        let note = match file::read(&file, MAX_NOTE_BYTES as u64)? {
            Some(note) => String::from_utf8(note).map_err(|_| LogError::malformed("the checkpoint is not UTF-8"))?,
            None if file::files(folder)?.iter().all(|file| file.ends_with(file::NEW)) => {
                let first = Checkpoint { origin: key.name().to_owned(), size: 0, root: Hash::empty() };
                let note = first.sign(&identity);
                file::replace(&file, note.as_bytes())?;
                note
            }
            None => {
                return Err(LogError::inconsistent(format!("the log in {} has no checkpoint", folder.display())));
            }
        };
        let signed = SignedCheckpoint::open(&note, &key, &[])?;
        remove_uncommitted(folder, signed.checkpoint.size)?;
        let size = signed.checkpoint.size;
        let edge = Edge::read(size, |tile| hashes(tile, &read_tile(folder, tile)?))?;
        let bundle = Tile::in_tree(TileKind::Entries, size / u64::from(TILE_WIDTH), size);
        let entries = bundle.map(|tile| read_tile(folder, tile)).transpose()?.unwrap_or_default();
        if let Some(tile) = bundle {
            unbundle(&entries, tile.width)?;
        }
        if edge.root() != signed.checkpoint.root {
            let folder = folder.display();
            return Err(LogError::inconsistent(format!("the tiles in {folder} are not those of their checkpoint")));
        }
        Ok(Self { folder: folder.to_owned(), identity, key, edge, entries, signed })
    }

    /// The last checkpoint.
    pub const fn checkpoint(&self) -> &SignedCheckpoint {
        &self.signed
    }

    pub const fn size(&self) -> u64 {
        self.edge.size
    }

    /// Appends entries. They are in the log, on disk, once this returns.
    ///
    /// # Errors
    /// [`LogError::File`]: none of them is in the log.
    pub fn append(&mut self, appended: &[VerdictEntry]) -> Result<(), LogError> {
        if appended.is_empty() {
            return Ok(());
        }
        let (mut edge, mut entries, mut full) = (self.edge.clone(), self.entries.clone(), Vec::new());
        for entry in appended {
            bundle(entry, &mut entries);
            for (tile, hashes) in edge.push(entry.leaf()) {
                if tile.kind == TileKind::Hashes(0) {
                    let bundle = Tile { kind: TileKind::Entries, ..tile };
                    self.write_tile(bundle, &std::mem::take(&mut entries))?;
                    full.push(bundle);
                }
                self.write_tile(tile, &bytes(&hashes))?;
                full.push(tile);
            }
        }
        for (tile, hashes) in edge.partial() {
            self.write_tile(tile, &bytes(hashes))?;
        }
        if let Some(tile) = Tile::in_tree(TileKind::Entries, edge.size / u64::from(TILE_WIDTH), edge.size) {
            self.write_tile(tile, &entries)?;
        }
        let checkpoint = Checkpoint { origin: self.key.name().to_owned(), size: edge.size, root: edge.root() };
        let note = checkpoint.sign(&self.identity);
        self.publish(&note)?;
        (self.edge, self.entries) = (edge, entries);
        self.signed = SignedCheckpoint { note, checkpoint, cosigned: Vec::new() };
        full.iter().for_each(|tile| self.remove_partial(*tile));
        Ok(())
    }

    /// Adds signature lines of witnesses to the last checkpoint.
    ///
    /// # Errors
    /// [`LogError`]: the checkpoint stays without them.
    pub fn cosign(&mut self, lines: &str) -> Result<(), LogError> {
        let note = self.signed.checkpoint.sign(&self.identity) + lines;
        let signed = SignedCheckpoint::open(&note, &self.key, &[])?;
        self.publish(&note)?;
        self.signed = signed;
        Ok(())
    }

    fn publish(&self, note: &str) -> Result<(), LogError> {
        file::replace(&self.folder.join(CHECKPOINT), note.as_bytes())
    }

    fn write_tile(&self, tile: Tile, bytes: &[u8]) -> Result<(), LogError> {
        file::replace(&self.folder.join(tile.path()), bytes)
    }

    /// Removes the partial tiles of a full one. Those that stay do no harm.
    fn remove_partial(&self, full: Tile) {
        let _ = fs::remove_dir_all(self.folder.join(full.path() + ".p"));
    }
}

fn bytes(hashes: &[Hash]) -> Vec<u8> {
    hashes.iter().flat_map(|hash| hash.0).collect()
}

fn read_tile(folder: &Path, tile: Tile) -> Result<Vec<u8>, LogError> {
    let path = folder.join(tile.path());
    let bytes = file::read(&path, tile.max_bytes())?;
    bytes.ok_or_else(|| LogError::inconsistent(format!("{} is missing", path.display())))
}

/// Removes tiles beyond the checkpoint: of an append that a crash cut short.
fn remove_uncommitted(folder: &Path, size: u64) -> Result<(), LogError> {
    for name in file::files(folder)? {
        let path = folder.join(&name);
        if let Ok(tile) = name.parse::<Tile>() {
            match Tile::in_tree(tile.kind, tile.index, size) {
                Some(in_tree) if in_tree.width >= tile.width => continue,
                Some(in_tree) => keep_beginning(folder, in_tree)?,
                None => {}
            }
        } else if !name.ends_with(file::NEW) {
            continue;
        }
        fs::remove_file(&path).map_err(LogError::file(&path))?;
    }
    Ok(())
}

/// Writes a partial tile that the full one has replaced: the copy of a log that grew meanwhile may lack it.
fn keep_beginning(folder: &Path, partial: Tile) -> Result<(), LogError> {
    let (path, full) = (folder.join(partial.path()), partial.full());
    match file::read(&folder.join(full.path()), full.max_bytes())? {
        Some(bytes) if !path.exists() => file::replace(&path, &beginning(partial, bytes)?),
        _ => Ok(()),
    }
}
