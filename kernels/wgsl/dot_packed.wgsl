// Sums of 4 x 4 products of INT8, by the device's own dot product of four.
//
// exact  every product is at most 2^14, every sum of n of them at most 2^29

// Four packed words of the inner dimension, one of each of four rows.
alias Operand = vec4<u32>;

fn operand(words: vec4<u32>) -> Operand {
    return words;
}

// Sums of four rows by four columns.
struct Sums {
    r0: vec4<i32>,
    r1: vec4<i32>,
    r2: vec4<i32>,
    r3: vec4<i32>,
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
