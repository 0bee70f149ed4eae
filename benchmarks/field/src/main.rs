//! Compares the speed of 64 squarings and additions modulo the order of BN254's scalar field: this project's, and
//! ark-bn254's. Both must give the same bytes.

use std::time::Instant;

use ark_bn254::Fr;
use ark_ff::{BigInteger, Field, PrimeField};
use assay_work::rule::field::{GROUP_BYTES, STEPS, operands};

/// Bytes of a row, and rows of a round.
const ROW_BYTES: usize = 2048;
const ROWS: u32 = 512;
const ROUNDS: usize = 21;
/// The slot.
const SLOT: u32 = 5;

fn peer(row: &mut [u8], u: u32, c: u32) {
    let first = 1 + (u64::from(c) << 16) + (u64::from(u) << 32);
    for (group, k) in row.chunks_exact_mut(GROUP_BYTES).zip(first..) {
        let (mut v, k) = (Fr::from_le_bytes_mod_order(group), Fr::from(k));
        for _ in 0..STEPS {
            v.square_in_place();
            v += k;
        }
        group.copy_from_slice(&v.into_bigint().to_bytes_le());
    }
}

/// Nanoseconds of a field operation, and the bytes made.
fn time(of: fn(&mut [u8], u32, u32)) -> (f64, Vec<u8>) {
    let mut rows: Vec<u8> = (0..ROWS as usize * ROW_BYTES).map(|i| (i * i >> 3) as u8).collect();
    let start = Instant::now();
    for (row, c) in rows.chunks_exact_mut(ROW_BYTES).zip(0..) {
        of(row, SLOT, c);
    }
    let operations = rows.len() / GROUP_BYTES * STEPS as usize;
    (start.elapsed().as_secs_f64() * 1e9 / operations as f64, rows)
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn main() {
    let (mut own, mut others) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let ((own_ns, own_bytes), (peer_ns, peer_bytes)) = (time(operands), time(peer));
        assert!(own_bytes == peer_bytes, "the bytes differ");
        own.push(own_ns);
        others.push(peer_ns);
    }
    let (own, peer) = (median(own), median(others));
    println!("a squaring and an addition: {own:.2} ns, ark-bn254 {peer:.2} ns, {:.2} as fast", peer / own);
}
