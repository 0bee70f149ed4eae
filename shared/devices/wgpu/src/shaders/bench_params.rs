//! Parameters of the shaders that show a device's peak rates.

use super::params::{Words, padded};

/// Multiply-accumulates of one invocation of `peak` in one iteration: 16 pairs of operands, each 4 by 4 dot products
/// of 4.
pub(in super::super) const PEAK_MACS_PER_ITERATION: u64 = 16 * 4 * 4 * 4;

#[derive(Clone, Copy, Debug)]
pub(in super::super) struct PeakParams {
    /// Iterations of every invocation.
    pub iterations: u32,
}

#[derive(Clone, Copy, Debug)]
pub(in super::super) struct StreamParams {
    /// Vectors of 16 bytes to read.
    pub vectors: u32,
    /// Invocations of the whole dispatch.
    pub threads: u32,
}

impl PeakParams {
    pub fn words(&self) -> Words {
        padded(&[self.iterations])
    }
}

impl StreamParams {
    pub fn words(&self) -> Words {
        padded(&[self.vectors, self.threads])
    }
}
