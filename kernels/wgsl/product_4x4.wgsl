// The sums of a thread of product.wgsl with PER_THREAD = 4: 4 x 4 sums, rows 4 y … 4 y + 3 and columns 4 x … 4 x + 3.

alias Held = Sums;

fn multiplied(start: Held, x: u32, y: u32) -> Held {
    var held = start;
    for (var word = 0u; word < STEP_WORDS * QUADS; word += QUADS) {
        held = added(held, operand(left[word + y]), operand(right[word + x]));
    }
    return held;
}

fn drained(held: Held) -> Held {
    return settled(held);
}

fn write_held(held: Held, row: u32, column: u32) {
    write(held, row, column);
}
