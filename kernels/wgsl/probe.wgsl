// Shared by both probes: the line that a state names, its place, and the state after the line (WORK.md,
// Residency probe and Linked probe). probe_walks.wgsl has a thread for each walk, probe_quads.wgsl four lanes.
//
// shapes  states (and next): vec4<u32>[], four for each walk; slots0 …: vec4<u32>[], four for each line
// slots   lie in pieces of 2^piece_lines_log2 lines, which divide a slot of 2^lines_log2; pieces in BUFFERS buffers,
//         pieces_per_buffer in each but the last
// walks   are over `total` slots, of which these here are first_slot and after: all of them, from 0 on, but in a linked
//         probe, where each walk makes one step and its state names a slot that is here
// bounds  total up to 2^20; lines_log2 from 10 to 24, piece_lines_log2 at most that; the last buffer holds the rest of
//         the slots' pieces
// exact   32-bit words mod 2^32 and the upper halves of 64-bit products; XOR and addition are associative, so that
//         the lanes' order does not show
//
// Two constants tell the host's two ways apart. GROUPED = false: all buffers are bound, and a dispatch makes `steps` steps
// of every walk. GROUPED = true: buffers first_buffer … first_buffer + BUFFERS - 1 are bound, and a dispatch makes one step of
// those walks whose line lies in them, from `states` to `next`; it writes no other walk.

struct Params {
    total: u32,
    first_slot: u32,
    lines_log2: u32,
    piece_lines_log2: u32,
    pieces_per_buffer: u32,
    walks: u32,
    steps: u32,
    first_buffer: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read_write> states: array<vec4<u32>>;

// Where a line lies: in which of the bound buffers, from which vector on.
struct Place {
    buffer: u32,
    at: u32,
}

fn turned_left(x: u32, by: u32) -> u32 {
    return (x << by) | (x >> ((32u - by) & 31u));
}

// (x * y) >> 32, in halves of 16 bits.
fn high_product(x: u32, y: u32) -> u32 {
    let xl = x & 0xffffu;
    let xh = x >> 16u;
    let yl = y & 0xffffu;
    let yh = y >> 16u;
    let low = xl * yl;
    let one = xh * yl;
    let other = xl * yh;
    let middle = (low >> 16u) + (one & 0xffffu) + (other & 0xffffu);
    return xh * yh + (one >> 16u) + (other >> 16u) + (middle >> 16u);
}

// XOR over four neighbouring words of rotl(s[i], 2 i).
fn turned_xor(s: vec4<u32>) -> u32 {
    return s.x ^ turned_left(s.y, 2u) ^ turned_left(s.z, 4u) ^ turned_left(s.w, 6u);
}

fn total(s: vec4<u32>) -> u32 {
    return s.x + s.y + s.z + s.w;
}

// The line that A (`turned`) and B (`sum`) of a state name.
fn place_of(turned: u32, sum: u32) -> Place {
    let slot = high_product(turned, params.total) - params.first_slot;
    let line = sum >> (32u - params.lines_log2);
    let piece = (slot << (params.lines_log2 - params.piece_lines_log2)) + (line >> params.piece_lines_log2);
    let line_in_piece = line & ((1u << params.piece_lines_log2) - 1u);
    let buffer = buffer_of(piece);
    let piece_in_buffer = piece - buffer * params.pieces_per_buffer;
    let line_in_buffer = (piece_in_buffer << params.piece_lines_log2) + line_in_piece;
    return Place(bound_of(buffer), 4u * line_in_buffer);
}

// t of four words of the state and of the line.
fn stirred(s: vec4<u32>, w: vec4<u32>) -> vec4<u32> {
    let t = (s ^ w) * PROBE_FIRST_FACTOR;
    return t ^ (t >> vec4(PROBE_SHIFT));
}

// The four words of the state that follow from their t, and from the t of the word after them.
fn stepped(t: vec4<u32>, after: u32) -> vec4<u32> {
    let neighbours = vec4(t.yzw, after);
    return t * PROBE_SECOND_FACTOR + ((neighbours << vec4(PROBE_TURN)) | (neighbours >> vec4(32u - PROBE_TURN)));
}
