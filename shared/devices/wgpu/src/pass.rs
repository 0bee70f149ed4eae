//! A pass: leaves, products and digests, slot after slot (WORK.md, A pass).

use std::cell::Cell;

use super::digest::DigestTree;
use super::flow::{Dispatch, Flow};
use super::kernels::{Kernels, ProductPipeline};
use super::memory::{Memory, SlotPiece};
use super::plan::{BufferLayout, MAX_WORKGROUPS, OPERAND_MATRICES, STATE_BYTES};
use super::shaders::{self, EXPAND_THREADS, KEYSTREAM_THREADS};
use assay_device::pace::{WorkKind, Workload};
use assay_device::{DeviceError, Pass};
use assay_work::keys::parents;

/// Workgroups of the first dispatch of keystream or operands, while the rate is not known.
pub(super) const FIRST_GROUPS: u64 = 64;
/// The matrix that operands by a rule are written to. They serve one slot alone.
pub(super) const RULE_MATRIX: usize = 0;
/// Multiply-accumulates of the first dispatch of products: a hundredth of a second of a slow processor.
const FIRST_PRODUCTS: u64 = 1 << 26;
/// Bytes that an invocation expands.
const VECTOR_BYTES: u64 = 16;
/// The key of the keystream that fills memory in the debug mode before a pass.
const POISON: [u32; 8] = [0xA5A5_A5A5; 8];

/// A pass over memory that was laid out for it.
pub(super) struct BufferedPass<'a> {
    pub(super) pass: Pass,
    /// The places of its buffers.
    pub(super) layout: BufferLayout,
    pub(super) kernels: &'a Kernels,
    pub(super) memory: &'a Memory,
    /// Whether to overwrite all slots first.
    pub(super) poison: bool,
    /// The slots whose operands are written out.
    pub(super) expanded: Cell<[Option<u32>; OPERAND_MATRICES]>,
}

impl<'a> BufferedPass<'a> {
    /// Fills all slots and leaves their digests in the scratch. When it fails, no submission is pending, or the
    /// device is lost.
    pub(super) fn run(&self, flow: &mut Flow<'a>) -> Result<(), DeviceError> {
        let recorded = self.record_all(flow);
        flow.conclude(recorded)
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
            let hashing = DigestTree { kernels: self.kernels, memory: self.memory, layout: self.layout };
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
        let product = self.kernels.product(self.pass.precision, self.pass.n, self.rows_of_piece());
        self.product_with(flow, product, u)
    }

    /// As [`BufferedPass::product`], with tiles of the caller's choice.
    pub(super) fn product_with(
        &self,
        flow: &mut Flow<'a>,
        product: &'a ProductPipeline,
        u: u32,
    ) -> Result<(), DeviceError> {
        let (earlier, previous) = parents(&self.pass.key, u);
        let operands = self.operands(flow, u, [earlier, previous])?;
        let rows = self.rows_of_piece();
        let pieces = u64::from(self.pass.n) / rows;
        for row_piece in 0..pieces {
            for column_piece in 0..pieces {
                let bindings = [
                    self.operand_piece(operands[0], row_piece, rows),
                    self.operand_piece(operands[1], column_piece, rows),
                    self.memory.rows(&self.layout, u, row_piece * rows, rows),
                ];
                self.tiles(flow, product, u, (row_piece, column_piece), &bindings)?;
            }
        }
        Ok(())
    }

    /// Bytes of operands for each byte of a slot; `None` where operands are the slots.
    fn expansion(&self) -> Option<u32> {
        shaders::expansion(self.pass.precision, self.kernels.dot(self.pass.precision))
    }

    fn rows_of_piece(&self) -> u64 {
        if self.expansion().is_some() { self.layout.operand_rows } else { self.layout.piece_rows() }
    }

    /// Where the operands of slot `u`, made of these slots, lie once they are written out.
    fn operands(&self, flow: &mut Flow<'a>, u: u32, slots: [u32; 2]) -> Result<[OperandSource; 2], DeviceError> {
        let Some(expansion) = self.expansion() else { return Ok(slots.map(OperandSource::Slot)) };
        if let Some(side) = shaders::rule_side(self.pass.precision) {
            self.apply_rule(flow, u, slots[side])?;
            let mut sources = slots.map(OperandSource::Slot);
            sources[side] = OperandSource::Matrix { matrix: RULE_MATRIX, expansion };
            return Ok(sources);
        }
        let mut held = self.expanded.get();
        let matrices = places(held, slots);
        for (matrix, slot) in matrices.into_iter().zip(slots) {
            if held[matrix] != Some(slot) {
                self.expand(flow, expansion, slot, matrix)?;
                held[matrix] = Some(slot);
            }
        }
        self.expanded.set(held);
        Ok(matrices.map(|matrix| OperandSource::Matrix { matrix, expansion }))
    }

