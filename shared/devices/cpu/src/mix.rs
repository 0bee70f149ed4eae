//! The mixing step of a product, one element at a time (WORK.md, A pass).

/// The factor of a slot's index, whose product is added to every element: `u · SLOT_FACTOR`.
pub(super) const SLOT_FACTOR: u32 = 0xC2B2_AE35;
pub(super) const FIRST_FACTOR: u32 = 0x9E37_79B1;
pub(super) const SECOND_FACTOR: u32 = 0x85EB_CA6B;

/// The element that `x = C[r][c] + r·n + c + u · SLOT_FACTOR` becomes.
#[inline(always)]
pub(super) const fn mix(x: u32) -> u8 {
    let x = x.wrapping_mul(FIRST_FACTOR);
    let x = (x ^ (x >> 16)).wrapping_mul(SECOND_FACTOR);
    (x >> 24) as u8
}
