// Operands of a byte, one for each byte of the slot.

const OUT_VECTORS = 1u;

fn write_expanded(i: u32, v: vec4<u32>) {
    operands[i] = vec4(
        packed(integers(v.x)),
        packed(integers(v.y)),
        packed(integers(v.z)),
        packed(integers(v.w)),
    );
}