    fn operand_piece(&self, operands: OperandSource, piece: u64, rows: u64) -> SlotPiece<'a> {
        match operands {
            OperandSource::Slot(slot) => self.memory.rows(&self.layout, slot, piece * rows, rows),
            OperandSource::Matrix { matrix, expansion } => self.memory.operands(&self.layout, expansion, matrix, piece),
        }
    }

    fn expand(&self, flow: &mut Flow<'a>, expansion: u32, slot: u32, matrix: usize) -> Result<(), DeviceError> {
        let rows = self.layout.operand_rows;
        for piece in 0..u64::from(self.pass.n) / rows {
            let from = self.memory.rows(&self.layout, slot, piece * rows, rows);
            let bindings = [from, self.memory.operands(&self.layout, expansion, matrix, piece)];
            let group_vectors = u64::from(EXPAND_THREADS);
            let vectors = from.bytes / VECTOR_BYTES;
            let mut at = 0;
            while at < vectors {
                let groups = (vectors - at).div_ceil(group_vectors);
                let cut = flow.pieces(WorkKind::Expand, groups, group_vectors * VECTOR_BYTES, FIRST_GROUPS);
                let cut = cut.min(groups).min(MAX_WORKGROUPS.into());
                let here = (cut * group_vectors).min(vectors - at);
                flow.dispatch(&Dispatch {
                    pipeline: self.kernels.expansion(self.pass.precision, 0),
                    words: &shaders::ExpandParams { at: at as u32, vectors: here as u32 }.words(),
                    bindings: &bindings,
                    workgroups: cut as u32,
                    work: Workload { kind: WorkKind::Expand, units: here * VECTOR_BYTES },
                })?;
                at += here;
            }
        }
        Ok(())
    }

    /// All tiles of one piece by another, in as many dispatches as their time asks for.
    fn tiles(
        &self,
        flow: &mut Flow<'a>,
        product: &'a ProductPipeline,
        slot: u32,
        (row_piece, column_piece): (u64, u64),
        bindings: &[SlotPiece<'a>; 3],
    ) -> Result<(), DeviceError> {
        let (n, rows, side) = (self.pass.n, self.rows_of_piece(), u64::from(product.side));
        let across = rows / side;
        let tile_units = side * side * u64::from(self.pass.precision.terms(n));
        let mut first_tile = 0;
        while first_tile < across * across {
            let left = across * across - first_tile;
            let tiles = flow.pieces(WorkKind::Product, left, tile_units, FIRST_PRODUCTS / tile_units);
            let tiles = tiles.min(left).min(MAX_WORKGROUPS.into());
            let parameters = shaders::ProductParams {
                n,
                tiles_across: across as u32,
                first_tile: first_tile as u32,
                row0: (row_piece * rows) as u32,
                column0: (column_piece * rows) as u32,
                slot,
                depth: n * self.expansion().unwrap_or(1),
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

/// The place of a product's operands.
#[derive(Clone, Copy)]
enum OperandSource {
    /// In a slot itself.
    Slot(u32),
    /// Written out.
    Matrix { matrix: usize, expansion: u32 },
}

/// The matrix for each of two slots, when the matrices hold the operands of `held`: operands that are there stay.
fn places(held: [Option<u32>; OPERAND_MATRICES], needed: [u32; 2]) -> [usize; 2] {
    let place = |slot: u32| held.iter().position(|held| *held == Some(slot));
    match needed.map(place) {
        [Some(first), _] => [first, 1 - first],
        [None, Some(second)] => [1 - second, second],
        [None, None] => [0, 1],
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operands_that_are_there_are_not_written_again() {
        assert_eq!(places([None, None], [0, 1]), [0, 1]);
        // Slot 1 was the previous one, and is the earlier one now.
        assert_eq!(places([Some(0), Some(1)], [1, 2]), [1, 0]);
        assert_eq!(places([Some(0), Some(1)], [0, 2]), [0, 1]);
        assert_eq!(places([Some(2), Some(7)], [5, 2]), [1, 0]);
        // Each gets a matrix of its own, whatever the matrices hold.
        for held in [[None, Some(3)], [Some(3), None], [Some(3), Some(4)], [Some(4), Some(3)]] {
            for needed in [[3, 4], [4, 3], [3, 9], [9, 3], [8, 9]] {
                let [first, second] = places(held, needed);
                assert_eq!(first + second, 1, "{held:?}, {needed:?}");
            }
        }
    }
}
