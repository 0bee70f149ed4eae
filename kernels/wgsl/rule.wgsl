// Operands by the rule of a kind of work (WORK.md, Rules), for expand_field, expand_convolution, expand_attention and
// expand_noise.wgsl. They are bytes, as products of INT8 read them from a slot.
//
// shapes     slot: vec4<u32>[], the piece of the slot whose first row is slot_row0, and next, the piece after it, with
//            the slot's first piece after its last; operands: vec4<u32>[], rows from row0 of the matrix on
// grid       workgroups of EXPAND_THREADS, which write equal parts of the operands: workgroup w writes part
//            first_group + w
// bounds     n a power of two from 256 to 32768; rows from row0 on lie in one piece of the slot, and the parts divide
//            them. slot_rows, the rows of a piece, are at least W / 4 of a convolution. Places in the whole slot are
//            below 2^26

struct Params {
    key_low: vec4<u32>,
    key_high: vec4<u32>,
    n: u32,
    u: u32,
    first_group: u32,
    row0: u32,
    slot_row0: u32,
    slot_rows: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read_write> slot: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read_write> operands: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read_write> next: array<vec4<u32>>;

// Vectors of a row.
fn row_vectors() -> u32 {
    return params.n / 16u;
}

// Vector v of the operands, as a vector of the matrix.
fn in_matrix(v: u32) -> u32 {
    return params.row0 * row_vectors() + v;
}

// A vector of the slot, from the piece that holds row0.
fn own_vector(in_slot: u32) -> vec4<u32> {
    return slot[in_slot - params.slot_row0 * row_vectors()];
}
