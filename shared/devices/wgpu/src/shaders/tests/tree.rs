//! The kernels of BLAKE3 trees, against the crate's own subtrees.

use blake3::hazmat::{HasherExt, Mode, merge_subtrees_non_root, merge_subtrees_root};

use super::*;

const CHUNK_BYTES: usize = 1024;
const VALUE_BYTES: usize = 32;
const GROUP: u32 = TREE_THREADS;

/// The values that `chunks` should leave of its data.
fn subtrees(case: &ChunkParams, data: &[u8]) -> Vec<u8> {
    if case.root {
        return blake3::hash(data).as_bytes().to_vec();
    }
    let each = CHUNK_BYTES << case.levels;
    let mut values = Vec::new();
    for (i, subtree) in (0..).zip(data.chunks_exact(each)) {
        let mut hasher = blake3::Hasher::new();
        hasher.set_input_offset(u64::from(case.counter) * CHUNK_BYTES as u64 + i * each as u64);
        hasher.update(subtree);
        values.extend(hasher.finalize_non_root());
    }
    values
}

fn check_chunks_case(kernel: &Kernel<'_>, case: &ChunkParams) -> Checked {
    let chunks = case.chunks as usize;
    let before = case.at as usize * CHUNK_BYTES;
    let mut data = noise(u64::from(case.counter), before + (chunks + 1) * CHUNK_BYTES);
    let given = data.clone();
    let values = subtrees(case, &data[before..][..chunks * CHUNK_BYTES]);
    let mut found = vec![POISON; case.out_at as usize * VALUE_BYTES + values.len() + 200 * VALUE_BYTES];
    let mut expected = found.clone();
    expected[case.out_at as usize * VALUE_BYTES..][..values.len()].copy_from_slice(&values);
    kernel.run(case.words(), &mut [&mut data, &mut found], case.chunks.div_ceil(GROUP))?;
    same(&format!("data of {case:?}"), &data, &given)?;
    same(&format!("{case:?}"), &found, &expected)
}

pub(super) fn check_chunks(shader: &Shader, checked: bool) -> Checked {
    let kernel = gpu().compile(shader, 2, checked)?;
    for chunks in [1_u32, 2, 4, 16, 32, 64, 128, 256] {
        for levels in 0..=chunks.min(GROUP).ilog2() {
            let odd = chunks.ilog2() + levels;
            let counter = chunks * [0, 1, 3, 4095][odd as usize % 4];
            let case = ChunkParams { at: odd % 3, counter, chunks, levels, root: false, out_at: odd % 5 };
            check_chunks_case(&kernel, &case)?;
            if levels > 0 && chunks == 1 << levels {
                check_chunks_case(&kernel, &ChunkParams { counter: 0, root: true, ..case })?;
            }
        }
    }
    // The last chunks of the largest slot, and of the largest string that a counter of one word allows.
    for counter in [(1 << 20) - 128, u32::MAX - 127] {
        check_chunks_case(&kernel, &ChunkParams { at: 0, counter, chunks: 128, levels: 2, root: false, out_at: 0 })?;
    }
    Ok(())
}

#[test]
fn chunks_are_blake3s() {
    check_chunks(&chunks(), false).unwrap();
}

/// The values that `parents` should leave of its input.
fn merged(case: &ParentParams, values: &[u8]) -> Vec<u8> {
    let mut values: Vec<[u8; VALUE_BYTES]> =
        values.chunks_exact(VALUE_BYTES).map(|value| value.try_into().unwrap()).collect();
    for level in 1..=case.levels {
        let merge = |pair: &[[u8; VALUE_BYTES]]| {
            if case.root && level == case.levels {
                *merge_subtrees_root(&pair[0], &pair[1], Mode::Hash).as_bytes()
            } else {
                merge_subtrees_non_root(&pair[0], &pair[1], Mode::Hash)
            }
        };
        values = values.chunks_exact(2).map(merge).collect();
    }
    values.concat()
}

fn check_parents_case(kernel: &Kernel<'_>, case: &ParentParams) -> Checked {
    let end = case.in_at.max(case.out_at) as usize + case.values as usize + 3;
    let mut found = noise(u64::from(case.values), end * VALUE_BYTES);
    let mut expected = found.clone();
    let left = merged(case, &found[case.in_at as usize * VALUE_BYTES..][..case.values as usize * VALUE_BYTES]);
    expected[case.out_at as usize * VALUE_BYTES..][..left.len()].copy_from_slice(&left);
    kernel.run(case.words(), &mut [&mut found], case.values.div_ceil(2 * GROUP))?;
    same(&format!("{case:?}"), &found, &expected)
}

pub(super) fn check_parents(shader: &Shader, checked: bool) -> Checked {
    let kernel = gpu().compile(shader, 1, checked)?;
    for values in [2_u32, 4, 32, 64, 128, 256, 512] {
        for levels in 1..=values.min(2 * GROUP).ilog2() {
            let case = ParentParams { in_at: levels, values, levels, root: false, out_at: levels + values + 2 };
            check_parents_case(&kernel, &case)?;
            check_parents_case(&kernel, &ParentParams { in_at: case.out_at, out_at: case.in_at, ..case })?;
            if values == 1 << levels {
                check_parents_case(&kernel, &ParentParams { root: true, ..case })?;
            }
        }
    }
    Ok(())
}

#[test]
fn parents_are_blake3s() {
    check_parents(&parents(), false).unwrap();
}

/// A string of 8192 chunks, as the backend hashes one: chunks by six levels, then seven, then the root.
#[test]
fn levels_fit_together_to_a_digest() {
    let (chunks_log2, gpu) = (13, gpu());
    let mut data = noise(1, CHUNK_BYTES << chunks_log2);
    let mut values = vec![POISON; 256 * VALUE_BYTES];
    let leaves = ChunkParams { at: 0, counter: 0, chunks: 1 << chunks_log2, levels: 6, root: false, out_at: 0 };
    let kernel = gpu.compile(&chunks(), 2, false).unwrap();
    kernel.run(leaves.words(), &mut [&mut data, &mut values], (1 << chunks_log2) / GROUP).unwrap();
    let top = ParentParams { in_at: 0, values: 128, levels: 7, root: true, out_at: 128 };
    gpu.compile(&parents(), 1, false).unwrap().run(top.words(), &mut [&mut values], 1).unwrap();
    assert_eq!(values[128 * VALUE_BYTES..][..VALUE_BYTES], *blake3::hash(&data).as_bytes());
}
