// Sums of 4 x 4 products of INT8, by the device's own dot product of four.
//
// exact  every product of signed bytes is at most 2^14, every sum of 32768 of them at most 2^29; a sum of 65536 products
//        of FP4 is at most 9 * 2^20

// Four packed words of the inner dimension, one of each of four rows.
alias Operand = vec4<u32>;

fn operand(words: vec4<u32>) -> Operand {
    return words;
}

// The inner product of 16 bytes, of a row each.
fn inner(a: Operand, b: Operand) -> i32 {
    return dot4I8Packed(a.x, b.x) + dot4I8Packed(a.y, b.y) + dot4I8Packed(a.z, b.z) + dot4I8Packed(a.w, b.w);
}

fn dots(row: u32, columns: vec4<u32>) -> vec4<i32> {
    return vec4(
        dot4I8Packed(row, columns.x),
        dot4I8Packed(row, columns.y),
        dot4I8Packed(row, columns.z),
        dot4I8Packed(row, columns.w),
    );
}

fn added(sums: Sums, rows: Operand, columns: Operand) -> Sums {
    return Sums(
        sums.r0 + dots(rows.x, columns),
        sums.r1 + dots(rows.y, columns),
        sums.r2 + dots(rows.z, columns),
        sums.r3 + dots(rows.w, columns),
    );
}
