// Levels of a BLAKE3 tree within a workgroup, for chunks.wgsl and parents.wgsl.
//
// workgroup  TREE_THREADS chaining values, 2 KiB

// Value i lies at 2 i (its first half) and 2 i + 1.
var<workgroup> values: array<vec4<u32>, 2u * TREE_THREADS>;

fn put(i: u32, value: Value) {
    values[2u * i] = value.low;
    values[2u * i + 1u] = value.high;
}

// Values 2 i and 2 i + 1, merged.
fn pair_merged(i: u32, flags: u32) -> Value {
    let left = Value(values[4u * i], values[4u * i + 1u]);
    let right = Value(values[4u * i + 2u], values[4u * i + 3u]);
    return merged(left, right, flags);
}

// Merges the first `width` values in place over `levels` levels; `last_flags` go with the last one. All
// invocations call it, with the same numbers; ends with a barrier, and begins with one for the values put before.
fn merge_levels(thread: u32, width: u32, levels: u32, last_flags: u32) {
    workgroupBarrier();
    for (var level = 1u; level <= levels; level++) {
        let mine = thread < (width >> level);
        var value = BLAKE3_START;
        if mine {
            value = pair_merged(thread, select(0u, last_flags, level == levels));
        }
        workgroupBarrier();
        if mine {
            put(thread, value);
        }
        workgroupBarrier();
    }
}

// Writes the first `left` values to `to` from value `at` on, in runs of 16 bytes for each invocation.
fn write_values(thread: u32, left: u32, at: u32) {
    for (var i = thread; i < 2u * left; i += TREE_THREADS) {
        out[2u * at + i] = values[i];
    }
}
