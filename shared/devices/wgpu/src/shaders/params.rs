//! The parameters of each shader: the words of its uniform block, in the order of its `Params`.

use assay_work::product::SLOT_FACTOR;

const PARAM_WORDS: usize = 16;
/// Bytes of a uniform block, the same for all shaders: enough for the largest.
pub const PARAM_BYTES: u64 = PARAM_WORDS as u64 * 4;

pub(in super::super) type Words = [u32; PARAM_WORDS];

/// Parameters of `keystream`: block `at + i` of the output becomes block `counter + i` of the stream, i < blocks.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct KeystreamParams {
    pub key: [u32; 8],
    pub stream: u64,
    /// The first block of the keystream.
    pub counter: u32,
    pub blocks: u32,
    /// The first block of the binding.
    pub at: u32,
}

#[derive(Clone, Copy, Debug)]
pub(in super::super) struct ChunkParams {
    /// The first chunk in the binding of data.
    pub at: u32,
    /// That chunk's number in the whole string.
    pub counter: u32,
    pub chunks: u32,
    /// Levels to merge, 0 … 6.
    pub levels: u32,
    /// Whether the last merge is the string's. Then one value is left, and `levels` is not 0.
    pub root: bool,
    /// The first chaining value in the binding of values.
    pub out_at: u32,
}

#[derive(Clone, Copy, Debug)]
pub(in super::super) struct ParentParams {
    /// The first value to merge.
    pub in_at: u32,
    pub values: u32,
    /// Levels to merge, 1 … 7.
    pub levels: u32,
    /// Whether the last merge is the string's. Then one value is left.
    pub root: bool,
    /// Where the first of the values that are left goes.
    pub out_at: u32,
}

/// Parameters of `product`: rows and columns within pieces are local, and start at these of the matrix.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct ProductParams {
    pub n: u32,
    /// Tiles in the rows of the piece of the previous slot, which are columns of the product.
    pub tiles_across: u32,
    /// The tile of the first workgroup.
    pub first_tile: u32,
    /// The matrix row of the first row of the piece of the earlier slot, and of the piece written.
    pub row0: u32,
    /// The matrix column that the first row of the piece of the previous slot makes.
    pub column0: u32,
    /// The slot that is made, u.
    pub slot: u32,
    /// Bytes of a row of operands.
    pub depth: u32,
}

#[derive(Clone, Copy, Debug)]
pub(in super::super) struct ExpandParams {
    /// The first vector of 16 bytes in the binding of the slot.
    pub at: u32,
    pub vectors: u32,
}

/// Parameters of the shaders that apply a rule. Rows are those of the matrix.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct RuleParams {
    /// The key of noise.
    pub key: [u32; 8],
    pub n: u32,
    /// The slot that is made, u.
    pub slot: u32,
    /// The number of the first workgroup among those of the binding of operands.
    pub first_group: u32,
    /// The first row of the binding of operands.
    pub row0: u32,
    /// The first row of the binding of the slot.
    pub slot_row0: u32,
    /// Rows of that binding.
    pub slot_rows: u32,
}

#[derive(Clone, Copy, Debug)]
pub(in super::super) struct ProbeParams {
    /// Number of slots that the walks are over.
    pub total: u32,
    /// Which of them is the first one here; 0 but in a linked probe.
    pub first_slot: u32,
    /// A slot has 2 to this lines of 64 bytes.
    pub lines_log2: u32,
    /// A piece of a slot has 2 to this lines.
    pub piece_lines_log2: u32,
    /// Pieces in each buffer but the last.
    pub pieces_per_buffer: u32,
    /// How many walks, from the first of the binding on.
    pub walks: u32,
    /// Number of steps; 1 where grouped.
    pub steps: u32,
    /// The first buffer that is bound; not grouped, 0.
    pub first_buffer: u32,
}

#[derive(Clone, Copy, Debug)]
pub(in super::super) struct SweepParams {
    /// Vectors of 16 bytes in a row; 0 for sums of nothing.
    pub row_vectors: u32,
    /// The first row in the binding of slots.
    pub first_row: u32,
    /// Where its sum goes in the binding of sums: a multiple of 4.
    pub first_sum: u32,
}

#[derive(Clone, Copy, Debug)]
pub(in super::super) struct CompletionCounter {
    pub number: u32,
    /// Whether it starts at zero.
    pub first: bool,
}

impl CompletionCounter {
    pub fn words(&self) -> Words {
        padded(&[self.number, u32::from(self.first)])
    }
}

impl SweepParams {
    pub fn words(&self) -> Words {
        let Self { row_vectors, first_row, first_sum } = *self;
        padded(&[row_vectors, first_row, first_sum / 4])
    }
}

impl KeystreamParams {
    pub fn words(&self) -> Words {
        let Self { key, stream, counter, blocks, at } = *self;
        let mut words = padded(&key);
        words[8..13].copy_from_slice(&[stream as u32, (stream >> 32) as u32, counter, blocks, at]);
        words
    }
}

impl ChunkParams {
    pub fn words(&self) -> Words {
        let Self { at, counter, chunks, levels, root, out_at } = *self;
        padded(&[at, counter, chunks, levels, u32::from(root), out_at])
    }
}

impl ParentParams {
    pub fn words(&self) -> Words {
        let Self { in_at, values, levels, root, out_at } = *self;
        padded(&[in_at, values, levels, u32::from(root), out_at])
    }
}

impl ProductParams {
    pub fn words(&self) -> Words {
        let Self { n, tiles_across, first_tile, row0, column0, slot, depth } = *self;
        padded(&[n, tiles_across, first_tile, row0, column0, slot.wrapping_mul(SLOT_FACTOR), depth])
    }
}

impl ExpandParams {
    pub fn words(&self) -> Words {
        let Self { at, vectors } = *self;
        padded(&[at, vectors])
    }
}

impl RuleParams {
    pub fn words(&self) -> Words {
        let Self { key, n, slot, first_group, row0, slot_row0, slot_rows } = *self;
        let mut words = padded(&key);
        words[8..14].copy_from_slice(&[n, slot, first_group, row0, slot_row0, slot_rows]);
        words
    }
}

impl ProbeParams {
    pub fn words(&self) -> Words {
        let Self { total, first_slot, lines_log2, piece_lines_log2, pieces_per_buffer, walks, steps, first_buffer } =
            *self;
        padded(&[total, first_slot, lines_log2, piece_lines_log2, pieces_per_buffer, walks, steps, first_buffer])
    }
}

pub(super) fn padded(fields: &[u32]) -> Words {
    let mut words = [0; PARAM_WORDS];
    words[..fields.len()].copy_from_slice(fields);
    words
}
