//! A pass: leaves, products and digests, slot after slot (WORK.md, A pass).

use super::digest::Hashing;
use super::flow::{Dispatch, Flow};
use super::kernels::{Kernels, ProductKernel};
use super::memory::{Memory, SlotPiece};
use super::plan::{Layout, MAX_WORKGROUPS, STATE_BYTES};
use super::shaders::{self, KEYSTREAM_THREADS};
use assay_device::pace::{WorkKind, Workload};
use assay_device::{DeviceError, Pass};
use assay_work::keys::parents;

/// Workgroups of the first dispatch of keystream, while the rate is not known.
const FIRST_GROUPS: u64 = 64;
/// Multiply-accumulates of the first dispatch of products: a hundredth of a second of a slow processor.
const FIRST_PRODUCTS: u64 = 1 << 26;
/// The key of what memory holds in the debug mode before a pass.
const POISON: [u32; 8] = [0xA5A5_A5A5; 8];

/// A pass over memory that was laid out for it.
pub(super) struct Filling<'a> {
    /// What to compute.
    pub(super) pass: Pass,
    /// Where its pieces lie.
    pub(super) layout: Layout,
    /// With what.
    pub(super) kernels: &'a Kernels,
    /// Slots and scratch.
    pub(super) memory: &'a Memory,
    /// Whether to overwrite all slots first.
    pub(super) poison: bool,
}

impl<'a> Filling<'a> {
    /// Fills all slots and leaves their digests in the scratch. When it fails, no submission is pending, or the
    /// device is lost.
    pub(super) fn run(&self, flow: &mut Flow<'a>) -> Result<(), DeviceError> {
        match self.record_all(flow).and_then(|()| flow.finish()) {
            Err(DeviceError::Cancelled) => flow.abandon().and(Err(DeviceError::Cancelled)),
            other => other,
        }
    }

    fn record_all(&self, flow: &mut Flow<'a>) -> Result<(), DeviceError> {
        if self.poison {
            for u in 0..self.pass.count {
                self.keystream(flow, &POISON, u64::MAX, u)?;
            }
        }
        let key = words_of(self.pass.key.as_bytes());
        for u in 0..self.pass.count {
            if u < 2 {
                self.keystream(flow, &key, u64::from(self.pass.offset) + u64::from(u), u)?;
            } else {
                self.product(flow, u)?;
            }
            let hashing = Hashing { kernels: self.kernels, memory: self.memory, layout: self.layout };
            let digest = self.layout.digests.first + u64::from(u);
            hashing.string(flow, self.pieces(u), self.layout.slot_bytes(), digest)?;
            flow.finish_steps(1)?;
        }
        Ok(())
    }

    fn pieces(&self, slot: u32) -> impl Iterator<Item = SlotPiece<'a>> + use<'a> {
        let (memory, layout) = (self.memory, self.layout);
        (0..layout.pieces_per_slot).map(move |piece| memory.piece(&layout, slot, piece))
    }

    fn keystream(&self, flow: &mut Flow<'a>, key: &[u32; 8], stream: u64, slot: u32) -> Result<(), DeviceError> {
        keystream(flow, self.kernels, self.pieces(slot), key, stream)
    }

    /// One product: each piece of the earlier slot, which are rows of the result, by each one of the previous slot,
    /// which are its columns.
    pub(super) fn product(&self, flow: &mut Flow<'a>, u: u32) -> Result<(), DeviceError> {
        self.product_with(flow, self.kernels.product(self.pass.n, self.layout.piece_rows()), u)
    }

    /// As [`Filling::product`], with tiles of the caller's choice.
    pub(super) fn product_with(
        &self,
        flow: &mut Flow<'a>,
        product: &'a ProductKernel,
        u: u32,
    ) -> Result<(), DeviceError> {
        let (earlier, previous) = parents(&self.pass.key, u);
        for rows in 0..self.layout.pieces_per_slot {
            for columns in 0..self.layout.pieces_per_slot {
                let bindings = [
                    self.memory.piece(&self.layout, earlier, rows),
                    self.memory.piece(&self.layout, previous, columns),
                    self.memory.piece(&self.layout, u, rows),
                ];
                self.tiles(flow, product, u, (rows, columns), &bindings)?;
            }
        }
        Ok(())
    }

    /// All tiles of one piece by another, in as many dispatches as their time asks for.
    fn tiles(
        &self,
        flow: &mut Flow<'a>,
        product: &'a ProductKernel,
        slot: u32,
        (row_piece, column_piece): (u64, u64),
        bindings: &[SlotPiece<'a>; 3],
    ) -> Result<(), DeviceError> {
        let (n, piece_rows, side) = (u64::from(self.pass.n), self.layout.piece_rows(), u64::from(product.tile.side));
        let across = piece_rows / side;
        let tile_units = side * side * n;
        let mut first_tile = 0;
        while first_tile < across * across {
            let left = across * across - first_tile;
            let tiles = flow.pieces(WorkKind::Product, left, tile_units, FIRST_PRODUCTS / tile_units);
            let tiles = tiles.min(left).min(MAX_WORKGROUPS.into());
            let parameters = shaders::ProductParams {
                n: self.pass.n,
                tiles_across: across as u32,
                first_tile: first_tile as u32,
                row0: (row_piece * piece_rows) as u32,
                column0: (column_piece * piece_rows) as u32,
                slot,
            };
            flow.dispatch(&Dispatch {
                pipeline: &product.pipeline,
                words: &parameters.words(),
                bindings,
                workgroups: tiles as u32,
                work: Workload { kind: WorkKind::Product, units: tiles * tile_units },
            })?;
            first_tile += tiles;
        }
        Ok(())
    }
}

/// Records the keystream into pieces, its first blocks into the first.
pub(super) fn keystream<'a>(
    flow: &mut Flow<'a>,
    kernels: &'a Kernels,
    pieces: impl Iterator<Item = SlotPiece<'a>>,
    key: &[u32; 8],
    stream: u64,
) -> Result<(), DeviceError> {
    let group_blocks = u64::from(KEYSTREAM_THREADS);
    let mut counter = 0;
    for piece in pieces {
        let blocks = piece.bytes / STATE_BYTES;
        let mut at = 0;
        while at < blocks {
            let groups = (blocks - at).div_ceil(group_blocks);
            let cut = flow.pieces(WorkKind::Leaf, groups, group_blocks * STATE_BYTES, FIRST_GROUPS);
            let cut = cut.min(groups).min(MAX_WORKGROUPS.into());
            let here = (cut * group_blocks).min(blocks - at);
            let parameters = shaders::KeystreamParams {
                key: *key,
                stream,
                counter: (counter + at) as u32,
                blocks: here as u32,
                at: at as u32,
            };
            flow.dispatch(&Dispatch {
                pipeline: &kernels.keystream,
                words: &parameters.words(),
                bindings: &[piece],
                workgroups: cut as u32,
                work: Workload { kind: WorkKind::Leaf, units: here * STATE_BYTES },
            })?;
            at += here;
        }
        counter += blocks;
    }
    Ok(())
}

/// A key as little-endian words.
pub(super) fn words_of(key: &[u8; 32]) -> [u32; 8] {
    let mut words = [0; 8];
    for (word, bytes) in words.iter_mut().zip(key.as_chunks::<4>().0) {
        *word = u32::from_le_bytes(*bytes);
    }
    words
}
