//! The examination of a kernel before it multiplies: the specification's elements, in every kind of work and with every
//! height of its tile.
//!
//! A processor that says that it has an instruction, and an emulator of one, may still compute it wrongly. Such a
//! kernel is passed over, so that the miner is not blamed for its slots. It takes less than a millisecond for a kernel,
//! once in a process. An instruction that the processor does not know ends the process: `is_available` guards against
//! that.

use std::sync::OnceLock;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::{Kernel, KernelKind, PackX, PackY, ROW_GROUP, Tile, TileKernel};
use assay_work::Precision;
use assay_work::product::{dot, mix};

/// Bytes of the rows that are compared: operands of every block of a step, more than once.
const LENGTH: usize = 256;
/// The first column of the tile that is compared.
const FIRST_COLUMN: u32 = 96;

/// Whether a kernel that this processor has the features of gives the specification's elements.
pub(super) fn holds(kernel: &'static Kernel) -> bool {
    static HELD: [OnceLock<bool>; KernelKind::ALL.len()] = [const { OnceLock::new() }; KernelKind::ALL.len()];
    *HELD[kernel.kind as usize].get_or_init(|| {
        let wrong =
            Precision::OF_BYTES.into_iter().find(|&precision| !product_holds(kernel.product(precision), precision));
        if let Some(precision) = wrong {
            let kind = kernel.kind;
            tracing::error!("the kernel {kind} multiplies wrongly on this CPU (kind of work {precision}): not used");
        }
        wrong.is_none()
    })
}

/// Whether tiles of a product, of every height, are the specification's.
fn product_holds(kernel: &TileKernel, precision: Precision) -> bool {
    let mut random = ChaCha8Rng::from_seed([precision as u8; 32]);
    tile_heights(kernel).all(|rows| {
        let [mut x, mut y] = [rows, kernel.columns].map(|rows| vec![0; rows * LENGTH]);
        random.fill_bytes(&mut x);
        random.fill_bytes(&mut y);
        let mut panels = Panels::pack(kernel, rows, LENGTH, &x, &y);
        panels.start();
        panels.multiply(kernel) == expected(kernel, precision, rows, LENGTH, &x, &y)
    })
}

/// The possible heights of a tile: the whole, and the rests of the row blocks.
pub(super) fn tile_heights(kernel: &TileKernel) -> impl Iterator<Item = usize> {
    let rest = [1, 2, 3].map(|groups| groups * ROW_GROUP % kernel.rows);
    [kernel.rows].into_iter().chain(rest).filter(|&rows| rows > 0)
}

/// The start of a row's sums: near where 32 bits wrap, signed and unsigned, so that an addition that saturates shows.
fn start(row: usize) -> u32 {
    [0xFFFF_F000_u32, 0x7FFF_F000][row % 2].wrapping_add(row as u32 * 0x57_9BDF)
}

/// The tile that [`Panels::multiply`] must give, by the specification's sums.
pub(super) fn expected(
    kernel: &TileKernel,
    precision: Precision,
    rows: usize,
    length: usize,
    x: &[u8],
    y: &[u8],
) -> Vec<u8> {
    let elements = (0..rows).flat_map(|r| (0..kernel.columns).map(move |c| (r, c)));
    let sum = |r: usize, c: usize| dot(precision, &x[r * length..][..length], &y[c * length..][..length]);
    elements.map(|(r, c)| element(sum(r, c), r, c)).collect()
}

/// The element of a sum in row r and column c of the tile.
pub(super) fn element(sum: i32, r: usize, c: usize) -> u8 {
    mix(sum, start(r).wrapping_add(FIRST_COLUMN + c as u32), 0) as u8
}

