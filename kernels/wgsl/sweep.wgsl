// Sums of a sweep: the inner products of rows of slots with weights (WORK.md, Sweep). Where row_vectors is 0, zeros.
//
// shapes     slots: vec4<u32>[], rows of row_vectors vectors; weights: vec4<u32>[], row_vectors; sums: vec4<i32>[], one for
//            each four rows
// grid       rows / (SWEEP_THREADS / 4) workgroups of SWEEP_THREADS, 16 lanes for each four rows
// workgroup  1 KiB: the sums of lanes
// bounds     row_vectors a multiple of 16, up to 2048. Reads rows first_row ... of slots, writes vectors first_sum ... of sums
// exact      |sum| <= 2^29, of terms up to 2^14, so that their order does not show

struct Params {
    row_vectors: u32,
    first_row: u32,
    first_sum: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read_write> slots: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read_write> weights: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read_write> sums: array<vec4<i32>>;

const LANES = 16u;

var<workgroup> of_lanes: array<vec4<i32>, SWEEP_THREADS>;

@compute @workgroup_size(SWEEP_THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let lane = thread % LANES;
    let four = group.x * (SWEEP_THREADS / LANES) + thread / LANES;
    let pitch = params.row_vectors;
    let first = (params.first_row + 4u * four) * pitch;
    var sum = vec4<i32>();
    for (var k = lane; k < pitch; k += LANES) {
        let z = operand(weights[k]);
        let i = first + k;
        sum += vec4(
            inner(operand(slots[i]), z),
            inner(operand(slots[i + pitch]), z),
            inner(operand(slots[i + 2u * pitch]), z),
            inner(operand(slots[i + 3u * pitch]), z),
        );
    }
    of_lanes[thread] = sum;
    workgroupBarrier();
    if lane == 0u {
        for (var other = 1u; other < LANES; other++) {
            sum += of_lanes[thread + other];
        }
        sums[params.first_sum + four] = sum;
    }
}
