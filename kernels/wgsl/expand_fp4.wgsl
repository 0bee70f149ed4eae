// A byte of FP4 as two signed bytes, that of its low half first: 0, 1, 2, 3, 4, 6, 8, 12, negative where the half's
// highest bit is set.

const OUT_VECTORS = 2u;

// Four halves: one bit below a leading one, which codes 0 and 1 do not have, shifted from code 4 on.
fn four(codes: vec4<u32>) -> u32 {
    let low = codes & vec4(7u);
    let exponents = max(low >> vec4(1u), vec4(1u)) - vec4(1u);
    let leading = select(vec4(0u), vec4(2u), low > vec4(1u));
    return packed((leading | (low & vec4(1u))) << exponents, codes & vec4(8u));
}

// Two bytes, the first lowest.
fn pair(b: vec2<u32>) -> u32 {
    return four(vec4(b.x & 0xfu, b.x >> 4u, b.y & 0xfu, b.y >> 4u));
}

fn expanded(word: u32) -> vec2<u32> {
    let b = bytes_of(word);
    return vec2(pair(b.xy), pair(b.zw));
}

fn write_expanded(i: u32, v: vec4<u32>) {
    operands[2u * i] = vec4(expanded(v.x), expanded(v.y));
    operands[2u * i + 1u] = vec4(expanded(v.z), expanded(v.w));
}
