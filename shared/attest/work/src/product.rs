//! Products: how an element of slot `u ≥ 2` follows from two rows of its parents (WORK.md, A pass).

use super::precision::Precision;

/// The factor of the slot's index before it enters every element.
pub const SLOT_FACTOR: u32 = 0xC2B2_AE35;
/// The multiplier before the shift.
pub const FIRST_FACTOR: u32 = 0x9E37_79B1;
/// How far the sum is shifted onto itself.
pub const SHIFT: u32 = 16;
/// The multiplier after the shift.
pub const SECOND_FACTOR: u32 = 0x85EB_CA6B;
/// How far down the byte that is kept lies.
pub const KEPT_SHIFT: u32 = 24;

/// The element that an exact sum of products becomes at `position = r · n + c` of slot `slot`.
pub const fn mix(sum: i32, position: u32, slot: u32) -> i8 {
    let x = (sum as u32).wrapping_add(position).wrapping_add(slot.wrapping_mul(SLOT_FACTOR));
    let x = x.wrapping_mul(FIRST_FACTOR);
    let x = (x ^ (x >> SHIFT)).wrapping_mul(SECOND_FACTOR);
    (x >> KEPT_SHIFT) as i8
}

/// The exact sum of products of two rows: below 2³¹ in magnitude for rows of up to 32768 bytes of any kind.
///
/// # Panics
/// When the rows differ in length.
pub fn dot(precision: Precision, x: &[u8], y: &[u8]) -> i32 {
    assert_eq!(x.len(), y.len(), "rows of one matrix size");
    sum_of_products(&precision.operands_of(x), &precision.operands_of(y))
}

/// The sum of products of the rows' operands, as in [`dot`].
pub(super) fn sum_of_products(x: &[i16], y: &[i16]) -> i32 {
    let ((x, x_rest), (y, y_rest)) = (x.as_chunks::<16>(), y.as_chunks::<16>());
    let term = |(&a, &b): (&i16, &i16)| i32::from(a) * i32::from(b);
    // Nothing overflows; without a check of it the compiler adds the terms of a chunk at once.
    let mut sums = [0_i32; 16];
    for (x, y) in x.iter().zip(y) {
        sums.iter_mut().zip(x.iter().zip(y)).for_each(|(sum, pair)| *sum = sum.wrapping_add(term(pair)));
    }
    sums.into_iter().chain(x_rest.iter().zip(y_rest).map(term)).fold(0, i32::wrapping_add)
}

/// Element `(r, c)` of slot `u`, as its byte, from row `r` of the earlier parent and row `c` of the
/// previous slot, each of `n` bytes.
///
/// # Panics
/// When a row is not `n` bytes long.
pub fn element(precision: Precision, row_x: &[u8], row_y: &[u8], n: u32, r: u32, c: u32, u: u32) -> u8 {
    assert_eq!(row_x.len(), n as usize, "a row of the matrix");
    mix(dot(precision, row_x, row_y), r * n + c, u) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The formula of WORK.md in 64 bits with an explicit modulus.
    fn mix_in_wide(sum: i64, position: u64, slot: u64) -> i8 {
        let m = 1_u64 << 32;
        let x = (sum.rem_euclid(m as i64) as u64 + position + slot * 0xC2B2_AE35 % m) % m;
        let x = x * 0x9E37_79B1 % m;
        let x = x ^ (x / 65_536);
        let x = (u128::from(x) * 0x85EB_CA6B % u128::from(m)) as u64;
        (x / (1 << 24)) as u8 as i8
    }

    #[test]
    fn mix_follows_the_formula_over_its_whole_range() {
        for sum in [-(1 << 29), -65_537, -1, 0, 1, 65_535, 1 << 29] {
            for position in [0, 1, 65_535, (1 << 30) - 1] {
                for slot in [2, 3, 4095, (1 << 20) - 1] {
                    let expected = mix_in_wide(i64::from(sum), u64::from(position), u64::from(slot));
                    assert_eq!(mix(sum, position, slot), expected, "{sum} {position} {slot}");
                }
            }
        }
    }

    #[test]
    fn the_largest_sums_are_exact() {
        let sum = |precision, x, y| dot(precision, &[x; 32_768], &[y; 32_768]);
        assert_eq!(sum(Precision::Int8, 0x80, 0x80), 1 << 29);
        assert_eq!(sum(Precision::Int8, 0x80, 0x7f), -32_768 * 128 * 127);
        assert_eq!(sum(Precision::F16, 0x80, 0x80), 9 << 27);
        assert_eq!(sum(Precision::F16, 0x80, 0x7f), -32_768 * 192 * 190);
        assert_eq!(sum(Precision::Fp8, 0x1f, 0x7f), 471_859_200, "bits 5 and 6 do not count");
        assert_eq!(sum(Precision::Fp8, 0x1f, 0x9f), -471_859_200);
        assert_eq!(sum(Precision::Fp4, 0x77, 0x77), 9 << 20);
        assert_eq!(sum(Precision::Fp4, 0x77, 0xff), -9 << 20);
        assert_eq!(sum(Precision::Fp4, 0x07, 0x70), 0, "low with low, high with high");
    }

    proptest::proptest! {
        #[test]
        fn sums_are_those_of_wide_integers(
            rows in proptest::collection::vec(proptest::prelude::any::<(u8, u8)>(), 1..600),
        ) {
            let (x, y): (Vec<u8>, Vec<u8>) = rows.into_iter().unzip();
            for precision in Precision::ALL {
                let terms = x.iter().zip(&y).map(|(&a, &b)| {
                    let (a, b) = (precision.operands(a).map(i64::from), precision.operands(b).map(i64::from));
                    a[0] * b[0] + a[1] * b[1]
                });
                assert_eq!(i64::from(dot(precision, &x, &y)), terms.sum::<i64>(), "{precision}");
            }
        }
    }

    #[test]
    fn the_last_element_of_the_largest_matrix_has_a_position() {
        let zeros = vec![0; 32_768];
        assert_eq!(element(Precision::Int8, &zeros, &zeros, 32_768, 32_767, 32_767, 2), mix(0, (1 << 30) - 1, 2) as u8);
    }
}
