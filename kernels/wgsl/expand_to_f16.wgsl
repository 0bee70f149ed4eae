// Operands as half floats, the first lowest; one for each byte of the slot.

const OUT_VECTORS = 2u;

fn packed(integers: vec4<i32>) -> vec2<u32> {
    let floats = vec4<f32>(integers);
    return vec2(pack2x16float(floats.xy), pack2x16float(floats.zw));
}

fn write_expanded(i: u32, v: vec4<u32>) {
    operands[2u * i] = vec4(packed(integers(v.x)), packed(integers(v.y)));
    operands[2u * i + 1u] = vec4(packed(integers(v.z)), packed(integers(v.w)));
}
