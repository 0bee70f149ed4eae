//! Kernels: one a file, each for an instruction set, all giving the same bits.
//!
//! A kernel computes one tile of a fused product, `rows × columns` elements of
//! `slot[u][r][c] = mix(Σ_k X[r][k] · Y[c][k] + r·n + c + u · SLOT_FACTOR)`, with all sums in registers for
//! the whole length of k, κ operands. It reads operands packed into panels: a panel of X holds `rows` rows, a panel of
//! Y holds `columns` rows, both for all k, in the order in which the tile's loop reads them. Layouts are the
//! kernel's own; [`TileKernel::pack_x`] and [`TileKernel::pack_y`] write them, and turn bytes into operands as they do.
//! So a tile knows operands of 8 or of 16 bits alone: it is the same for INT8, FP8 and FP4, and another for F16.

#[cfg(target_arch = "x86_64")]
mod amx;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod avx_vnni;
#[cfg(target_arch = "aarch64")]
mod neon;
#[cfg(target_arch = "aarch64")]
mod neon_i8mm;
#[allow(dead_code)] // which of it is used depends on the architecture
mod pack;
mod portable;
mod qualify;
#[cfg(target_arch = "x86_64")]
mod x86;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::{row_sums, walk};
use assay_work::Precision;

/// Panels are packed for rows in groups of this many at least; every kernel's panel of Y divides it.
pub(super) const ROW_GROUP: usize = 32;

assay_work::names! {
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ValueEnum)]
    #[serde(rename_all = "kebab-case")]
    pub enum KernelKind {
        /// The fastest that this CPU supports.
        #[default]
        Auto = "auto",
        /// AMX: `tdpbssd` on tiles; F16 as AVX-512 with VNNI.
        AmxInt8 = "amx-int8",
        /// AVX-512 with VNNI: `vpdpbusd` and `vpdpwssd` on 512 bits.
        Avx512Vnni = "avx512-vnni",
        /// AVX-VNNI: `vpdpbusd` and `vpdpwssd` on 256 bits.
        AvxVnni = "avx-vnni",
        /// AVX2: `vpmaddwd` on words.
        Avx2 = "avx2",
        /// NEON with the matrix multiplication extension: `smmla`, and `smlal` for F16.
        NeonI8mm = "neon-i8mm",
        /// NEON with the dot product extension: `sdot`, and `smlal` for F16.
        NeonDot = "neon-dot",
        /// Portable Rust, for any CPU.
        Portable = "portable",
    } else UnknownKernel = |text| UnknownKernel(text.to_owned())
}

/// A text that is not the name of a kernel.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no kernel is called {0:?}: use auto, amx-int8, avx512-vnni, avx-vnni, avx2, neon-i8mm, neon-dot or portable")]
pub struct UnknownKernel(pub String);

impl KernelKind {
    /// All kinds but `Auto`, the fastest first.
    fn fastest_first() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|kind| *kind != Self::Auto)
    }

    /// Whether this processor runs it, and runs it rightly.
    pub fn is_available(self) -> bool {
        self.kernel().is_some()
    }

    /// The kinds that this processor runs, the fastest first.
    pub fn available() -> impl Iterator<Item = Self> {
        Self::fastest_first().filter(|kind| kind.is_available())
    }

    /// The kernel, when this processor runs it and its products are right.
    pub(super) fn kernel(self) -> Option<&'static Kernel> {
        if self == Self::Auto {
            return Self::fastest_first().find_map(Self::kernel);
        }
        self.of_this_processor().filter(|kernel| qualify::holds(kernel))
    }

    /// The kernel, when this processor has its features.
    fn of_this_processor(self) -> Option<&'static Kernel> {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::AmxInt8 => amx::is_available().then_some(&amx::KERNEL),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512Vnni => avx512::is_available().then_some(&avx512::KERNEL),
            #[cfg(target_arch = "x86_64")]
            Self::AvxVnni => avx_vnni::is_available().then_some(&avx_vnni::KERNEL),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => avx2::is_available().then_some(&avx2::KERNEL),
            #[cfg(target_arch = "aarch64")]
            Self::NeonI8mm => neon_i8mm::is_available().then_some(&neon_i8mm::KERNEL),
            #[cfg(target_arch = "aarch64")]
            Self::NeonDot => neon::is_available().then_some(&neon::KERNEL),
            Self::Portable => Some(&portable::KERNEL),
            #[allow(unreachable_patterns)] // which patterns are left depends on the architecture
            _ => None,
        }
    }
}

