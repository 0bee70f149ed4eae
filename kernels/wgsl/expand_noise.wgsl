// The rule of NETWORK's noise: bytes of the slot, clipped, with discrete Gaussian noise from a keystream.
//
// workgroup  EXPAND_THREADS blocks of ChaCha, one for each invocation: 32 draws for 32 bytes of x; 256 bytes of memory
// exact      comparisons with the thresholds t, and sums of small integers; a block's number is below 2^25

// t, and from place 34 on what no draw reaches.
var<workgroup> thresholds: array<u32, 64>;

// The number of thresholds that are at most a draw of 15 bits.
fn magnitude(draw: u32) -> i32 {
    var reached = 0u;
    for (var step = 32u; step > 0u; step /= 2u) {
        reached += select(0u, step, thresholds[reached + step - 1u] <= draw);
    }
    return i32(reached);
}

// Four bytes of the slot with four draws, the first lowest.
fn noisy(word: u32, first: u32, second: u32) -> u32 {
    let draws = vec4(first & 0xffffu, first >> 16u, second & 0xffffu, second >> 16u);
    let kept = draws >> vec4(1u);
    let sizes = vec4(magnitude(kept.x), magnitude(kept.y), magnitude(kept.z), magnitude(kept.w));
    let noise = select(sizes, -sizes, (draws & vec4(1u)) == vec4(1u));
    return packed(clamp(integers(word), vec4(-64), vec4(63)) + noise);
}

@compute @workgroup_size(EXPAND_THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    for (var i = thread; i < 64u; i += EXPAND_THREADS) {
        thresholds[i] = THRESHOLDS[i];
    }
    workgroupBarrier();

    let i = 2u * ((params.first_group + group.x) * EXPAND_THREADS + thread);
    let at = in_matrix(i);
    let block = chacha8(params.key_low, params.key_high, at / 2u, vec2(0u));
    let v = own_vector(at);
    let w = own_vector(at + 1u);
    operands[i] = vec4(
        noisy(v.x, block.a.x, block.a.y),
        noisy(v.y, block.a.z, block.a.w),
        noisy(v.z, block.b.x, block.b.y),
        noisy(v.w, block.b.z, block.b.w),
    );
    operands[i + 1u] = vec4(
        noisy(w.x, block.c.x, block.c.y),
        noisy(w.y, block.c.z, block.c.w),
        noisy(w.z, block.d.x, block.d.y),
        noisy(w.w, block.d.z, block.d.w),
    );
}
