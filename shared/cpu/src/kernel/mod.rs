//! Kernels: one a file, each for an instruction set, all giving the same bits.
//!
//! A kernel computes one tile of a fused product, `rows × columns` elements of
//! `slot[u][r][c] = mix(Σ_k X[r][k] · Y[c][k] + r·n + c + u · SLOT_FACTOR)`, with all sums in registers for
//! the whole length of k. It reads operands packed into panels: a panel of X holds `rows` rows, a panel of
//! Y holds `columns` rows, both for all k, in the order in which the tile's loop reads them. Layouts are the
//! kernel's own; [`Kernel::pack_x`] and [`Kernel::pack_y`] write them.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod avx_vnni;
#[cfg(target_arch = "aarch64")]
mod neon;
#[allow(dead_code)] // which of it is used depends on the architecture
mod pack;
mod portable;
#[cfg(target_arch = "x86_64")]
mod x86;

use std::fmt;
use std::str::FromStr;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::walk;

/// Panels are packed for rows in groups of this many at least; every kernel's panel of Y divides it.
pub(super) const ROW_GROUP: usize = 32;

/// Which kernel multiplies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum KernelKind {
    /// The fastest that this CPU supports.
    #[default]
    Auto,
    /// AVX-512 with VNNI: `vpdpbusd` on 512 bits.
    Avx512Vnni,
    /// AVX-VNNI: `vpdpbusd` on 256 bits.
    AvxVnni,
    /// AVX2: `vpmaddwd` on sign-extended bytes.
    Avx2,
    /// NEON with the dot product extension: `sdot`.
    NeonDot,
    /// Portable Rust, for any CPU.
    Portable,
}

/// A text that names no kernel.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no kernel is called {0:?}: use auto, avx512-vnni, avx-vnni, avx2, neon-dot or portable")]
pub struct UnknownKernel(pub String);

impl KernelKind {
    /// All kinds but `Auto`, the fastest first.
    pub const ALL: [Self; 5] = [Self::Avx512Vnni, Self::AvxVnni, Self::Avx2, Self::NeonDot, Self::Portable];

    /// Its name, as it is typed.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Avx512Vnni => "avx512-vnni",
            Self::AvxVnni => "avx-vnni",
            Self::Avx2 => "avx2",
            Self::NeonDot => "neon-dot",
            Self::Portable => "portable",
        }
    }

    /// Whether this processor runs it.
    #[must_use]
    pub fn is_available(self) -> bool {
        self.kernel().is_some()
    }

    /// The kinds that this processor runs, the fastest first.
    pub fn available() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|kind| kind.is_available())
    }

    /// The kernel, when this processor runs it.
    pub(super) fn kernel(self) -> Option<&'static Kernel> {
        match self {
            Self::Auto => Self::ALL.into_iter().find_map(Self::kernel),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512Vnni => avx512::is_available().then_some(&avx512::KERNEL),
            #[cfg(target_arch = "x86_64")]
            Self::AvxVnni => avx_vnni::is_available().then_some(&avx_vnni::KERNEL),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => avx2::is_available().then_some(&avx2::KERNEL),
            #[cfg(target_arch = "aarch64")]
            Self::NeonDot => neon::is_available().then_some(&neon::KERNEL),
            Self::Portable => Some(&portable::KERNEL),
            #[allow(unreachable_patterns)] // which patterns are left depends on the architecture
            _ => None,
        }
    }
}

impl fmt::Display for KernelKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for KernelKind {
    type Err = UnknownKernel;

    fn from_str(text: &str) -> Result<Self, UnknownKernel> {
        let mut kinds = [Self::Auto].into_iter().chain(Self::ALL);
        kinds.find(|kind| kind.name() == text).ok_or_else(|| UnknownKernel(text.to_owned()))
    }
}

/// One kernel: its tile and its functions. The functions need the processor's features, which
/// [`KernelKind::kernel`] has seen to.
#[derive(Debug)]
pub(super) struct Kernel {
    /// Its name outside.
    pub(super) kind: KernelKind,
    /// Rows of a tile; the last tile of a row block may have fewer.
    pub(super) rows: usize,
    /// Columns of a tile, a divisor of [`ROW_GROUP`].
    pub(super) columns: usize,
    /// Bytes that one element of X takes once packed; one of Y takes one byte.
    pub(super) x_bytes: usize,
    /// Packs up to `rows` rows of X into one panel.
    pub(super) pack_x: unsafe fn(&PackX),
    /// Packs `columns` rows of Y into one panel.
    pub(super) pack_y: unsafe fn(&PackY),
    /// Computes one tile.
    pub(super) tile: unsafe fn(&Tile),
    /// Walks of the residency probe.
    pub(super) walk: unsafe fn(&walk::WalkBatch),
}

/// Rows of X to pack.
pub(super) struct PackX {
    /// The first row; rows follow every `stride` bytes.
    pub(super) source: *const u8,
    /// Bytes from a row to the next.
    pub(super) stride: usize,
    /// How many rows: a multiple of 2, at most [`Kernel::rows`].
    pub(super) rows: usize,
    /// Elements of a row, a multiple of 64.
    pub(super) length: usize,
    /// The panel: `rows · length · x_bytes` bytes, aligned to 64.
    pub(super) panel: *mut u8,
    /// For each row, what the tile must add to make up for how the kernel stores Y.
    pub(super) corrections: *mut u32,
}

/// Rows of Y to pack, as many as the tile has columns.
pub(super) struct PackY {
    /// The first row; rows follow every `stride` bytes.
    pub(super) source: *const u8,
    /// Bytes from a row to the next.
    pub(super) stride: usize,
    /// Elements of a row, a multiple of 64.
    pub(super) length: usize,
    /// The panel: `columns · length` bytes, aligned to 64.
    pub(super) panel: *mut u8,
}

/// One tile to compute.
pub(super) struct Tile {
    /// How many rows, as the panel of X was packed with.
    pub(super) rows: usize,
    /// Elements of a row of X and of Y, a multiple of 64.
    pub(super) length: usize,
    /// The panel of X.
    pub(super) x: *const u8,
    /// The panel of Y.
    pub(super) y: *const u8,
    /// Where the part of the next panel of Y starts that this tile may ask for ahead of time, as a hint:
    /// any address is allowed.
    #[allow(dead_code)] // not every architecture has a kernel that does
    pub(super) next_y: *const u8,
    /// For each row, what its sums start from: `r·n + u · SLOT_FACTOR` and the correction.
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
