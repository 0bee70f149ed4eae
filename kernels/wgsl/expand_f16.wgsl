// A byte of F16 as a signed integer of 16 bits: the byte and its half, rounded towards -∞. The first lowest.

const OUT_VECTORS = 2u;

fn expanded(word: u32) -> vec2<u32> {
    let signed = (vec4(bitcast<i32>(word)) << vec4(24u, 16u, 8u, 0u)) >> vec4(24u);
    let whole = bitcast<vec4<u32>>(signed + (signed >> vec4(1u))) & vec4(0xffffu);
    return vec2(whole.x | (whole.y << 16u), whole.z | (whole.w << 16u));
}

fn write_expanded(i: u32, v: vec4<u32>) {
    operands[2u * i] = vec4(expanded(v.x), expanded(v.y));
    operands[2u * i + 1u] = vec4(expanded(v.z), expanded(v.w));
}
