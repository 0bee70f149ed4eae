//! BLAKE3 of a string that lies in pieces: chunks, then levels of the tree above them (WORK.md, Digests).

use super::flow::{Dispatch, Flow};
use super::kernels::Kernels;
use super::memory::{Memory, SlotPiece};
use super::plan::{BufferLayout, CHUNK_BYTES, GROUP_CHUNKS, GROUP_VALUES, HASH_BYTES, MAX_WORKGROUPS, Region};
use super::shaders::{ChunkParams, ParentParams};
use assay_device::DeviceError;
use assay_device::pace::{WorkKind, Workload};

/// Workgroups of the first dispatch, while the rate is not known: a megabyte.
const FIRST_GROUPS: u64 = 16;

/// Where the tree of a string is built.
pub(super) struct DigestTree<'a> {
    pub(super) kernels: &'a Kernels,
    /// The memory of the layout's regions.
    pub(super) memory: &'a Memory,
    pub(super) layout: BufferLayout,
}

impl<'a> DigestTree<'a> {
    /// Records the hashing of a string, whose pieces are equal powers of two, at least 4096 bytes together; its digest
    /// becomes value `digest` of the scratch.
    pub(super) fn string(
        &self,
        flow: &mut Flow<'a>,
        pieces: impl Iterator<Item = SlotPiece<'a>>,
        bytes: u64,
        digest: u64,
    ) -> Result<(), DeviceError> {
        let chunks = bytes / CHUNK_BYTES;
        let levels = GROUP_CHUNKS.min(chunks).ilog2();
        let left = chunks >> levels;
        let to = if left == 1 { digest } else { self.layout.values.first };
        self.subtrees(flow, pieces, levels, left == 1, to)?;
        self.tree(flow, left, digest)
    }

    /// Records the chaining values of all subtrees of 2^levels chunks, at most 64 of them, of a string's pieces.
    pub(super) fn subtrees(
        &self,
        flow: &mut Flow<'a>,
        pieces: impl Iterator<Item = SlotPiece<'a>>,
        levels: u32,
        root: bool,
        to: u64,
    ) -> Result<(), DeviceError> {
        let mut counter = 0;
        for piece in pieces {
            let chunks = piece.bytes / CHUNK_BYTES;
            let mut at = 0;
            while at < chunks {
                let cut = self.cut(flow, chunks - at);
                let out_at = to + ((counter + at) >> levels);
                let parameters = ChunkParams {
                    at: at as u32,
                    counter: (counter + at) as u32,
                    chunks: cut as u32,
                    levels,
                    root,
                    out_at: out_at as u32,
                };
                flow.dispatch(&Dispatch {
                    pipeline: &self.kernels.chunks,
                    words: &parameters.words(),
                    bindings: &[piece, self.memory.scratch(&self.layout)],
                    workgroups: cut.div_ceil(GROUP_CHUNKS) as u32,
                    work: Workload { kind: WorkKind::Digest, units: cut * CHUNK_BYTES },
                })?;
                at += cut;
            }
            counter += chunks;
        }
        Ok(())
    }

    /// How many chunks the next dispatch takes of `left`, whose number is a power of two or a multiple of a group's: a
    /// power of two, so that workgroups merge whole subtrees.
    fn cut(&self, flow: &Flow<'_>, left: u64) -> u64 {
        if left <= GROUP_CHUNKS {
            return left;
        }
        let groups = flow.pieces(WorkKind::Digest, left / GROUP_CHUNKS, GROUP_CHUNKS * CHUNK_BYTES, FIRST_GROUPS);
        let groups = groups.min(MAX_WORKGROUPS.into()).min(left / GROUP_CHUNKS);
        GROUP_CHUNKS << groups.ilog2()
    }

    /// Records the merging of `count` values, a power of two, up to the root.
    fn tree(&self, flow: &mut Flow<'a>, mut count: u64, digest: u64) -> Result<(), DeviceError> {
        let BufferLayout { values, merged, .. } = self.layout;
        let (mut from, mut to): (Region, Region) = (values, merged);
        while count > 1 {
            let levels = GROUP_VALUES.min(count).ilog2();
            let left = count >> levels;
            let parameters = ParentParams {
                in_at: from.first as u32,
                values: count as u32,
                levels,
                root: left == 1,
                out_at: if left == 1 { digest } else { to.first } as u32,
            };
            flow.dispatch(&Dispatch {
                pipeline: &self.kernels.parents,
                words: &parameters.words(),
                bindings: &[self.memory.scratch(&self.layout)],
                workgroups: count.div_ceil(GROUP_VALUES) as u32,
                // A parent is a block, as large as both its values.
                work: Workload { kind: WorkKind::Digest, units: count * HASH_BYTES },
            })?;
            (count, from, to) = (left, to, from);
        }
        Ok(())
    }
}
