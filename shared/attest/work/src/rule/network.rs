//! The rules of precision 8, NETWORK: convolution, attention and noise, in turn over the slots (WORK.md, Rules).

use crate::bytes::PassKey;
use crate::leaf::keystream;

/// Pixels of a filter on each side.
const FILTER: usize = 4;
/// Pixels of a filter: channels are n over this. A row of x rests on as many pieces.
pub const FILTER_PIXELS: usize = FILTER * FILTER;
/// The largest operand.
const LARGEST: u32 = 127;
/// E: 127 · 2^(-d / 64), rounded.
#[rustfmt::skip]
pub const WEIGHTS: [u8; 256] = [
    127, 126, 124, 123, 122, 120, 119, 118, 116, 115, 114, 113, 112, 110, 109, 108, 107, 106, 105, 103, 102, 101, 100, 99,
    98, 97, 96, 95, 94, 93, 92, 91, 90, 89, 88, 87, 86, 85, 84, 83, 82, 81, 81, 80, 79, 78, 77, 76,
    76, 75, 74, 73, 72, 72, 71, 70, 69, 69, 68, 67, 66, 66, 65, 64, 64, 63, 62, 61, 61, 60, 60, 59,
    58, 58, 57, 56, 56, 55, 55, 54, 53, 53, 52, 52, 51, 51, 50, 49, 49, 48, 48, 47, 47, 46, 46, 45,
    45, 44, 44, 43, 43, 43, 42, 42, 41, 41, 40, 40, 39, 39, 39, 38, 38, 37, 37, 37, 36, 36, 35, 35,
    35, 34, 34, 34, 33, 33, 32, 32, 32, 31, 31, 31, 30, 30, 30, 29, 29, 29, 28, 28, 28, 28, 27, 27,
    27, 26, 26, 26, 26, 25, 25, 25, 24, 24, 24, 24, 23, 23, 23, 23, 22, 22, 22, 22, 21, 21, 21, 21,
    21, 20, 20, 20, 20, 20, 19, 19, 19, 19, 18, 18, 18, 18, 18, 18, 17, 17, 17, 17, 17, 16, 16, 16,
    16, 16, 16, 15, 15, 15, 15, 15, 15, 14, 14, 14, 14, 14, 14, 13, 13, 13, 13, 13, 13, 13, 13, 12,
    12, 12, 12, 12, 12, 12, 11, 11, 11, 11, 11, 11, 11, 11, 11, 10, 10, 10, 10, 10, 10, 10, 10, 10,
    9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 8, 8, 8, 8, 8, 8,
];
/// t: 2¹⁵ times the chance that the noise is at most i in magnitude.
#[rustfmt::skip]
pub const THRESHOLDS: [u16; 34] = [
    1634, 4877, 8044, 11091, 13975, 16663, 19130, 21359, 23341, 25077, 26573, 27843, 28904, 29776, 30483, 31047, 31489,
    31831, 32091, 32286, 32429, 32533, 32608, 32660, 32697, 32721, 32738, 32749, 32756, 32761, 32764, 32765, 32766, 32767,
];

/// The rule of x for a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layer {
    /// Leaky ReLU, max pooling and the windows of a convolution.
    Convolution,
    /// A softmax of each row.
    Attention,
    /// Discrete Gaussian noise, after clipping.
    Noise,
}

impl Layer {
    /// The layer of slot `u`.
    pub const fn of(u: u32) -> Self {
        match u % 3 {
            0 => Self::Convolution,
            1 => Self::Attention,
            _ => Self::Noise,
        }
    }
}

/// A slot as a tensor in NHWC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tensor {
    n: usize,
    /// Pixels from top to bottom.
    pub height: usize,
    /// Pixels from left to right.
    pub width: usize,
    /// Bytes of a pixel.
    pub channels: usize,
}

impl Tensor {
    /// The tensor of a slot of n rows.
    ///
    /// # Panics
    /// Where n is no power of two from 256.
    pub fn new(n: u32) -> Self {
        assert!(n.is_power_of_two() && n >= 256, "a matrix size");
        let exponent = n.trailing_zeros() + 4;
        let (height, width) = (1 << exponent.div_ceil(2), 1 << (exponent / 2));
        Self { n: n as usize, height, width, channels: n as usize / FILTER_PIXELS }
    }

    /// The pooled pixel, by row and column, that entry `k` of row `r` of x is a channel of.
    fn pool(&self, r: usize, k: usize) -> (usize, usize) {
        let pixel = k / self.channels;
        let (down, right) = (r / (self.width / 4), r % (self.width / 4));
        ((2 * down + pixel / FILTER) % (self.height / 2), (2 * right + pixel % FILTER) % (self.width / 2))
    }

    /// The place in the slot of a channel of a pixel.
    const fn byte(&self, y: usize, x: usize, channel: usize) -> usize {
        (y * self.width + x) * self.channels + channel
    }

    /// The window of row `r` of x: its pieces, one behind the other.
    ///
    /// # Panics
    /// For a slot of another size.
    pub fn window(&self, slot: &[u8], r: u32) -> Vec<u8> {
        self.pieces(r).map(|first| &slot[first..][..self.piece_bytes()]).concat()
    }

    /// The pieces of the slot that row `r` of x rests on: first bytes, each of four pixels (WORK.md, Openings).
    pub fn pieces(&self, r: u32) -> [usize; FILTER_PIXELS] {
        let quarters = self.width / 4;
        let (down, right) = (r as usize / quarters, r as usize % quarters);
        std::array::from_fn(|piece| {
            let (d, e) = (piece / 2, piece % 2);
            let index = (4 * down + d) % self.height * quarters + (right + e) % quarters;
            index * self.piece_bytes()
        })
    }

