// Sums of 4 x 4 products in integers of 32 bits.

// Sums of four rows by four columns.
struct Sums {
    r0: vec4<i32>,
    r1: vec4<i32>,
    r2: vec4<i32>,
    r3: vec4<i32>,
}

// Integers need no drain.
fn settled(sums: Sums) -> Sums {
    return sums;
}

fn integers(sums: Sums) -> Sums {
    return sums;
}
