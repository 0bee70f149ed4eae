// A byte of F16 as a signed integer: the byte and its half, rounded towards -∞. The first lowest.

fn integers(word: u32) -> vec4<i32> {
    let signed = (vec4(bitcast<i32>(word)) << vec4(24u, 16u, 8u, 0u)) >> vec4(24u);
    return signed + (signed >> vec4(1u));
}
