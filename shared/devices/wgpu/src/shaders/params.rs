//! The parameters of each shader: the words of its uniform block, in the order of its `Params`.

use assay_work::product::SLOT_FACTOR;

const PARAM_WORDS: usize = 16;
/// Bytes of a uniform block, the same for all shaders: enough for the largest.
pub const PARAM_BYTES: u64 = PARAM_WORDS as u64 * 4;
/// Multiply-accumulates of one invocation of `peak` in one iteration: 16 pairs of operands, each 4 by 4 dot products
/// of 4.
#[cfg(any(test, feature = "bench"))]
pub(in super::super) const PEAK_MACS_PER_ITERATION: u64 = 16 * 4 * 4 * 4;

pub(in super::super) type Words = [u32; PARAM_WORDS];

/// A field of a uniform block.
trait Field {
    /// Puts its words in front of the others; gives the rest.
    fn put(self, words: &mut [u32]) -> &mut [u32];
}

impl<const COUNT: usize> Field for [u32; COUNT] {
    fn put(self, words: &mut [u32]) -> &mut [u32] {
        let (own, rest) = words.split_at_mut(COUNT);
        own.copy_from_slice(&self);
        rest
    }
}

impl Field for u32 {
    fn put(self, words: &mut [u32]) -> &mut [u32] {
        [self].put(words)
    }
}

impl Field for u64 {
    fn put(self, words: &mut [u32]) -> &mut [u32] {
        [self as u32, (self >> 32) as u32].put(words)
    }
}

impl Field for bool {
    fn put(self, words: &mut [u32]) -> &mut [u32] {
        u32::from(self).put(words)
    }
}

/// Structures of parameters, with their words. Behind `=>`: how a field becomes the shader's.
macro_rules! params {
    ($($(#[$doc:meta])* $name:ident { $($(#[$about:meta])* $field:ident: $type:ty $(=> $word:expr)?,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub(in super::super) struct $name {
            $($(#[$about])* pub $field: $type,)*
        }

        impl $name {
            pub fn words(&self) -> Words {
                let mut words = [0; PARAM_WORDS];
                let rest = &mut words[..];
                $(let rest = Field::put(params!(@ self.$field $(, $word)?), rest);)*
                let _ = rest;
                words
            }
        }
    )*};
    (@ $value:expr) => { $value };
    (@ $value:expr, $word:expr) => { ($word)($value) };
}

params! {
    /// Parameters of `keystream`: block `at + i` of the output becomes block `counter + i` of the stream, i < blocks.
    KeystreamParams {
        key: [u32; 8],
        stream: u64,
        /// The first block of the keystream.
        counter: u32,
        blocks: u32,
        /// The first block of the binding.
        at: u32,
    }

    ChunkParams {
        /// The first chunk in the binding of data.
        at: u32,
        /// That chunk's number in the whole string.
        counter: u32,
        chunks: u32,
        /// Levels to merge, 0 … 6.
        levels: u32,
        /// Whether the last merge is the string's. Then one value is left, and `levels` is not 0.
        root: bool,
        /// The first chaining value in the binding of values.
        out_at: u32,
    }

    ParentParams {
        /// The first value to merge.
        in_at: u32,
        values: u32,
        /// Levels to merge, 1 … 7.
        levels: u32,
        /// Whether the last merge is the string's. Then one value is left.
        root: bool,
        /// Where the first of the values that are left goes.
        out_at: u32,
    }

    /// Parameters of `product`: rows and columns within pieces are local, and start at these of the matrix.
    ProductParams {
        n: u32,
        /// Tiles in the rows of the piece of the previous slot, which are columns of the product.
        tiles_across: u32,
        /// The tile of the first workgroup.
        first_tile: u32,
        /// The matrix row of the first row of the piece of the earlier slot, and of the piece written.
        row0: u32,
        /// The matrix column that the first row of the piece of the previous slot makes.
        column0: u32,
        /// The slot that is made, u.
        slot: u32 => |slot: u32| slot.wrapping_mul(SLOT_FACTOR),
        /// Bytes of a row of operands.
        depth: u32,
    }

    ExpandParams {
        /// The first vector of 16 bytes in the binding of the slot.
        at: u32,
        vectors: u32,
    }

    /// Parameters of the shaders that apply a rule. Rows are those of the matrix.
    RuleParams {
        /// The key of noise.
        key: [u32; 8],
        n: u32,
        /// The slot that is made, u.
        slot: u32,
        /// The number of the first workgroup among those of the binding of operands.
        first_group: u32,
        /// The first row of the binding of operands.
        row0: u32,
        /// The first row of the binding of the slot.
        slot_row0: u32,
        /// Rows of that binding.
        slot_rows: u32,
    }

    ProbeParams {
        /// Number of slots that the walks are over.
        total: u32,
        /// Which of them is the first one here; 0 but in a linked probe.
        first_slot: u32,
        /// A slot has 2 to this lines of 64 bytes.
        lines_log2: u32,
        /// A piece of a slot has 2 to this lines.
        piece_lines_log2: u32,
        /// Pieces in each buffer but the last.
        pieces_per_buffer: u32,
        /// How many walks, from the first of the binding on.
        walks: u32,
        /// Number of steps; 1 where grouped.
        steps: u32,
        /// The first buffer that is bound; not grouped, 0.
        first_buffer: u32,
    }

    SweepParams {
        /// Vectors of 16 bytes in a row; 0 for sums of nothing.
        row_vectors: u32,
        /// The first row in the binding of slots.
        first_row: u32,
        /// Where its sum goes in the binding of sums: a multiple of 4.
        first_sum: u32 => |sum: u32| sum / 4,
    }

    CompletionCounter {
        number: u32,
        /// Whether it starts at zero.
        first: bool,
    }
}

#[cfg(any(test, feature = "bench"))]
params! {
    PeakParams {
        /// Iterations of every invocation.
        iterations: u32,
    }

    StreamParams {
        /// Vectors of 16 bytes to read.
        vectors: u32,
        /// Invocations of the whole dispatch.
        threads: u32,
    }
}
