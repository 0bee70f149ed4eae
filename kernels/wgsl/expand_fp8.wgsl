// A byte of FP8 as a signed byte: (8 + its low three bits) shifted by the next two, negative where the highest is set.

const OUT_VECTORS = 1u;

fn expanded(word: u32) -> u32 {
    let b = bytes_of(word);
    let magnitudes = (vec4(8u) + (b & vec4(7u))) << ((b >> vec4(3u)) & vec4(3u));
    return packed(magnitudes, b & vec4(0x80u));
}

fn write_expanded(i: u32, v: vec4<u32>) {
    operands[i] = vec4(expanded(v.x), expanded(v.y), expanded(v.z), expanded(v.w));
}
