//! The rules of kinds of work: the bytes that a row of x and a row of y stand for (WORK.md, Rules). Kinds without a rule
//! take the bytes of slots as they are.

pub mod field;
pub mod network;

use std::borrow::Cow;

use crate::bytes::PassKey;
use crate::precision::Precision;
use crate::product;
use network::{Layer, Tensor};

/// The rules of the product that fills slot `u`, from 2. They give bytes whose operands are those of
/// [`Precision::of_bytes`].
#[derive(Debug, Clone)]
pub struct SlotRule {
    precision: Precision,
    n: u32,
    u: u32,
    x: XRule,
}

#[derive(Debug, Clone)]
enum XRule {
    Bytes,
    Convolution(Tensor),
    Attention,
    Noise([u8; 32]),
}

impl SlotRule {
    /// The rules of slot `u` of a pass.
    pub fn new(precision: Precision, key: &PassKey, n: u32, u: u32) -> Self {
        let x = match (precision, Layer::of(u)) {
            (Precision::Network, Layer::Convolution) => XRule::Convolution(Tensor::new(n)),
            (Precision::Network, Layer::Attention) => XRule::Attention,
            (Precision::Network, Layer::Noise) => XRule::Noise(network::noise_key(key, u)),
            _ => XRule::Bytes,
        };
        Self { precision, n, u, x }
    }

    /// The kind of work.
    pub const fn precision(&self) -> Precision {
        self.precision
    }

    /// The matrix size.
    pub const fn n(&self) -> u32 {
        self.n
    }

    /// The slot that is filled.
    pub const fn u(&self) -> u32 {
        self.u
    }

    /// The earlier slot as a tensor, where x is made of its windows and not of its rows.
    pub const fn tensor(&self) -> Option<&Tensor> {
        if let XRule::Convolution(tensor) = &self.x { Some(tensor) } else { None }
    }

    /// Whether x is the bytes of the earlier slot.
    #[must_use]
    pub const fn keeps_x(&self) -> bool {
        matches!(self.x, XRule::Bytes)
    }

    /// Whether y is the bytes of the previous slot.
    #[must_use]
    pub const fn keeps_y(&self) -> bool {
        !matches!(self.precision, Precision::Field)
    }

    /// Row `r` of x from the whole earlier slot.
    ///
    /// # Panics
    /// When the slot has no such row.
    pub fn x_of_slot<'a>(&self, earlier: &'a [u8], r: u32) -> Cow<'a, [u8]> {
        if let Some(tensor) = self.tensor() {
            return Cow::Owned(network::convolution(&tensor.window(earlier, r)));
        }
        let n = self.n as usize;
        self.x(&earlier[r as usize * n..][..n], r)
    }

    /// Row `r` of x from row `r` of the earlier slot, or from a window of it.
    pub fn x<'a>(&self, bytes: &'a [u8], r: u32) -> Cow<'a, [u8]> {
        match &self.x {
            XRule::Bytes => Cow::Borrowed(bytes),
            XRule::Convolution(_) => Cow::Owned(network::convolution(bytes)),
            XRule::Attention => Cow::Owned(network::attention(bytes)),
            XRule::Noise(key) => Cow::Owned(network::noise(key, bytes, r)),
        }
    }

    /// Row `c` of y from that row of the previous slot.
    pub fn y<'a>(&self, row: &'a [u8], c: u32) -> Cow<'a, [u8]> {
        if self.keeps_y() {
            return Cow::Borrowed(row);
        }
        let mut y = row.to_vec();
        field::operands(&mut y, self.u, c);
        Cow::Owned(y)
    }

    /// Element `(r, c)` of the slot, from the row or the window behind x and row `c` of the previous slot.
    ///
    /// # Panics
    /// When they are not as long as the matrix size asks for.
    pub fn element(&self, x: &[u8], y: &[u8], r: u32, c: u32) -> u8 {
        product::element(self.precision.of_bytes(), &self.x(x, r), &self.y(y, c), self.n, r, c, self.u)
    }
}

/// Rows whose products are taken together, so that a row of the previous slot is read once for all of them.
const ROWS: usize = 8;

/// Rows of a slot from row `r` on, from its parents.
///
/// # Panics
/// When a parent is not `n²` bytes, or there is more or less than whole rows.
pub fn product_rows(rule: &SlotRule, (earlier, previous): (&[u8], &[u8]), r: u32, rows: &mut [u8]) {
    let (kind, n, u) = (rule.precision().of_bytes(), rule.n(), rule.u());
    let width = n as usize;
    assert!(earlier.len() == width * width && previous.len() == width * width, "n-by-n slots");
    assert!(rows.len().is_multiple_of(width), "whole rows");
    let y: Vec<_> = (0..).zip(previous.chunks_exact(width)).map(|(c, row)| rule.y(row, c)).collect();
    for (r, rows) in (r..).step_by(ROWS).zip(rows.chunks_mut(ROWS * width)) {
        let numbers = r..r + (rows.len() / width) as u32;
        let x: Vec<_> = numbers.map(|r| kind.operands_of(&rule.x_of_slot(earlier, r))).collect();
        for (c, y) in (0..).zip(&y) {
            let y = kind.operands_of(y);
            for ((r, x), row) in (r..).zip(&x).zip(rows.chunks_exact_mut(width)) {
                row[c as usize] = product::mix(product::sum_of_products(x, &y), r * n + c, u) as u8;
            }
        }
    }
}
