//! The kernel for any processor: plain Rust that the compiler vectorises as it can.
//!
//! Formula: `C[r][c] = Σ_k X[r][k] · Y[c][k]`, as i32 products of sign-extended operands.
//! Layout: panels are the rows as they are, `[rows][κ]`, of bytes, or of words for F16. Tile: 4 × 4, one dot product
//! after another.
//! Exact: |C| ≤ κ · P < 2³¹ fits an i32, and so does every partial sum.

use super::super::{mix::mix, row_sums, walk};
use super::{F16, FP4, FP8, INT8, Kernel, KernelKind, PackX, PackY, Tile, TileKernel, operands_per_byte, pack};

const ROWS: usize = 4;
const COLUMNS: usize = 4;

pub(super) const KERNEL: Kernel = Kernel {
    kind: KernelKind::Portable,
    products: [of_bytes::<INT8>(), OF_WORDS, of_bytes::<FP8>(), of_bytes::<FP4>()],
    walk: walk::portable,
    sum_rows: row_sums::portable,
};

const fn of_bytes<const KIND: usize>() -> TileKernel {
    TileKernel::of_bytes(KIND, [ROWS, COLUMNS], pack_x::<u8, KIND>, pack_y::<u8, KIND>, tile::<i8>)
}

const OF_WORDS: TileKernel =
    TileKernel::of_bytes(F16, [ROWS, COLUMNS], pack_x::<i16, F16>, pack_y::<i16, F16>, tile::<i16>).of_words();

/// # Safety
/// As [`PackX`] says of its fields.
unsafe fn pack_x<E: pack::Element, const KIND: usize>(p: &PackX) {
    let row_bytes = p.length * operands_per_byte(KIND) * size_of::<E>();
    for row in 0..p.rows {
        // SAFETY: the fields' promises, of one row: a panel of one row is that row.
        unsafe {
            pack::pack_x::<E, KIND, { pack::BLOCK }, false>(&PackX {
                source: p.source.add(row * p.stride),
                rows: 1,
                panel: p.panel.add(row * row_bytes),
                corrections: p.corrections.add(row),
                ..*p
            });
        }
    }
}

/// # Safety
/// As [`PackY`] says of its fields.
unsafe fn pack_y<E: pack::Element, const KIND: usize>(p: &PackY) {
    let row_bytes = p.length * operands_per_byte(KIND) * size_of::<E>();
    for row in 0..COLUMNS {
        // SAFETY: the fields' promises, of one row: a panel of one row is that row.
        unsafe {
            pack::pack_y::<E, KIND, { pack::BLOCK }, 1, 0>(&PackY {
                source: p.source.add(row * p.stride),
                panel: p.panel.add(row * row_bytes),
                ..*p
            });
        }
    }
}

/// # Safety
/// As [`Tile`] says of its fields.
unsafe fn tile<E: Copy + Into<i32>>(t: &Tile) {
    let (x, y) = (t.x.cast::<E>(), t.y.cast::<E>());
    for i in 0..t.rows {
        for j in 0..COLUMNS {
            // SAFETY: `i` and `j` are inside the panels, the biases and the tile of the result.
            unsafe {
                let x = std::slice::from_raw_parts(x.add(i * t.length), t.length);
                let y = std::slice::from_raw_parts(y.add(j * t.length), t.length);
                let bias = t.row_bias.add(i).read().wrapping_add(t.first_column + j as u32);
                t.out.add(i * t.stride + j).write(mix((dot(x, y) as u32).wrapping_add(bias)));
            }
        }
    }
}

#[inline(always)]
fn dot<E: Copy + Into<i32>>(x: &[E], y: &[E]) -> i32 {
    x.iter().zip(y).fold(0, |sum: i32, (&a, &b)| sum.wrapping_add(a.into() * b.into()))
}
