//! Hashes and proofs of a tree, from the tiles that it needs.

use std::collections::HashMap;

use crate::error::LogError;
use crate::hash::Hash;
use crate::proof::{Subtree, consistency, inclusion};
use crate::source::Source;
use crate::tile::{TILE_WIDTH, Tile, TileKind};

/// Reads a tree of one size. Its hashes are to be checked against a root.
#[derive(Debug)]
pub struct TreeReader<'a> {
    source: &'a Source,
    size: u64,
    /// Tiles that were read: those of one or two proofs.
    tiles: HashMap<Tile, Vec<Hash>>,
}

impl<'a> TreeReader<'a> {
    pub fn new(source: &'a Source, size: u64) -> Self {
        Self { source, size, tiles: HashMap::new() }
    }

    /// The hash of an entry.
    pub async fn leaf(&mut self, index: u64) -> Result<Hash, LogError> {
        self.subtree((index, index + 1)).await
    }

    pub async fn root(&mut self) -> Result<Hash, LogError> {
        if self.size == 0 { Ok(Hash::empty()) } else { self.subtree((0, self.size)).await }
    }

    /// The proof that an entry is in the tree.
    pub async fn inclusion(&mut self, index: u64) -> Result<Vec<Hash>, LogError> {
        self.hashes(inclusion(index, self.size)).await
    }

    /// The proof that a tree of `old` entries is the beginning of this one.
    pub async fn consistency(&mut self, old: u64) -> Result<Vec<Hash>, LogError> {
        if old == 0 || old >= self.size { Ok(Vec::new()) } else { self.hashes(consistency(old, self.size)).await }
    }

    async fn hashes(&mut self, subtrees: Vec<Subtree>) -> Result<Vec<Hash>, LogError> {
        let mut hashes = Vec::new();
        for subtree in subtrees {
            hashes.push(self.subtree(subtree).await?);
        }
        Ok(hashes)
    }

    /// The hash of a subtree of a proof: of complete subtrees from left to right, each smaller than the one before.
    async fn subtree(&mut self, (mut low, high): Subtree) -> Result<Hash, LogError> {
        let mut parts = Vec::new();
        while low < high {
            let bits = (high - low).ilog2();
            parts.push(self.complete(bits, low).await?);
            low += 1 << bits;
        }
        let last = parts.pop().ok_or_else(|| LogError::malformed("an empty subtree"))?;
        Ok(parts.iter().rev().fold(last, |right, left| Hash::node(left, &right)))
    }

    /// The hash of the complete subtree of `2^bits` entries that begins at `low`, a multiple of that.
    async fn complete(&mut self, bits: u32, low: u64) -> Result<Hash, LogError> {
        let level = bits / 8;
        let first = low >> (8 * level);
        let (index, offset) = (first / u64::from(TILE_WIDTH), (first % u64::from(TILE_WIDTH)) as usize);
        // `bits` is below 64.
        let tile = Tile::in_tree(TileKind::Hashes(level as u8), index, self.size);
        let tile = tile.ok_or_else(|| LogError::malformed("beyond the tree"))?;
        if !self.tiles.contains_key(&tile) {
            let hashes = self.source.hashes(tile).await?;
            self.tiles.insert(tile, hashes);
        }
        let hashes = self.tiles.get(&tile).and_then(|hashes| hashes.get(offset..offset + (1 << (bits % 8))));
        hashes.map(Hash::above).ok_or_else(|| LogError::malformed("beyond a tile"))
    }
}
