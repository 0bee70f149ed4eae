// Counts a submission, as the last thing that it does: the host compares the counter at the end, since not every API
// tells of submissions that were given up (Metal's failed command buffers count as done).
//
// shapes     completed: u32[], of which the first is used
// grid       one workgroup of one invocation
// workgroup  no memory
// bounds     one word
// exact      32-bit words mod 2^32. Each step is a bijection of the word, so that a step left out shows

struct Params {
    number: u32,
    first: u32,  // 1 where the counter starts at zero
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read_write> completed: array<u32>;

@compute @workgroup_size(1)
fn main() {
    let before = select(completed[0], 0u, params.first == 1u);
    completed[0] = ((before << 7u) | (before >> 25u)) * MIX_FIRST_FACTOR + params.number;
}
