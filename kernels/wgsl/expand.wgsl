// The operands of a slot's rows written out (WORK.md, Operands): what products read that do not read the slot itself.
// integers_*.wgsl has the integers of a word of four bytes, expand_to_*.wgsl the format in which they are
// written, and expand_bytes, expand_byte_pairs or expand_wide.wgsl where they go.
//
// shapes     slot: vec4<u32>[], rows of a slot one after another; operands: vec4<u32>[], OUT_VECTORS for each of those
// grid       any number of workgroups of EXPAND_THREADS: invocation i expands vector at + i, where i < vectors
// workgroup  no memory
// bounds     at + vectors is at most the vectors of `slot`, and OUT_VECTORS times that those of `operands`
// exact      integers of 8 or 16 bits hold every operand, and F16 every integer to 2048

struct Params {
    at: u32,
    vectors: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read_write> slot: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read_write> operands: array<vec4<u32>>;

fn bytes_of(word: u32) -> vec4<u32> {
    return (vec4(word) >> vec4(0u, 8u, 16u, 24u)) & vec4(0xffu);
}

@compute @workgroup_size(EXPAND_THREADS)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= params.vectors {
        return;
    }
    write_expanded(params.at + id.x, slot[params.at + id.x]);
}
