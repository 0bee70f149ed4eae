// Sums of 4 x 4 products of 16-bit integers, two in a word, in FP32: exact on a device that has passed the self-test of
// WORK.md's appendix, which runs this code with RAW.
//
// exact   every product of operands of F16 is at most 36864; a sum of the operands of slots stays below 2^24 for 8192
//         terms. With DRAINS longer sums are added to integers after each CHUNK_WORDS words; without, there is one chunk
// floats  of sums alone, never of what is hashed

// Two packed words of the inner dimension, one of each of four rows.
struct Operand {
    low: vec4<f32>,
    high: vec4<f32>,
}

fn operand(words: vec4<u32>) -> Operand {
    let signed = bitcast<vec4<i32>>(words);
    return Operand(vec4<f32>(extractBits(signed, 0u, 16u)), vec4<f32>(signed >> vec4(16u)));
}

// Sums of four rows by four columns: of this chunk, and of those before.
struct Sums {
    r0: vec4<f32>,
    r1: vec4<f32>,
    r2: vec4<f32>,
    r3: vec4<f32>,
    before0: vec4<i32>,
    before1: vec4<i32>,
    before2: vec4<i32>,
    before3: vec4<i32>,
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

// The sums of this chunk, added to those before.
fn settled(sums: Sums) -> Sums {
    let whole = integers(sums);
    let none = vec4<f32>();
    return Sums(none, none, none, none, whole.r0, whole.r1, whole.r2, whole.r3);
}

struct Whole {
    r0: vec4<i32>,
    r1: vec4<i32>,
    r2: vec4<i32>,
    r3: vec4<i32>,
}

fn integers(sums: Sums) -> Whole {
    return Whole(
        sums.before0 + vec4<i32>(sums.r0),
        sums.before1 + vec4<i32>(sums.r1),
        sums.before2 + vec4<i32>(sums.r2),
        sums.before3 + vec4<i32>(sums.r3),
    );
}
