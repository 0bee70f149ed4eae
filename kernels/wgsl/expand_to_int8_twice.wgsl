// Operands as signed bytes, the first lowest; two for each byte of the slot.

const OUT_VECTORS = 2u;

fn packed(integers: vec4<i32>) -> u32 {
    let placed = (bitcast<vec4<u32>>(integers) & vec4(0xffu)) << vec4(0u, 8u, 16u, 24u);
    return placed.x | placed.y | placed.z | placed.w;
}

fn both(word: u32) -> vec2<u32> {
    return vec2(packed(lower_integers(word)), packed(upper_integers(word)));
}

fn write_expanded(i: u32, v: vec4<u32>) {
    operands[2u * i] = vec4(both(v.x), both(v.y));
    operands[2u * i + 1u] = vec4(both(v.z), both(v.w));
}
