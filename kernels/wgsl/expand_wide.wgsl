// Operands of two bytes, one for each byte of the slot: `packed` has a word of the slot in two.

const OUT_VECTORS = 2u;

fn write_expanded(i: u32, v: vec4<u32>) {
    operands[2u * i] = vec4(packed(integers(v.x)), packed(integers(v.y)));
    operands[2u * i + 1u] = vec4(packed(integers(v.z)), packed(integers(v.w)));
}
