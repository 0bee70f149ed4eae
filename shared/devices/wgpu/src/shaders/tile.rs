//! How a product is cut into tiles, one for each workgroup.

use assay_work::challenge::MIN_N;

/// Bytes of a packed word of four elements.
const WORD_BYTES: u32 = 4;
/// Up to this n, tiles are small, so that there are enough of them to fill a device.
const SMALL_TILES_N: u32 = 1024;

/// A tile of `side` by `side` elements, for the `(side / per_thread)²` invocations of a workgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct ShaderTile {
    pub side: u32,
    /// Elements along a side of the square whose sums one invocation holds: 4 or 8.
    pub per_thread: u32,
    /// Packed words of the inner dimension that lie in workgroup memory at a time.
    pub words: u32,
}

impl ShaderTile {
    /// All tiles, in the order in which to try them.
    pub const ALL: [Self; 5] =
        [Self::new(128, 8, 16), Self::new(128, 8, 8), Self::new(64, 8, 8), Self::new(64, 4, 32), Self::new(64, 4, 16)];

    const fn new(side: u32, per_thread: u32, words: u32) -> Self {
        let tile = Self { side, per_thread, words };
        assert!(per_thread == 4 || per_thread == 8, "a source file for each");
        assert!(words.is_multiple_of(4), "blocks of 16 bytes");
        assert!(2 * (side / 4) * (words / 4) <= tile.threads(), "a block of an operand, or none, for each invocation");
        assert!(MIN_N.is_multiple_of(side) && MIN_N.is_multiple_of(WORD_BYTES * words), "whole tiles and steps");
        tile
    }

    pub const fn threads(self) -> u32 {
        (self.side / self.per_thread) * (self.side / self.per_thread)
    }

    /// Bytes of workgroup memory: both operands.
    pub const fn workgroup_bytes(self) -> u32 {
        2 * self.side * self.words * WORD_BYTES
    }

    /// The tiles for n-by-n matrices on a device of these limits, the most promising first. No API reports a device's
    /// registers: where 8 by 8 sums spill, a tile with fewer is faster, which only a measurement shows.
    pub fn fitting(limits: &::wgpu::Limits, n: u32) -> impl Iterator<Item = Self> {
        let limits = limits.clone();
        let suits = move |tile: &Self| n > SMALL_TILES_N || tile.side < 128;
        Self::ALL.into_iter().filter(suits).filter(move |tile| tile.fits(&limits))
    }

    /// The first of those that fit; `None` if even the smallest does not.
    pub fn choose(limits: &::wgpu::Limits, n: u32) -> Option<Self> {
        Self::fitting(limits, n).next()
    }

    /// Whether a device of these limits runs it.
    pub const fn fits(self, limits: &::wgpu::Limits) -> bool {
        self.workgroup_bytes() <= limits.max_compute_workgroup_storage_size
            && self.threads() <= limits.max_compute_invocations_per_workgroup
            && self.threads() <= limits.max_compute_workgroup_size_x
    }
}
