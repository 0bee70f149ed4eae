// Operands as signed integers of 16 bits, the first lowest; one for each byte of the slot.

fn packed(integers: vec4<i32>) -> vec2<u32> {
    let low = bitcast<vec4<u32>>(integers) & vec4(0xffffu);
    return vec2(low.x | (low.y << 16u), low.z | (low.w << 16u));
}
