// Sums of 4 x 4 products of 16-bit integers, two in a word, in FP32: exact on a device that has passed the self-test of
// WORK.md's appendix, which runs this code with RAW.
//
// exact   every product of operands of F16 is at most 36864; a sum of the operands of slots stays below 2^24 for 8192
//         terms. With DRAINS longer sums are added to integers after each CHUNK_WORDS words; without, there is one chunk

// Two packed words of the inner dimension, one of each of four rows.
struct Operand {
    low: vec4<f32>,
    high: vec4<f32>,
}

fn operand(words: vec4<u32>) -> Operand {
    let signed = bitcast<vec4<i32>>(words);
    return Operand(vec4<f32>(extractBits(signed, 0u, 16u)), vec4<f32>(signed >> vec4(16u)));
}

fn added(sums: Sums, rows: Operand, columns: Operand) -> Sums {
    return Sums(
        sums.r0 + rows.low.x * columns.low + rows.high.x * columns.high,
        sums.r1 + rows.low.y * columns.low + rows.high.y * columns.high,
        sums.r2 + rows.low.z * columns.low + rows.high.z * columns.high,
        sums.r3 + rows.low.w * columns.low + rows.high.w * columns.high,
        sums.before0,
        sums.before1,
        sums.before2,
        sums.before3,
    );
}
