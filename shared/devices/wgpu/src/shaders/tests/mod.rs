//! Every kernel on a real adapter, compared with references written from WORK.md; and with each fault of a list, which
//! the same comparisons have to find.

mod constants;
mod expand;
mod faults;
#[allow(unsafe_code)]
mod gpu;
mod limits;
mod probe;
mod product;
mod rules;
mod streams;
mod sweep;
mod tree;

use self::gpu::{Kernel, gpu};
use super::*;

/// A kernel's result, with the reason of a refusal.
type Checked = Result<(), String>;

/// The content of memory before a kernel runs: bytes that a kernel should write have to differ from it.
const POISON: u8 = 0xA5;

/// Bytes of no pattern, the same for the same seed.
fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&seed.to_le_bytes());
    let mut bytes = vec![0; len];
    hasher.finalize_xof().fill(&mut bytes);
    bytes
}

/// Whether a kernel left the expected bytes; names the first byte that differs.
fn same(what: &str, found: &[u8], expected: &[u8]) -> Checked {
    assert_eq!(found.len(), expected.len(), "{what}");
    match found.iter().zip(expected).position(|(a, b)| a != b) {
        None => Ok(()),
        Some(at) => Err(format!("{what}: byte {at} is {:#04x} and not {:#04x}", found[at], expected[at])),
    }
}
