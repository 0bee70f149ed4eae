// The sums of a thread of product.wgsl with PER_THREAD = 8: 8 x 8 sums. Its rows are 4 y … 4 y + 3 and those SIDE / 2
// further on, its columns likewise from 4 x: neighbours read neighbouring vectors and write neighbouring words.

struct Held {
    upper_left: Sums,
    upper_right: Sums,
    lower_left: Sums,
    lower_right: Sums,
}

const HALF = SIDE / 2u;

fn multiplied(start: Held, x: u32, y: u32) -> Held {
    var held = start;
    for (var word = 0u; word < STEP_WORDS * QUADS; word += QUADS) {
        let upper = operand(left[word + y]);
        let lower = operand(left[word + HALF / 4u + y]);
        let near = operand(right[word + x]);
        let far = operand(right[word + HALF / 4u + x]);
        held.upper_left = added(held.upper_left, upper, near);
        held.upper_right = added(held.upper_right, upper, far);
        held.lower_left = added(held.lower_left, lower, near);
        held.lower_right = added(held.lower_right, lower, far);
    }
    return held;
}

fn drained(held: Held) -> Held {
    return Held(
        settled(held.upper_left),
        settled(held.upper_right),
        settled(held.lower_left),
        settled(held.lower_right),
    );
}

fn write_held(held: Held, row: u32, column: u32) {
    write(held.upper_left, row, column);
    write(held.upper_right, row, column + HALF);
    write(held.lower_left, row + HALF, column);
    write(held.lower_right, row + HALF, column + HALF);
}
