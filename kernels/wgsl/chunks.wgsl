// The leaves of BLAKE3 trees: hashes chunks of 1024 bytes from chunk `at` of `data` on, whose counter in the
// whole string starts at `counter`, and merges them `levels` levels up (WORK.md, A pass and Openings).
//
// shapes     data: vec4<u32>[], 64 for each chunk; out: vec4<u32>[], two for each chaining value; value number
//            out_at + w * (64 >> levels) + i is subtree i of workgroup w
// grid       ceil(chunks / TREE_THREADS) workgroups of TREE_THREADS, one chunk each
// workgroup  2 KiB of chaining values (tree.wgsl)
// bounds     chunks a power of two, 2^levels <= min(chunks, TREE_THREADS); counter + chunks <= 2^32, so that counters fit
//            in one word; with `root`, chunks = 2^levels and levels > 0: the last merge is the string's
// exact      32-bit words, additions mod 2^32, rotations and XOR only

struct Params {
    at: u32,
    counter: u32,
    chunks: u32,
    levels: u32,
    root: u32,
    out_at: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read_write> data: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read_write> out: array<vec4<u32>>;

const BLOCKS = CHUNK_BYTES / BLOCK_BYTES;

fn hashed_chunk(chunk: u32) -> Value {
    let begin = (params.at + chunk) * (CHUNK_BYTES / 16u);
    var value = BLAKE3_START;
    for (var block = 0u; block < BLOCKS; block++) {
        let i = begin + 4u * block;
        let words = message(data[i], data[i + 1u], data[i + 2u], data[i + 3u]);
        let flags = select(0u, CHUNK_START, block == 0u) | select(0u, CHUNK_END, block == BLOCKS - 1u);
        value = compressed(value, words, params.counter + chunk, flags);
    }
    return value;
}

@compute @workgroup_size(TREE_THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let first = group.x * TREE_THREADS;
    if first + thread < params.chunks {
        put(thread, hashed_chunk(first + thread));
    }
    // Chunks are a power of two: either every workgroup is full, or there is one.
    let width = min(params.chunks, TREE_THREADS);
    merge_levels(thread, width, params.levels, params.root * ROOT);
    if first < params.chunks {
        let left = width >> params.levels;
        write_values(thread, left, params.out_at + group.x * left);
    }
}
