// Levels of a BLAKE3 tree above its chunks: merges `values` chaining values from number `in_at` on `levels`
// levels up, and writes the remaining values from number `out_at` on (WORK.md, A pass and Openings).
//
// shapes     out: vec4<u32>[], two for each chaining value; both ranges lie in it
// grid       ceil(values / (2 * TREE_THREADS)) workgroups of TREE_THREADS, two values each
// workgroup  2 KiB of chaining values (tree.wgsl)
// bounds     values a power of two, levels from 1, 2^levels <= min(values, 2 * TREE_THREADS); the ranges are disjoint;
//            with `root`, values = 2^levels: the last merge is the string's
// exact      32-bit words, additions mod 2^32, rotations and XOR only

struct Params {
    in_at: u32,
    values: u32,
    levels: u32,
    root: u32,
    out_at: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read_write> out: array<vec4<u32>>;

@compute @workgroup_size(TREE_THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let last_flags = params.root * ROOT;
    let pair = group.x * TREE_THREADS + thread;
    // The first level needs nothing of other invocations.
    if 2u * pair < params.values {
        let begin = 2u * (params.in_at + 2u * pair);
        let flags = select(0u, last_flags, params.levels == 1u);
        put(thread, merged(Value(out[begin], out[begin + 1u]), Value(out[begin + 2u], out[begin + 3u]), flags));
    }
    let width = min(params.values / 2u, TREE_THREADS);
    merge_levels(thread, width, params.levels - 1u, last_flags);
    if 2u * group.x * TREE_THREADS < params.values {
        let left = width >> (params.levels - 1u);
        write_values(thread, left, params.out_at + group.x * left);
    }
}
