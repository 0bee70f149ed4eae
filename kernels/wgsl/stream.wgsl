// The device's own limit on reading memory in order: the limit that the probe's bandwidth is compared with.
//
// shapes     data: vec4<u32>[]; results: u32[], one for each thread, so that nothing may be left out
// grid       any number of workgroups of STREAM_THREADS; `threads` is how many invocations that makes
// workgroup  no memory
// bounds     reads the first `vectors` vectors of data, writes `threads` words. vectors + 4 * threads < 2^32
// exact      XOR only: the result is that of all words read, in any order

struct Params {
    vectors: u32,
    threads: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read_write> data: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read_write> results: array<u32>;

@compute @workgroup_size(STREAM_THREADS)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let stride = params.threads;
    var all = vec4<u32>();
    var i = id.x;
    // Four at a time, so that four loads are under way.
    for (; i + 3u * stride < params.vectors; i += 4u * stride) {
        all ^= data[i] ^ data[i + stride] ^ data[i + 2u * stride] ^ data[i + 3u * stride];
    }
    for (; i < params.vectors; i += stride) {
        all ^= data[i];
    }
    if id.x < stride {
        results[id.x] = all.x ^ all.y ^ all.z ^ all.w;
    }
}
