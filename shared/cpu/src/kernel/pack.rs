//! Packing without vectors: for the kernels whose packing is a small share of their time, and as what the
//! vectorised packing is tested against.
//!
//! A panel of R rows and length k with groups of G bytes is laid out `[k / G][R][G]`: for each group of G
//! elements along k, the groups of all R rows side by side.

use super::{PackX, PackY};

/// Packs `rows` rows in groups of `G` bytes, each byte XORed with `flip`.
///
/// # Safety
/// `source` must be valid for reads of `rows` rows of `length` bytes every `stride`; `panel` for writes of
/// `rows · length` bytes. `length` is a multiple of `G`.
#[inline(always)]
pub(super) unsafe fn pack_groups<const G: usize>(
    source: *const u8,
    stride: usize,
    rows: usize,
    length: usize,
    panel: *mut u8,
    flip: u8,
) {
    for group in 0..length / G {
        for row in 0..rows {
            // SAFETY: `row < rows` and `group · G + G <= length`, inside what the caller promises.
            unsafe {
                let mut bytes = source.add(row * stride + group * G).cast::<[u8; G]>().read_unaligned();
                bytes.iter_mut().for_each(|byte| *byte ^= flip);
                panel.add((group * rows + row) * G).cast::<[u8; G]>().write_unaligned(bytes);
            }
        }
    }
}

/// Packs X in groups of 4 bytes, for a kernel that stores Y as `y + 128` when `CORRECT`: the corrections
/// are then `-128 · Σ_k X[r][k]`, else 0.
///
/// # Safety
/// As [`PackX`] says of its fields.
#[inline(always)]
pub(super) unsafe fn pack_x_by_four<const CORRECT: bool>(p: &PackX) {
    // SAFETY: the fields' promises are those asked for.
    unsafe { pack_groups::<4>(p.source, p.stride, p.rows, p.length, p.panel, 0) };
    for row in 0..p.rows {
        // SAFETY: row `row` is `length` readable bytes, and there is a correction for each row.
        unsafe {
            let elements = std::slice::from_raw_parts(p.source.add(row * p.stride), p.length);
            let sum: i32 = elements.iter().map(|&x| i32::from(x as i8)).sum();
            p.corrections.add(row).write(if CORRECT { sum.wrapping_mul(-128) as u32 } else { 0 });
        }
    }
}

/// Packs X in groups of 2 elements, each sign-extended to 16 bits: `[k / 2][rows][2]` words. No corrections.
///
/// # Safety
/// As [`PackX`] says of its fields.
#[inline(always)]
pub(super) unsafe fn pack_x_words(p: &PackX) {
    let words = p.panel.cast::<[i16; 2]>();
    for group in 0..p.length / 2 {
        for row in 0..p.rows {
            // SAFETY: `row < rows` and `2 · group + 2 <= length`; the panel has two bytes for each element.
            unsafe {
                let bytes = p.source.add(row * p.stride + group * 2).cast::<[i8; 2]>().read_unaligned();
                words.add(group * p.rows + row).write_unaligned(bytes.map(i16::from));
            }
        }
    }
    for row in 0..p.rows {
        // SAFETY: there is a correction for each row.
        unsafe { p.corrections.add(row).write(0) };
    }
}

/// Packs Y in groups of `G` bytes for a tile of `COLUMNS` columns, each byte XORed with `FLIP`.
///
/// # Safety
/// As [`PackY`] says of its fields.
#[inline(always)]
pub(super) unsafe fn pack_y_groups<const G: usize, const COLUMNS: usize, const FLIP: u8>(p: &PackY) {
    // SAFETY: the fields' promises are those asked for.
    unsafe { pack_groups::<G>(p.source, p.stride, COLUMNS, p.length, p.panel, FLIP) };
}
