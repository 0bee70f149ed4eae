//! Packing without intrinsics: for the kernels whose packing is a small share of their time. It is written so that the
//! compiler vectorises the decoding where it is inlined into functions that have the features.
//!
//! A panel of R rows with groups of G operands is laid out `[κ / G][R][G]`: for each group of G operands along κ, the
//! groups of all R rows side by side. Operands follow in the order of the bytes; where a byte stands for two, the 64
//! first ones of 64 bytes come before their 64 second ones. A sum does not depend on the order of its terms, as long as
//! both operands of a product have the same.

use super::{FP4, FP8, INT8, PackX, PackY, operands_per_byte};
use assay_work::Precision;

/// Bytes of a row that are decoded at once.
pub(super) const BLOCK: usize = 64;

/// The stored type of operands.
pub(super) trait Element: Copy {
    /// An operand whose low byte is XORed with `flip`.
    fn of(operand: i16, flip: u8) -> Self;
}

impl Element for u8 {
    #[inline(always)]
    fn of(operand: i16, flip: u8) -> Self {
        operand as Self ^ flip
    }
}

impl Element for i16 {
    #[inline(always)]
    fn of(operand: i16, flip: u8) -> Self {
        operand ^ Self::from(flip)
    }
}

/// The operands of a block: the first of each byte, then the second of each, which are 0 for kinds with one.
#[inline(always)]
pub(super) fn decode<const KIND: usize>(bytes: &[u8; BLOCK]) -> [[i16; BLOCK]; 2] {
    let mut operands = [[0; BLOCK]; 2];
    for (i, &byte) in bytes.iter().enumerate() {
        match KIND {
            INT8 => operands[0][i] = i16::from(byte as i8),
            FP8 => operands[0][i] = fp8(byte),
            FP4 => (operands[0][i], operands[1][i]) = (fp4(byte & 15), fp4(byte >> 4)),
            _ => operands[0][i] = Precision::OF_BYTES[KIND].operands(byte)[0],
        }
    }
    operands
}

/// [`Precision::operands`] of FP8 in steps that vectors of bytes have: no shift by an amount that varies.
#[inline(always)]
fn fp8(byte: u8) -> i16 {
    let magnitude = 8 + (byte & 7);
    let magnitude = if byte & 8 == 0 { magnitude } else { magnitude << 1 };
    let magnitude = if byte & 16 == 0 { magnitude } else { magnitude << 2 };
    let operand = if byte & 128 == 0 { magnitude } else { magnitude.wrapping_neg() };
    i16::from(operand as i8)
}

/// The operand of an E2M1 code, in such steps: twice the code's value.
#[inline(always)]
fn fp4(code: u8) -> i16 {
    let (mantissa, exponent) = (code & 1, code >> 1 & 3);
    let magnitude = if exponent == 0 { mantissa } else { 2 | mantissa };
    let magnitude = if exponent & 2 == 0 { magnitude } else { magnitude << 1 };
    let magnitude = if exponent == 3 { magnitude << 1 } else { magnitude };
    let operand = if code & 8 == 0 { magnitude } else { magnitude.wrapping_neg() };
    i16::from(operand as i8)
}

/// Packs `rows` rows in groups of `G` operands, each stored as `E` with `FLIP`, and calls `seen` with each row's
/// number and the operands of each of its blocks.
///
/// # Safety
/// `source` must be valid for reads of `rows` rows of `length` bytes every `stride`; `panel` for writes of
/// `rows · length · operands_per_byte(KIND)` elements. `length` is a multiple of 64, which `G` divides.
#[inline(always)]
unsafe fn pack<E: Element, const KIND: usize, const G: usize, const FLIP: u8>(
    (source, stride): (*const u8, usize),
    rows: usize,
    length: usize,
    panel: *mut u8,
    mut seen: impl FnMut(usize, &[i16; BLOCK]),
) {
    let panel = panel.cast::<[E; G]>();
    for block in 0..length / BLOCK {
        for row in 0..rows {
            // SAFETY: `row < rows` and `block · 64 + 64 <= length`.
            let bytes = unsafe { source.add(row * stride + block * BLOCK).cast::<[u8; BLOCK]>().read_unaligned() };
            for (half, operands) in decode::<KIND>(&bytes).iter().enumerate().take(operands_per_byte(KIND)) {
                seen(row, operands);
                let first = (block * operands_per_byte(KIND) + half) * (BLOCK / G);
                let elements = operands.map(|operand| E::of(operand, FLIP));
                for (group, elements) in elements.as_chunks::<G>().0.iter().enumerate() {
                    // SAFETY: `(first + group) · G + G` operands of a row are at most all of them.
                    unsafe { panel.add((first + group) * rows + row).write_unaligned(*elements) };
                }
            }
        }
    }
}

/// Packs X in groups of `G` operands. For a kernel that stores Y as `y + 128` it gives `CORRECT`: the corrections are
/// then `-128 · Σ_k X[r][k]`, else 0.
///
/// # Safety
/// As [`PackX`] says of its fields.
#[inline(always)]
pub(super) unsafe fn pack_x<E: Element, const KIND: usize, const G: usize, const CORRECT: bool>(p: &PackX) {
    // SAFETY: there is a correction for each row.
    let corrections = unsafe {
        p.corrections.write_bytes(0, p.rows);
        std::slice::from_raw_parts_mut(p.corrections, p.rows)
    };
    let correct = |row: usize, operands: &[i16; BLOCK]| {
        if CORRECT {
            let sum: i32 = operands.iter().map(|&x| i32::from(x)).sum();
            corrections[row] = corrections[row].wrapping_add(sum.wrapping_mul(-128) as u32);
        }
    };
    // SAFETY: the fields' promises are those asked for.
    unsafe { pack::<E, KIND, G, 0>((p.source, p.stride), p.rows, p.length, p.panel, correct) };
}

/// Packs Y in groups of `G` operands for a tile of `COLUMNS` columns, each XORed with `FLIP`.
///
/// # Safety
/// As [`PackY`] says of its fields.
#[inline(always)]
pub(super) unsafe fn pack_y<E: Element, const KIND: usize, const G: usize, const COLUMNS: usize, const FLIP: u8>(
    p: &PackY,
) {
    // SAFETY: the fields' promises are those asked for.
    unsafe { pack::<E, KIND, G, FLIP>((p.source, p.stride), COLUMNS, p.length, p.panel, |_, _| ()) };
}

#[cfg(test)]
mod tests {
    use super::super::F16;
    use super::*;

    fn check<const KIND: usize>() {
        let precision = Precision::OF_BYTES[KIND];
        let bytes: Vec<u8> = (0..=255).collect();
        for block in bytes.as_chunks::<BLOCK>().0 {
            let [first, second] = decode::<KIND>(block);
            for ((byte, first), second) in block.iter().zip(first).zip(second) {
                assert_eq!([first, second], precision.operands(*byte), "{precision} {byte}");
            }
        }
    }

    #[test]
    fn blocks_are_decoded_as_the_specification_says() {
        check::<INT8>();
        check::<F16>();
        check::<FP8>();
        check::<FP4>();
    }
}
