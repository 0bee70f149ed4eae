// Operands as signed bytes, the first lowest; one for each byte of the slot.

const OUT_VECTORS = 1u;

fn packed(integers: vec4<i32>) -> u32 {
    let placed = (bitcast<vec4<u32>>(integers) & vec4(0xffu)) << vec4(0u, 8u, 16u, 24u);
    return placed.x | placed.y | placed.z | placed.w;
}

fn write_expanded(i: u32, v: vec4<u32>) {
    operands[i] = vec4(
        packed(integers(v.x)),
        packed(integers(v.y)),
        packed(integers(v.z)),
        packed(integers(v.w)),
    );
}
