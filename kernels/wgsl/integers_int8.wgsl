// A byte of INT8 is itself, signed. The first lowest.

fn integers(word: u32) -> vec4<i32> {
    return (vec4(bitcast<i32>(word)) << vec4(24u, 16u, 8u, 0u)) >> vec4(24u);
}
