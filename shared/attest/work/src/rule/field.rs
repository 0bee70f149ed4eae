//! The rule of precision 7, FIELD: 64 squarings and additions modulo the order of BN254's scalar field for each 32 bytes
//! of y (WORK.md, Rules). Arithmetic is Montgomery's with R = 2²⁵⁶ on four limbs of 64 bits.

use crate::precision::FIELD_OPERATIONS_PER_BYTE;

/// Bytes of a group, which are one number of the field.
pub const GROUP_BYTES: usize = 32;
/// Field operations of a group: each is a squaring and an addition.
pub const STEPS: u32 = FIELD_OPERATIONS_PER_BYTE * GROUP_BYTES as u32;

/// A number below 2²⁵⁶, its lowest limb first.
type Limbs = [u64; 4];

/// Q, the order of the field.
const Q: Limbs = [0x43E1_F593_F000_0001, 0x2833_E848_79B9_7091, 0xB850_45B6_8181_585D, 0x3064_4E72_E131_A029];
/// -1 / Q mod 2⁶⁴.
const NEGATED_INVERSE: u64 = 0xC2E1F593EFFFFFFF;
/// R² mod Q, which brings a number into Montgomery's form.
const R2: Limbs = [0x1BB8_E645_AE21_6DA7, 0x53FE_3AB1_E35C_59E3, 0x8C49_833D_53BB_8085, 0x0216_D0B1_7F4E_44A5];
/// R³ mod Q, which turns k into the summand of a square before its reduction: k · R².
const R3: Limbs = [0x5E94_D8E1_B4BF_0040, 0x2A48_9CBE_1CFB_B6B8, 0x893C_C664_A19F_CFED, 0x0CF8_594B_7FCC_657C];

/// Replaces row `c` of slot `u - 1` by the operands of y that slot `u` takes from it.
///
/// # Panics
/// For a row that is no whole number of groups.
pub fn operands(row: &mut [u8], u: u32, c: u32) {
    assert!(row.len().is_multiple_of(GROUP_BYTES), "a row has whole groups");
    let first = 1 + (u64::from(c) << 16) + (u64::from(u) << 32);
    for (group, k) in row.as_chunks_mut::<GROUP_BYTES>().0.iter_mut().zip(first..) {
        *group = steps(*group, k);
    }
}

/// `v = (v² + k) mod Q`, 64 times.
fn steps(group: [u8; GROUP_BYTES], k: u64) -> [u8; GROUP_BYTES] {
    let mut v = [0; 4];
    for (limb, bytes) in v.iter_mut().zip(group.as_chunks::<8>().0) {
        *limb = u64::from_le_bytes(*bytes);
    }
    // Below 2 · Q from here on, since 4 · Q < R.
    let added = multiplied(&[k, 0, 0, 0], &R3);
    let mut v = multiplied(&v, &R2);
    for _ in 0..STEPS {
        v = reduced(square(&v), &added);
    }
    let v = below_order(reduced([v[0], v[1], v[2], v[3], 0, 0, 0, 0], &[0; 4]));
    let mut out = [0; GROUP_BYTES];
    for (bytes, limb) in out.as_chunks_mut::<8>().0.iter_mut().zip(v) {
        *bytes = limb.to_le_bytes();
    }
    out
}

/// `a + b · c + carry` as low and high limb: at most 2¹²⁸ - 1.
#[inline(always)]
const fn multiply_add(a: u64, b: u64, c: u64, carry: u64) -> (u64, u64) {
    let wide = a as u128 + b as u128 * c as u128 + carry as u128;
    (wide as u64, (wide >> 64) as u64)
}

/// `a · b / R mod Q`, below 2 · Q where a · b is below 4 · Q².
fn multiplied(a: &Limbs, b: &Limbs) -> Limbs {
    let mut product = [0; 8];
    for i in 0..4 {
        let mut carry = 0;
        for j in 0..4 {
            (product[i + j], carry) = multiply_add(product[i + j], a[i], b[j], carry);
        }
        product[i + 4] = carry;
    }
    reduced(product, &[0; 4])
}

#[inline(always)]
fn square(a: &Limbs) -> [u64; 8] {
    let mut out = [0; 8];
    let (carry, next);
    (out[1], carry) = multiply_add(0, a[0], a[1], 0);
    (out[2], next) = multiply_add(0, a[0], a[2], carry);
    (out[3], out[4]) = multiply_add(0, a[0], a[3], next);
    let (carry, next);
    (out[3], carry) = multiply_add(out[3], a[1], a[2], 0);
    (out[4], next) = multiply_add(out[4], a[1], a[3], carry);
    (out[5], out[6]) = multiply_add(next, a[2], a[3], 0);
    // Each product of two limbs counts twice.
    for i in (1..8).rev() {
        out[i] = out[i] << 1 | out[i - 1] >> 63;
    }
    let mut carry = 0;
    for i in 0..4 {
        let wide = a[i] as u128 * a[i] as u128;
        let low = out[2 * i] as u128 + (wide as u64) as u128 + carry as u128;
        let high = out[2 * i + 1] as u128 + (wide >> 64) + (low >> 64);
        (out[2 * i], out[2 * i + 1], carry) = (low as u64, high as u64, (high >> 64) as u64);
    }
    out
}

/// `(wide + added) / R mod Q`, below 2 · Q where `wide` is below 4 · Q² and `added` below 2 · Q.
#[inline(always)]
fn reduced(mut wide: [u64; 8], added: &Limbs) -> Limbs {
    let mut carry = 0;
    for i in 0..4 {
        let sum = wide[i] as u128 + added[i] as u128 + carry as u128;
        (wide[i], carry) = (sum as u64, (sum >> 64) as u64);
    }
    for i in 0..4 {
        let factor = wide[i].wrapping_mul(NEGATED_INVERSE);
        let mut high = 0;
        for j in 0..4 {
            (wide[i + j], high) = multiply_add(wide[i + j], factor, Q[j], high);
        }
        let sum = wide[i + 4] as u128 + high as u128 + carry as u128;
        (wide[i + 4], carry) = (sum as u64, (sum >> 64) as u64);
    }
    [wide[4], wide[5], wide[6], wide[7]]
}

/// The number itself or less Q, whichever is below Q.
fn below_order(v: Limbs) -> Limbs {
    let (mut less, mut borrow) = ([0; 4], false);
    for i in 0..4 {
        let (difference, first) = v[i].overflowing_sub(Q[i]);
        let (difference, second) = difference.overflowing_sub(u64::from(borrow));
        (less[i], borrow) = (difference, first || second);
    }
    if borrow { v } else { less }
}
