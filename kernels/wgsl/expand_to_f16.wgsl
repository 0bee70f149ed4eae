// Operands as half floats, the first lowest; one for each byte of the slot.

fn packed(integers: vec4<i32>) -> vec2<u32> {
    let floats = vec4<f32>(integers);
    return vec2(pack2x16float(floats.xy), pack2x16float(floats.zw));
}
