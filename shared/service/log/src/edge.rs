//! The right edge of a tree: an append reads nothing else.

use crate::error::LogError;
use crate::hash::Hash;
use crate::tile::{TILE_WIDTH, Tile, TileKind};

/// The hashes of the tiles at the right edge that are not full, by level.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Edge {
    pub size: u64,
    levels: Vec<Vec<Hash>>,
}

impl Edge {
    /// The edge of a tree of this size, whose partial tiles `read` gives.
    ///
    /// # Errors
    /// Those of `read`.
    pub fn read(size: u64, mut read: impl FnMut(Tile) -> Result<Vec<Hash>, LogError>) -> Result<Self, LogError> {
        let mut levels = Vec::new();
        for (level, nodes) in levels_of(size) {
            let tile = Tile::in_tree(TileKind::Hashes(level), nodes / u64::from(TILE_WIDTH), size);
            levels.push(tile.map(&mut read).transpose()?.unwrap_or_default());
        }
        Ok(Self { size, levels })
    }

    /// Appends an entry's hash; gives the tiles that it fills.
    pub fn push(&mut self, leaf: Hash) -> Vec<(Tile, Vec<Hash>)> {
        let (mut filled, mut hash) = (Vec::new(), leaf);
        self.size += 1;
        for level in 0.. {
            if self.levels.len() == usize::from(level) {
                self.levels.push(Vec::new());
            }
            let hashes = &mut self.levels[usize::from(level)];
            hashes.push(hash);
            if hashes.len() < usize::from(TILE_WIDTH) {
                break;
            }
            let hashes = std::mem::take(hashes);
            hash = Hash::above(&hashes);
            let index = (self.size >> (8 * (u32::from(level) + 1))) - 1;
            filled.push((Tile { kind: TileKind::Hashes(level), index, width: TILE_WIDTH }, hashes));
        }
        filled
    }

    /// The partial tiles.
    pub fn partial(&self) -> impl Iterator<Item = (Tile, &[Hash])> {
        levels_of(self.size).zip(&self.levels).filter_map(|((level, nodes), hashes)| {
            let tile = Tile::in_tree(TileKind::Hashes(level), nodes / u64::from(TILE_WIDTH), self.size)?;
            Some((tile, hashes.as_slice()))
        })
    }

    pub fn root(&self) -> Hash {
        // Complete subtrees from left to right, each smaller than the one before.
        let mut subtrees = Vec::new();
        for hashes in self.levels.iter().rev() {
            let mut rest = hashes.as_slice();
            while !rest.is_empty() {
                let (subtree, after) = rest.split_at(1 << rest.len().ilog2());
                subtrees.push(Hash::above(subtree));
                rest = after;
            }
        }
        let last = subtrees.pop();
        last.map_or_else(Hash::empty, |last| subtrees.iter().rev().fold(last, |right, left| Hash::node(left, &right)))
    }
}

/// The levels of a tree with a node, each with the number of its complete nodes.
fn levels_of(size: u64) -> impl Iterator<Item = (u8, u64)> {
    (0..8_u8).map(move |level| (level, size >> (8 * u32::from(level)))).take_while(|(_, nodes)| *nodes > 0)
}
