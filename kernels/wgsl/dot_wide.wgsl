// Sums of 4 x 4 products of 16-bit integers, two in a word, in plain integer code.
//
// exact  every product of operands of F16 is at most 36864, every sum of n of them at most 9 * 2^27

// Two packed words of the inner dimension, one of each of four rows, sign-extended.
struct Operand {
    low: vec4<i32>,
    high: vec4<i32>,
}

fn operand(words: vec4<u32>) -> Operand {
    let signed = bitcast<vec4<i32>>(words);
    return Operand(extractBits(signed, 0u, 16u), signed >> vec4(16u));
}

fn added(sums: Sums, rows: Operand, columns: Operand) -> Sums {
    return Sums(
        sums.r0 + rows.low.x * columns.low + rows.high.x * columns.high,
        sums.r1 + rows.low.y * columns.low + rows.high.y * columns.high,
        sums.r2 + rows.low.z * columns.low + rows.high.z * columns.high,
        sums.r3 + rows.low.w * columns.low + rows.high.w * columns.high,
    );
}