/// [`Precision::Int8`] as a parameter of generic functions: its place in [`Precision::OF_BYTES`].
const INT8: usize = Precision::Int8 as usize;
/// [`Precision::F16`] as a parameter.
const F16: usize = Precision::F16 as usize;
/// [`Precision::Fp8`] as a parameter.
const FP8: usize = Precision::Fp8 as usize;
/// [`Precision::Fp4`] as a parameter.
const FP4: usize = Precision::Fp4 as usize;

/// Operands that a byte of a slot stands for.
const fn operands_per_byte(kind: usize) -> usize {
    Precision::OF_BYTES[kind].terms_per_byte() as usize
}

/// One kernel: an instruction set. Its functions need the processor's features, which [`KernelKind::kernel`] has seen to.
#[derive(Debug)]
pub(super) struct Kernel {
    /// Its name in settings.
    pub(super) kind: KernelKind,
    /// Its products, in the order of [`Precision::OF_BYTES`].
    products: [TileKernel; Precision::OF_BYTES.len()],
    /// Walks of the residency probe.
    pub(super) walk: unsafe fn(&walk::WalkBatch),
    /// Sums of rows of a sweep.
    pub(super) sum_rows: row_sums::SumRows,
}

impl Kernel {
    pub(super) const fn product(&self, precision: Precision) -> &TileKernel {
        &self.products[precision.of_bytes() as usize]
    }
}

/// A kernel's part for one kind of work: its tile and its functions.
#[derive(Debug, Clone, Copy)]
pub(super) struct TileKernel {
    /// Rows of a tile; the last tile of a row block may have fewer.
    pub(super) rows: usize,
    /// Columns of a tile, a divisor of [`ROW_GROUP`].
    pub(super) columns: usize,
    /// Operands that a byte of a slot stands for.
    pub(super) operands: usize,
    /// Bytes that one byte of X takes once packed.
    pub(super) x_bytes: usize,
    /// Bytes that one byte of Y takes once packed.
    pub(super) y_bytes: usize,
    /// Packs up to `rows` rows of X into one panel.
    pub(super) pack_x: unsafe fn(&PackX),
    /// Packs `columns` rows of Y into one panel.
    pub(super) pack_y: unsafe fn(&PackY),
    pub(super) tile: unsafe fn(&Tile),
}

impl TileKernel {
    /// For operands in bytes, by rows and columns of a tile.
    const fn of_bytes(
        kind: usize,
        [rows, columns]: [usize; 2],
        pack_x: unsafe fn(&PackX),
        pack_y: unsafe fn(&PackY),
        tile: unsafe fn(&Tile),
    ) -> Self {
        let operands = operands_per_byte(kind);
        Self { rows, columns, operands, x_bytes: operands, y_bytes: operands, pack_x, pack_y, tile }
    }

    /// The same with operands in words, those of F16.
    const fn of_words(self) -> Self {
        Self { x_bytes: 2, y_bytes: 2, ..self }
    }
}

/// Rows of X to pack.
pub(super) struct PackX {
    /// The first row; rows follow every `stride` bytes.
    pub(super) source: *const u8,
    /// Bytes from a row to the next.
    pub(super) stride: usize,
    /// How many rows: a multiple of 2, at most [`TileKernel::rows`].
    pub(super) rows: usize,
    /// Bytes of a row, a multiple of 64.
    pub(super) length: usize,
    /// The panel: `rows · length · x_bytes` bytes, aligned to 64.
    pub(super) panel: *mut u8,
    /// For each row, the sum that the tile adds to correct for the stored form of Y.
    pub(super) corrections: *mut u32,
}

/// Rows of Y to pack, as many as the tile has columns.
pub(super) struct PackY {
    /// The first row; rows follow every `stride` bytes.
    pub(super) source: *const u8,
    /// Bytes from a row to the next.
    pub(super) stride: usize,
    /// Bytes of a row, a multiple of 64.
    pub(super) length: usize,
    /// The panel: `columns · length · y_bytes` bytes, aligned to 64.
    pub(super) panel: *mut u8,
}

pub(super) struct Tile {
    /// How many rows, as the panel of X was packed with.
    pub(super) rows: usize,
    /// κ: operands of a row of X and of Y, a multiple of 64.
    pub(super) length: usize,
    pub(super) x: *const u8,
    pub(super) y: *const u8,
    /// Where the part of the next panel of Y starts that this tile may ask for ahead of time, as a hint:
    /// any address is allowed.
    #[allow(dead_code)] // not every architecture has a kernel that does
    pub(super) next_y: *const u8,
    /// For each row, the start of its sums: `r·n + u · SLOT_FACTOR` and the correction.
    pub(super) row_bias: *const u32,
    /// The first column, c.
    pub(super) first_column: u32,
    /// The tile's first element.
    pub(super) out: *mut u8,
    /// Bytes from a row of the result to the next.
    pub(super) stride: usize,
}

#[cfg(test)]
mod tests;
