// A byte of FP8 as a signed integer: (8 + its low three bits) shifted by the next two, negative where the highest is set.
// The first lowest.

fn integers(word: u32) -> vec4<i32> {
    let b = bytes_of(word);
    let magnitudes = bitcast<vec4<i32>>((vec4(8u) + (b & vec4(7u))) << ((b >> vec4(3u)) & vec4(3u)));
    return select(magnitudes, -magnitudes, (b & vec4(0x80u)) != vec4(0u));
}
