//! Limits of verification: hashing and reading rates of this core.

use std::hint::black_box;
use std::time::Instant;

/// Bytes read: more than the caches hold.
const BYTES: usize = 64 << 20;
/// Bytes of one hashed string: those of a slot of n = 1024.
const HASHED: usize = 1 << 20;

/// Bytes in a second, by one thread.
pub struct ThreadRates {
    /// BLAKE3 over long strings.
    pub blake3_per_s: f64,
    /// Reading memory once.
    pub read_per_s: f64,
}

impl ThreadRates {
    /// Measures both.
    pub fn measure() -> Self {
        let data: Vec<u64> = (0..(BYTES / 8) as u64).collect();
        let bytes: Vec<u8> = (0..BYTES).map(|at| at as u8).collect();
        let hash = || {
            for piece in bytes.chunks_exact(HASHED) {
                black_box(blake3::hash(piece));
            }
        };
        let read = || {
            black_box(data.iter().fold(0, |sum: u64, word| sum ^ word));
        };
        Self { blake3_per_s: rate(hash), read_per_s: rate(read) }
    }
}

fn rate(mut work: impl FnMut()) -> f64 {
    let began = Instant::now();
    work();
    BYTES as f64 / began.elapsed().as_secs_f64()
}
