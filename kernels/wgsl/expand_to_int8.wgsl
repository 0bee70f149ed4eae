// Operands as signed bytes, the first lowest.

fn packed(integers: vec4<i32>) -> u32 {
    let placed = (bitcast<vec4<u32>>(integers) & vec4(0xffu)) << vec4(0u, 8u, 16u, 24u);
    return placed.x | placed.y | placed.z | placed.w;
}
