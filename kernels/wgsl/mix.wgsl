// From exact sums to a slot's bytes: the mixing step (WORK.md, A pass).

// Four neighbouring elements of a row, the first lowest. `place` = r * n + c + u * SLOT_FACTOR of the first.
fn mixed(sums: vec4<i32>, place: u32) -> u32 {
    var x = bitcast<vec4<u32>>(sums) + vec4(place) + vec4(0u, 1u, 2u, 3u);
    x *= MIX_FIRST_FACTOR;
    x ^= x >> vec4(MIX_SHIFT);
    x *= MIX_SECOND_FACTOR;
    let kept = (x >> vec4(MIX_KEPT_SHIFT)) << vec4(0u, 8u, 16u, 24u);
    return kept.x | kept.y | kept.z | kept.w;
}
