// Sums of 4 x 4 products in FP32, and in integers of 32 bits those of the chunks before.
//
// floats  of sums alone, never of hashed bytes

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
