// Operands of a byte, two for each byte of the slot.

const OUT_VECTORS = 2u;

fn both(word: u32) -> vec2<u32> {
    return vec2(packed(lower_integers(word)), packed(upper_integers(word)));
}

fn write_expanded(i: u32, v: vec4<u32>) {
    operands[2u * i] = vec4(both(v.x), both(v.y));
    operands[2u * i + 1u] = vec4(both(v.z), both(v.w));
}
