//! Tiles and entry bundles of C2SP `tlog-tiles`: their names and sizes.

use std::str::FromStr;

use crate::entry::MAX_ENTRY_BYTES;
use crate::error::LogError;
use crate::hash::HASH_BYTES;

/// Hashes of a full tile, and entries of a full bundle.
pub const TILE_WIDTH: u16 = 256;
/// The highest level that a name may have.
const MAX_LEVEL: u8 = 63;

/// The content of a tile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TileKind {
    /// Entries, each behind its length.
    Entries,
    /// Hashes of a level; level 0 has those of entries.
    Hashes(u8),
}

/// A tile, full or partial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tile {
    pub kind: TileKind,
    pub index: u64,
    /// Its hashes or entries: 1 to [`TILE_WIDTH`].
    pub width: u16,
}

impl Tile {
    /// The tile of this index in a tree of a size; `None` where the tree does not reach it.
    pub fn in_tree(kind: TileKind, index: u64, size: u64) -> Option<Self> {
        let nodes = size.checked_shr(8 * u32::from(kind.level())).unwrap_or(0);
        let left = nodes.checked_sub(index.checked_mul(TILE_WIDTH.into())?)?;
        let width = u16::try_from(left).unwrap_or(TILE_WIDTH).min(TILE_WIDTH);
        (width > 0).then_some(Self { kind, index, width })
    }

    /// The full tile of the same index.
    pub const fn full(self) -> Self {
        Self { width: TILE_WIDTH, ..self }
    }

    /// Its path below the log's prefix.
    pub fn path(&self) -> String {
        let kind = match self.kind {
            TileKind::Entries => "entries".to_owned(),
            TileKind::Hashes(level) => level.to_string(),
        };
        let (mut rest, mut index) = (self.index / 1000, format!("{:03}", self.index % 1000));
        while rest > 0 {
            index = format!("x{:03}/{index}", rest % 1000);
            rest /= 1000;
        }
        let partial = if self.width < TILE_WIDTH { format!(".p/{}", self.width) } else { String::new() };
        format!("tile/{kind}/{index}{partial}")
    }

    /// The most bytes of its content.
    pub fn max_bytes(&self) -> u64 {
        let each = match self.kind {
            TileKind::Entries => MAX_ENTRY_BYTES + 2,
            TileKind::Hashes(_) => HASH_BYTES,
        };
        u64::from(self.width) * each as u64
    }
}

impl TileKind {
    const fn level(self) -> u8 {
        match self {
            Self::Entries => 0,
            Self::Hashes(level) => level,
        }
    }
}

impl FromStr for Tile {
    type Err = LogError;

    /// Reads a path; one that [`Tile::path`] would not write is none.
    fn from_str(path: &str) -> Result<Self, LogError> {
        parse(path)
            .filter(|tile| tile.path() == path)
            .ok_or_else(|| LogError::malformed(format!("{path:?} is no path of a tile")))
    }
}

fn parse(path: &str) -> Option<Tile> {
    let (kind, rest) = path.strip_prefix("tile/")?.split_once('/')?;
    let kind = match kind {
        "entries" => TileKind::Entries,
        level => TileKind::Hashes(level.parse().ok().filter(|level| *level <= MAX_LEVEL)?),
    };
    let (index, width) = match rest.split_once(".p/") {
        Some((index, width)) => (index, width.parse().ok().filter(|width| (1..TILE_WIDTH).contains(width))?),
        None => (rest, TILE_WIDTH),
    };
    let digits: String = index.split('/').map(|part| part.trim_start_matches('x')).collect();
    Some(Tile { kind, index: digits.parse().ok()?, width })
}
