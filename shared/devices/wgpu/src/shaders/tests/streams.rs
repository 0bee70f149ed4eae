//! The keystream's kernel, and those that measure: each against a few lines of Rust.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::*;

const BLOCK_BYTES: usize = 64;

/// `KEYSTREAM(key, stream)` from block `counter` on.
fn stream_of(case: &KeystreamParams) -> Vec<u8> {
    let key: Vec<u8> = case.key.iter().flat_map(|word| word.to_le_bytes()).collect();
    let mut rng = ChaCha8Rng::from_seed(key.try_into().unwrap());
    rng.set_stream(case.stream);
    rng.set_word_pos(u128::from(case.counter) * 16);
    let mut bytes = vec![0; case.blocks as usize * BLOCK_BYTES];
    rng.fill_bytes(&mut bytes);
    bytes
}

pub(super) fn check_keystream(shader: &Shader, checked: bool) -> Checked {
    let kernel = gpu().compile(shader, 1, checked)?;
    let cases = [
        (0, 0, 1, 0),
        (1, 0, 64, 3),
        (1_048_575, 5, 65, 0),
        (u64::from(u32::MAX), (1 << 24) - 100, 200, 7),
        (0x0123_4567_89AB_CDEF, u32::MAX - 129, 130, 1),
    ];
    for (stream, counter, blocks, at) in cases {
        let key = std::array::from_fn(|i| 0x9ABC_DEF1_u32.wrapping_mul(i as u32 + 1));
        let case = KeystreamParams { key, stream, counter, blocks, at };
        let mut found = vec![POISON; (at + blocks + 70) as usize * BLOCK_BYTES];
        let mut expected = found.clone();
        expected[at as usize * BLOCK_BYTES..][..blocks as usize * BLOCK_BYTES].copy_from_slice(&stream_of(&case));
        kernel.run(case.words(), &mut [&mut found], blocks.div_ceil(KEYSTREAM_THREADS))?;
        same(&format!("{case:?}"), &found, &expected)?;
    }
    Ok(())
}

#[test]
fn the_keystream_is_chacha() {
    check_keystream(&keystream(), false).unwrap();
}

pub(super) fn check_stream(shader: &Shader, checked: bool) -> Checked {
    let kernel = gpu().compile(shader, 2, checked)?;
    for vectors in [1_u32, 127, 128, 511, 512, 5000] {
        let threads = 2 * STREAM_THREADS;
        // More than is to be read.
        let mut data = noise(u64::from(vectors), (vectors + 4 * threads) as usize * 16);
        let mut results = vec![POISON; threads as usize * 4];
        let mut expected = vec![0; threads as usize * 4];
        for (i, vector) in data.chunks_exact(16).take(vectors as usize).enumerate() {
            let result = &mut expected[i % threads as usize * 4..][..4];
            vector.iter().enumerate().for_each(|(at, byte)| result[at % 4] ^= byte);
        }
        kernel.run(StreamParams { vectors, threads }.words(), &mut [&mut data, &mut results], 2)?;
        same(&format!("{vectors} vectors"), &results, &expected)?;
    }
    Ok(())
}

#[test]
fn a_stream_reads_everything_once() {
    check_stream(&stream(), false).unwrap();
}

pub(super) fn check_completion_counter(shader: &Shader, checked: bool) -> Checked {
    let kernel = gpu().compile(shader, 1, checked)?;
    let mut found = noise(9, 64);
    let mut expected = found.clone();
    let mut counter = 0;
    for (number, first) in [(7, true), (8, false), (u32::MAX, false), (0, false), (5, true), (6, false)] {
        counter = next_completion(if first { 0 } else { counter }, number);
        expected[..4].copy_from_slice(&counter.to_le_bytes());
        kernel.run(CompletionCounter { number, first }.words(), &mut [&mut found], 1)?;
        same(&format!("submission {number}"), &found, &expected)?;
    }
    Ok(())
}

#[test]
fn the_completion_counter_is_the_hosts() {
    check_completion_counter(&completion_counter(), false).unwrap();
    // A submission left out, doubled, or exchanged for its neighbour gives another count.
    let of = |numbers: &[u32]| numbers.iter().fold(0, |before, number| next_completion(before, *number));
    let right = of(&[1, 2, 3]);
    assert!([of(&[1, 3]), of(&[2, 3]), of(&[1, 2]), of(&[2, 1, 3]), of(&[1, 2, 2, 3])].iter().all(|t| *t != right));
}

fn peak_results(dot: Dot, iterations: u32) -> Vec<u8> {
    let kernel = gpu().compile(&peak(dot), 1, false).unwrap();
    let mut results = vec![POISON; 2 * PEAK_THREADS as usize * 4];
    kernel.run(PeakParams { iterations }.words(), &mut [&mut results], 2).unwrap();
    results
}

#[test]
fn the_peak_has_the_same_sums_in_both_ways_and_new_ones_with_each_iteration() {
    let three = peak_results(Dot::Packed, 3);
    assert_eq!(three, peak_results(Dot::Plain, 3));
    assert_ne!(three, peak_results(Dot::Packed, 4));
    let mut words: Vec<&[u8]> = three.chunks_exact(4).collect();
    words.sort_unstable();
    words.dedup();
    assert_eq!(words.len(), 2 * PEAK_THREADS as usize, "each invocation has sums of its own");
}

#[test]
fn an_iteration_of_the_peak_is_as_much_as_is_said() {
    let source = peak(Dot::Packed).source;
    let body = source.split("fn iterated").nth(1).unwrap().split("\n}\n").next().unwrap();
    let dot_products = 4 * 4;
    assert_eq!(body.matches("added(").count() as u64 * dot_products * 4, PEAK_MACS_PER_ITERATION);
}
