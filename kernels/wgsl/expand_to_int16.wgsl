// Operands as signed integers of 16 bits, the first lowest; one for each byte of the slot.

const OUT_VECTORS = 2u;

fn packed(integers: vec4<i32>) -> vec2<u32> {
    let low = bitcast<vec4<u32>>(integers) & vec4(0xffffu);
    return vec2(low.x | (low.y << 16u), low.z | (low.w << 16u));
}

fn write_expanded(i: u32, v: vec4<u32>) {
    operands[2u * i] = vec4(packed(integers(v.x)), packed(integers(v.y)));
    operands[2u * i + 1u] = vec4(packed(integers(v.z)), packed(integers(v.w)));
}
