//! Where a log is read: a folder, or a URL prefix.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use crate::entry::{VerdictEntry, unbundle};
use crate::error::LogError;
use crate::file;
use crate::hash::Hash;
use crate::http::Url;
use crate::note::MAX_NOTE_BYTES;
use crate::tile::{TILE_WIDTH, Tile, TileKind};

/// The path of the checkpoint.
pub const CHECKPOINT: &str = "checkpoint";

/// Where a log is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    Folder(PathBuf),
    Url(Url),
}

impl FromStr for Source {
    type Err = LogError;

    fn from_str(text: &str) -> Result<Self, LogError> {
        if text.contains("://") { Ok(Self::Url(text.parse()?)) } else { Ok(Self::Folder(text.into())) }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(path) => path.display().fmt(f),
            Self::Url(url) => url.fmt(f),
        }
    }
}

impl Source {
    /// The bytes at a path of the log; `None`: there are none.
    pub async fn read(&self, path: &str, max_bytes: u64) -> Result<Option<Vec<u8>>, LogError> {
        match self {
            Self::Url(url) => url.get(path, max_bytes).await,
            Self::Folder(folder) => {
                let path = folder.join(path);
                let lost = |_| LogError::malformed("a read of a file was lost");
                tokio::task::spawn_blocking(move || file::read(&path, max_bytes)).await.map_err(lost)?
            }
        }
    }

    /// The checkpoint's note, unchecked.
    pub async fn checkpoint(&self) -> Result<String, LogError> {
        let Some(note) = self.read(CHECKPOINT, MAX_NOTE_BYTES as u64).await? else {
            return Err(match self.has_tiles().await? {
                true => LogError::inconsistent(format!("{self} has tiles, and no checkpoint")),
                false => LogError::NotThere(self.to_string()),
            });
        };
        String::from_utf8(note).map_err(|_| LogError::malformed("the checkpoint is not UTF-8"))
    }

    /// Whether a folder has tiles, or a URL the first full one.
    async fn has_tiles(&self) -> Result<bool, LogError> {
        let first = Tile { kind: TileKind::Hashes(0), index: 0, width: TILE_WIDTH };
        match self {
            Self::Folder(folder) => Ok(folder.join("tile").exists()),
            Self::Url(url) => Ok(url.get(&first.path(), first.max_bytes()).await?.is_some()),
        }
    }

    /// A tile's bytes, of the full tile where the partial one is gone.
    pub(crate) async fn tile(&self, tile: Tile) -> Result<Vec<u8>, LogError> {
        if let Some(bytes) = self.read(&tile.path(), tile.max_bytes()).await? {
            return Ok(bytes);
        }
        let full = tile.full();
        let bytes = match tile.width < TILE_WIDTH {
            true => self.read(&full.path(), full.max_bytes()).await?,
            false => None,
        };
        let bytes = bytes.ok_or_else(|| LogError::inconsistent(format!("{} is missing", tile.path())))?;
        beginning(tile, bytes)
    }

    /// The hashes of a tile.
    pub async fn hashes(&self, tile: Tile) -> Result<Vec<Hash>, LogError> {
        hashes(tile, &self.tile(tile).await?)
    }

    /// The bytes of a bundle, and its entries, each with its end.
    pub async fn entries(&self, tile: Tile) -> Result<(Vec<u8>, Vec<(VerdictEntry, usize)>), LogError> {
        let bytes = self.tile(tile).await?;
        let entries = unbundle(&bytes, tile.width).map_err(|error| inside(tile, &error))?;
        Ok((bytes, entries))
    }
}

/// The bytes of a partial tile, of those of the full one.
pub(crate) fn beginning(tile: Tile, mut full: Vec<u8>) -> Result<Vec<u8>, LogError> {
    let end = match tile.kind {
        TileKind::Hashes(_) => usize::from(tile.width) * 32,
        TileKind::Entries => unbundle(&full, TILE_WIDTH)?[usize::from(tile.width) - 1].1,
    };
    full.truncate(end);
    Ok(full)
}

fn inside(tile: Tile, error: &LogError) -> LogError {
    LogError::Malformed(format!("{}: {error}", tile.path()))
}

/// The hashes in the bytes of a tile.
pub fn hashes(tile: Tile, bytes: &[u8]) -> Result<Vec<Hash>, LogError> {
    let (hashes, rest) = bytes.as_chunks();
    if !rest.is_empty() || hashes.len() != usize::from(tile.width) {
        return Err(LogError::malformed(format!("{} does not have {} hashes", tile.path(), tile.width)));
    }
    Ok(hashes.iter().copied().map(Hash).collect())
}
