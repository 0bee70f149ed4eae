// The rule of NETWORK's attention: rows of x are the softmax of rows of the slot, by the table E.
//
// workgroup  one row; 1032 bytes: the table, which becomes that of the row's operands, its largest byte, its sum
// exact      E and sums in 32 bits: 127 * 32 * 32768 is below 2^27. Maxima and sums of integers have no order

var<workgroup> weights: array<u32, 256>;
var<workgroup> largest: atomic<i32>;
var<workgroup> sum: atomic<u32>;

fn largest_of(v: vec4<u32>) -> i32 {
    let all = max(max(integers(v.x), integers(v.y)), max(integers(v.z), integers(v.w)));
    return max(max(all.x, all.y), max(all.z, all.w));
}

// What the table has for four bytes, by how far they are below the largest.
fn looked_up(word: u32, top: i32) -> vec4<u32> {
    let below = bitcast<vec4<u32>>(vec4(top) - integers(word));
    return vec4(weights[below.x], weights[below.y], weights[below.z], weights[below.w]);
}

fn operands_of(word: u32, top: i32) -> u32 {
    return packed(bitcast<vec4<i32>>(looked_up(word, top)));
}

@compute @workgroup_size(EXPAND_THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let first = (params.first_group + group.x) * row_vectors();
    let source = in_matrix(first);
    for (var d = thread; d < 256u; d += EXPAND_THREADS) {
        weights[d] = (WEIGHTS[d / 4u] >> (8u * (d % 4u))) & 0xffu;
    }
    if thread == 0u {
        atomicStore(&largest, -128);
        atomicStore(&sum, 0u);
    }
    workgroupBarrier();

    var most = -128;
    for (var i = thread; i < row_vectors(); i += EXPAND_THREADS) {
        most = max(most, largest_of(own_vector(source + i)));
    }
    atomicMax(&largest, most);
    workgroupBarrier();

    let top = atomicLoad(&largest);
    var sums = vec4<u32>();
    for (var i = thread; i < row_vectors(); i += EXPAND_THREADS) {
        let v = own_vector(source + i);
        sums += looked_up(v.x, top) + looked_up(v.y, top) + looked_up(v.z, top) + looked_up(v.w, top);
    }
    atomicAdd(&sum, sums.x + sums.y + sums.z + sums.w);
    workgroupBarrier();

    for (var d = thread; d < 256u; d += EXPAND_THREADS) {
        weights[d] = min(weights[d] * 32u * params.n / atomicLoad(&sum), 127u);
    }
    workgroupBarrier();

    for (var i = thread; i < row_vectors(); i += EXPAND_THREADS) {
        let v = own_vector(source + i);
        operands[first + i] =
            vec4(operands_of(v.x, top), operands_of(v.y, top), operands_of(v.z, top), operands_of(v.w, top));
    }
}