/// 64 bytes, aligned as panels must be.
#[repr(align(64))]
#[derive(Clone, Copy)]
pub(super) struct AlignedLine(#[allow(dead_code)] [u8; 64]); // used through pointers only

/// The operands of one tile, packed.
pub(super) struct Panels {
    rows: usize,
    /// Bytes of a row before it was packed.
    length: usize,
    pub(super) x: Vec<AlignedLine>,
    pub(super) y: Vec<AlignedLine>,
    /// The corrections of X; from [`Self::start`] on, the starts of each row's sums.
    row_bias: Vec<u32>,
}

impl Panels {
    /// Packs `rows` rows of X, and as many of Y as the tile has columns, of `length` bytes each.
    pub(super) fn pack(kernel: &TileKernel, rows: usize, length: usize, x: &[u8], y: &[u8]) -> Self {
        assert_eq!((x.len(), y.len()), (rows * length, kernel.columns * length), "as many bytes as the rows have");
        let lines = |bytes: usize| vec![AlignedLine([0xA5; 64]); bytes.div_ceil(64)];
        let mut panels = Self {
            rows,
            length,
            x: lines(rows * length * kernel.x_bytes),
            y: lines(kernel.columns * length * kernel.y_bytes),
            row_bias: vec![0xDEAD_BEEF; rows],
        };
        // SAFETY: operands, panels and corrections have the sizes that the fields ask for; a caller that has a kernel
        // has seen that the processor has its features.
        unsafe {
            (kernel.pack_x)(&PackX {
                source: x.as_ptr(),
                stride: length,
                rows,
                length,
                panel: panels.x.as_mut_ptr().cast(),
                corrections: panels.row_bias.as_mut_ptr(),
            });
            let panel = panels.y.as_mut_ptr().cast();
            (kernel.pack_y)(&PackY { source: y.as_ptr(), stride: length, length, panel });
        }
        panels
    }

    /// Adds the starts of the rows' sums to the corrections.
    pub(super) fn start(&mut self) {
        for (row, bias) in self.row_bias.iter_mut().enumerate() {
            *bias = bias.wrapping_add(start(row));
        }
    }

    /// The tile, row by row; empty when bytes beside it were written.
    pub(super) fn multiply(&self, kernel: &TileKernel) -> Vec<u8> {
        const UNTOUCHED: u8 = 0x5A;
        let stride = 2 * kernel.columns;
        let mut out = vec![UNTOUCHED; self.rows * stride];
        // SAFETY: panels, biases and result have the sizes that the fields ask for, and the processor the features.
        unsafe {
            (kernel.tile)(&Tile {
                rows: self.rows,
                length: self.length * kernel.operands,
                x: self.x.as_ptr().cast(),
                y: self.y.as_ptr().cast(),
                next_y: self.y.as_ptr().cast(),
                row_bias: self.row_bias.as_ptr(),
                first_column: FIRST_COLUMN,
                out: out.as_mut_ptr(),
                stride,
            });
        }
        let lines = out.chunks(stride).map(|line| line.split_at(kernel.columns));
        if lines.clone().any(|(_, beside)| beside.iter().any(|&byte| byte != UNTOUCHED)) {
            return Vec::new();
        }
        lines.flat_map(|(tile, _)| tile).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::portable;
    use super::*;

    /// The portable kernel's tile, spoiled.
    unsafe fn spoiled(t: &Tile, spoil: impl FnOnce(&Tile)) {
        let kernel = portable::KERNEL.product(Precision::Int8);
        // SAFETY: the caller's promises, passed on.
        unsafe { (kernel.tile)(t) };
        spoil(t);
    }

    unsafe fn last_element_is_off_by_one(t: &Tile) {
        // SAFETY: the tile's last element.
        let spoil = |t: &Tile| unsafe { *t.out.add((t.rows - 1) * t.stride + 3) ^= 1 };
        // SAFETY: the caller's promises, passed on.
        unsafe { spoiled(t, spoil) };
    }

    unsafe fn writes_beside_its_tile(t: &Tile) {
        // SAFETY: the result has twice the columns of a tile.
        let spoil = |t: &Tile| unsafe { *t.out.add(4) = 0 };
        // SAFETY: the caller's promises, passed on.
        unsafe { spoiled(t, spoil) };
    }

    #[test]
    fn a_product_that_is_wrong_anywhere_does_not_hold() {
        let of = |tile: unsafe fn(&Tile)| TileKernel { tile, ..*portable::KERNEL.product(Precision::Int8) };
        let right = portable::KERNEL.product(Precision::Int8);
        assert!(product_holds(right, Precision::Int8));
        assert!(!product_holds(right, Precision::Fp8), "operands of another kind of work");
        assert!(!product_holds(&of(last_element_is_off_by_one), Precision::Int8));
        assert!(!product_holds(&of(writes_beside_its_tile), Precision::Int8));
    }

    #[test]
    fn a_kernel_of_which_one_product_is_wrong_is_passed_over() {
        static WRONG: Kernel = Kernel {
            // No kernel has this kind, so that no other answer is kept in its place.
            kind: KernelKind::Auto,
            products: {
                let [int8, f16, fp8, _] = portable::KERNEL.products;
                [int8, f16, fp8, TileKernel { tile: last_element_is_off_by_one, ..int8 }]
            },
            ..portable::KERNEL
        };
        assert!(!holds(&WRONG));
        assert!(holds(&portable::KERNEL));
    }
}