    /// Bytes of a piece.
    pub const fn piece_bytes(&self) -> usize {
        self.n / 4
    }

    /// The element of the slot, by row and column, in which entry `k` of row `r` of x is checked: a map onto the slot.
    pub fn factor(&self, r: u32, k: u32) -> (u32, u32) {
        let (r, k) = (r as usize, k as usize);
        let (row, column) = self.pool(r, k);
        let pixel = k / self.channels;
        let byte = self.byte(2 * row + pixel / FILTER / 2, 2 * column + pixel % FILTER / 2, k % self.channels);
        ((byte / self.n) as u32, (byte % self.n) as u32)
    }
}

/// A row of x from its window of 8 by 8 pixels: leaky ReLU, and the largest of each 2 by 2.
///
/// # Panics
/// For a window that is none.
pub fn convolution(window: &[u8]) -> Vec<u8> {
    let channels = window.len() / (4 * FILTER_PIXELS);
    let mut x = vec![0; FILTER_PIXELS * channels];
    let pixel = |y: usize, x: usize| &window[(y * 2 * FILTER + x) * channels..][..channels];
    for (place, x) in x.chunks_exact_mut(channels).enumerate() {
        let (i, j) = (2 * (place / FILTER), 2 * (place % FILTER));
        let pool = [pixel(i, j), pixel(i, j + 1), pixel(i + 1, j), pixel(i + 1, j + 1)];
        for (h, operand) in x.iter_mut().enumerate() {
            let largest = pool.iter().fold(i8::MIN, |largest, pixel| largest.max(pixel[h] as i8));
            // Leaky ReLU keeps the order. The shift rounds towards -∞.
            *operand = (if largest >= 0 { largest } else { largest >> 3 }) as u8;
        }
    }
    x
}

/// A row of x from a row of the earlier slot: its softmax.
pub fn attention(row: &[u8]) -> Vec<u8> {
    let largest = row.iter().map(|byte| *byte as i8).max().unwrap_or(0) as u8;
    let below = |byte: &u8| usize::from(largest.wrapping_sub(*byte));
    let sum: u32 = row.iter().map(|byte| u32::from(WEIGHTS[below(byte)])).sum();
    let scale = 32 * row.len() as u32;
    let operands = WEIGHTS.map(|weight| (u32::from(weight) * scale / sum).min(LARGEST) as u8);
    row.iter().map(|byte| operands[below(byte)]).collect()
}

/// The key of the noise of slot `u`.
pub fn noise_key(key: &PassKey, u: u32) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new_keyed(key.as_bytes());
    hasher.update(b"noise");
    hasher.update(&u.to_le_bytes());
    *hasher.finalize().as_bytes()
}

/// Row `r` of x from the same row of the earlier slot, clipped, with noise.
pub fn noise(noise_key: &[u8; 32], row: &[u8], r: u32) -> Vec<u8> {
    let mut draws = vec![0; 2 * row.len()];
    keystream(noise_key, 0, u64::from(r) * draws.len() as u64, &mut draws);
    let noisy = |(byte, draw): (&u8, &[u8; 2])| (*byte as i8).clamp(-64, 63) + gaussian(u16::from_le_bytes(*draw));
    row.iter().zip(draws.as_chunks::<2>().0).map(|pair| noisy(pair) as u8).collect()
}

/// The noise of a draw: its magnitude by the thresholds, its sign by the lowest bit.
pub fn gaussian(draw: u16) -> i8 {
    let magnitude = MAGNITUDES[usize::from(draw / 2)] as i8;
    if draw % 2 == 1 { -magnitude } else { magnitude }
}

/// The number of thresholds that are at most a draw.
static MAGNITUDES: [u8; 1 << 15] = {
    let mut magnitudes = [0; 1 << 15];
    let (mut draw, mut magnitude) = (0, 0);
    while draw < magnitudes.len() {
        while magnitude < THRESHOLDS.len() && THRESHOLDS[magnitude] as usize <= draw {
            magnitude += 1;
        }
        magnitudes[draw] = magnitude as u8;
        draw += 1;
    }
    magnitudes
};

#[cfg(test)]
mod tests {
    use super::*;

    /// The element that a factor is checked in lies in a piece that its sample opens, and is another one for each factor.
    #[test]
    fn factors_lie_in_the_pieces_of_their_row() {
        for n in (8..=15).map(|log| 1 << log) {
            let tensor = Tensor::new(n);
            let mut seen = vec![false; if n == 256 { (n * n) as usize } else { 0 }];
            let step = (n / 256) as usize;
            for r in (0..n).step_by(step * step).chain([n - 1]) {
                let pieces = tensor.pieces(r);
                for k in (0..n).step_by(step).chain([n - 1]) {
                    let (row, column) = tensor.factor(r, k);
                    let byte = row as usize * n as usize + column as usize;
                    let holds = |first: &usize| (*first..*first + tensor.piece_bytes()).contains(&byte);
                    assert!(pieces.iter().any(holds), "n = {n}, r = {r}, k = {k}");
                    seen.get_mut(byte).into_iter().for_each(|seen| *seen = true);
                }
            }
            assert!(seen.into_iter().all(|seen| seen), "every byte of the slot is some factor's");
        }
    }
}
