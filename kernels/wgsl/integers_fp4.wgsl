// A byte of FP4 as two signed integers, that of its low half first: 0, 1, 2, 3, 4, 6, 8, 12, negative where the half's
// highest bit is set.

// Four halves: one bit below a leading one, which codes 0 and 1 do not have, shifted from code 4 on.
fn four(codes: vec4<u32>) -> vec4<i32> {
    let low = codes & vec4(7u);
    let exponents = max(low >> vec4(1u), vec4(1u)) - vec4(1u);
    let leading = select(vec4(0u), vec4(2u), low > vec4(1u));
    let magnitudes = bitcast<vec4<i32>>((leading | (low & vec4(1u))) << exponents);
    return select(magnitudes, -magnitudes, (codes & vec4(8u)) != vec4(0u));
}

fn lower_integers(word: u32) -> vec4<i32> {
    let b = bytes_of(word);
    return four(vec4(b.x & 0xfu, b.x >> 4u, b.y & 0xfu, b.y >> 4u));
}

fn upper_integers(word: u32) -> vec4<i32> {
    let b = bytes_of(word);
    return four(vec4(b.z & 0xfu, b.z >> 4u, b.w & 0xfu, b.w >> 4u));
}
