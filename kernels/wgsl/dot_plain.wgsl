// Sums of 4 x 4 products of INT8 in plain integer code, for devices without a dot product of four.
//
// exact  as dot_packed.wgsl
//
// A word is taken apart once, and its bytes then meet all rows or columns that a thread holds.

// Four packed words of the inner dimension, one of each of four rows: byte by byte, sign-extended.
struct Operand {
    b0: vec4<i32>,
    b1: vec4<i32>,
    b2: vec4<i32>,
    b3: vec4<i32>,
}

fn operand(words: vec4<u32>) -> Operand {
    let signed = bitcast<vec4<i32>>(words);
    return Operand(
        extractBits(signed, 0u, 8u),
        extractBits(signed, 8u, 8u),
        extractBits(signed, 16u, 8u),
        signed >> vec4(24u),
    );
}

// The inner product of 16 bytes, of a row each.
fn inner(a: Operand, b: Operand) -> i32 {
    let products = a.b0 * b.b0 + a.b1 * b.b1 + a.b2 * b.b2 + a.b3 * b.b3;
    return products.x + products.y + products.z + products.w;
}

fn added(sums: Sums, rows: Operand, columns: Operand) -> Sums {
    return Sums(
        sums.r0 + rows.b0.x * columns.b0 + rows.b1.x * columns.b1 + rows.b2.x * columns.b2 + rows.b3.x * columns.b3,
        sums.r1 + rows.b0.y * columns.b0 + rows.b1.y * columns.b1 + rows.b2.y * columns.b2 + rows.b3.y * columns.b3,
        sums.r2 + rows.b0.z * columns.b0 + rows.b1.z * columns.b1 + rows.b2.z * columns.b2 + rows.b3.z * columns.b3,
        sums.r3 + rows.b0.w * columns.b0 + rows.b1.w * columns.b1 + rows.b2.w * columns.b2 + rows.b3.w * columns.b3,
    );
}
