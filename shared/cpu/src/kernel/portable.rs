//! The kernel for any processor: plain Rust that the compiler vectorises as it can.
//!
//! Formula: `C[r][c] = Σ_k X[r][k] · Y[c][k]`, as i32 products of sign-extended bytes.
//! Layout: panels are the rows as they are, `[rows][k]`. Tile: 4 × 4, one dot product after another.
//! Exact: |C| ≤ 128 · 128 · 32768 = 2²⁹ fits an i32, and so does every partial sum.

use super::super::{mix::mix, walk};
use super::{Kernel, KernelKind, PackX, PackY, Tile};

const ROWS: usize = 4;
const COLUMNS: usize = 4;

pub(super) const KERNEL: Kernel = Kernel {
    kind: KernelKind::Portable,
    rows: ROWS,
    columns: COLUMNS,
    x_bytes: 1,
    pack_x,
    pack_y,
    tile,
    walk: walk::portable,
};

/// # Safety
/// As [`PackX`] says of its fields.
unsafe fn pack_x(p: &PackX) {
    // SAFETY: the fields' promises: readable rows, a panel and corrections of their size.
    unsafe {
        copy_rows(p.source, p.stride, p.rows, p.length, p.panel);
        p.corrections.write_bytes(0, p.rows);
    }
}

/// # Safety
/// As [`PackY`] says of its fields.
unsafe fn pack_y(p: &PackY) {
    // SAFETY: the fields' promises: readable rows, a panel of their size.
    unsafe { copy_rows(p.source, p.stride, COLUMNS, p.length, p.panel) };
}

/// # Safety
/// `source` must be valid for reads of `rows` rows of `length` bytes every `stride`, `panel` for writes of all.
unsafe fn copy_rows(source: *const u8, stride: usize, rows: usize, length: usize, panel: *mut u8) {
    for row in 0..rows {
        // SAFETY: the caller's promise; a panel overlaps no slot.
        unsafe { panel.add(row * length).copy_from_nonoverlapping(source.add(row * stride), length) };
    }
}

/// # Safety
/// As [`Tile`] says of its fields.
unsafe fn tile(t: &Tile) {
    for i in 0..t.rows {
        for j in 0..COLUMNS {
            // SAFETY: `i` and `j` are inside the panels, the biases and the tile of the result.
            unsafe {
                let x = std::slice::from_raw_parts(t.x.add(i * t.length), t.length);
                let y = std::slice::from_raw_parts(t.y.add(j * t.length), t.length);
                let bias = t.row_bias.add(i).read().wrapping_add(t.first_column + j as u32);
                t.out.add(i * t.stride + j).write(mix((dot(x, y) as u32).wrapping_add(bias)));
            }
        }
    }
}

fn dot(x: &[u8], y: &[u8]) -> i32 {
    x.iter().zip(y).map(|(&a, &b)| i32::from(a as i8) * i32::from(b as i8)).sum()
}
