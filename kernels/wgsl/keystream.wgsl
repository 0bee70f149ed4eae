// Leaves, and the states that a probe round starts from: block `at + i` of `out`, 64 bytes, becomes block
// `counter + i` of KEYSTREAM(key, stream), i < blocks (WORK.md, Notation).
//
// shapes     out: vec4<u32>[], four for each block
// grid       ceil(blocks / KEYSTREAM_THREADS) workgroups of KEYSTREAM_THREADS, one ChaCha block each
// workgroup  no memory
// bounds     counter + blocks <= 2^32: the counter's upper word stays 0. Writes blocks at .. at + blocks - 1
// exact      32-bit words, additions mod 2^32, rotations and XOR only

struct Params {
    key_low: vec4<u32>,
    key_high: vec4<u32>,
    stream_low: u32,
    stream_high: u32,
    counter: u32,
    blocks: u32,
    at: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read_write> out: array<vec4<u32>>;

@compute @workgroup_size(KEYSTREAM_THREADS)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= params.blocks {
        return;
    }
    let stream = vec2(params.stream_low, params.stream_high);
    let block = chacha8(params.key_low, params.key_high, params.counter + id.x, stream);
    let to = (params.at + id.x) * 4u;
    out[to] = block.a;
    out[to + 1u] = block.b;
    out[to + 2u] = block.c;
    out[to + 3u] = block.d;
}
