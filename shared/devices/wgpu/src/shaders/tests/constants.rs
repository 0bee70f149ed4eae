//! CUDA's own constants equal those that Rust and WGSL share.

use super::super::{all, prelude};
use assay_work::probe::walk;
use assay_work::{product, tree};

const MIX: &str = include_str!("../../../../../../kernels/cuda/mix.cuh");
const PROBE: &str = include_str!("../../../../../../kernels/cuda/probe.cu");
const BLAKE3: &str = include_str!("../../../../../../kernels/cuda/blake3.cuh");

/// The value of `name = …` in a source.
fn value(source: &str, name: &str) -> u32 {
    let text = source.split(&format!("{name} = ")).nth(1).unwrap_or_else(|| panic!("no {name}"));
    let digits: String = text.chars().take_while(char::is_ascii_alphanumeric).collect();
    let parsed = match digits.strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16),
        None => digits.parse(),
    };
    parsed.unwrap_or_else(|error| panic!("{name} = {digits}: {error}"))
}

#[test]
fn cuda_mixes_with_the_same_factors() {
    assert_eq!(value(MIX, "slot_factor"), product::SLOT_FACTOR);
    assert_eq!(value(MIX, "mix_first_factor"), product::FIRST_FACTOR);
    assert_eq!(value(MIX, "mix_second_factor"), product::SECOND_FACTOR);
    assert!(MIX.contains(&format!("x >> {};", product::SHIFT)), "the shift");
}

#[test]
fn cuda_walks_with_the_same_factors() {
    assert_eq!(value(PROBE, "first_factor"), walk::FIRST_FACTOR);
    assert_eq!(value(PROBE, "second_factor"), walk::SECOND_FACTOR);
    assert!(PROBE.contains(&format!("t[i] ^= t[i] >> {};", walk::SHIFT)), "the shift");
    assert!(PROBE.contains(&format!(", {});", walk::NEIGHBOUR_TURN)), "the turn");
}

#[test]
fn cuda_hashes_the_same_chunks() {
    assert_eq!(u64::from(value(BLAKE3, "chunk_bytes")), tree::CHUNK_BYTES);
}

/// WGSL's constants are the prelude's; no file repeats one of the numbers.
#[test]
fn wgsl_has_no_factor_of_its_own() {
    let factors = [product::SLOT_FACTOR, product::FIRST_FACTOR, product::SECOND_FACTOR];
    for shader in all() {
        let text = shader.source.replace(&prelude(), "").to_lowercase();
        for factor in factors {
            assert!(!text.contains(&format!("{factor:x}")) && !text.contains(&factor.to_string()), "{}", shader.name);
        }
    }
}
