// The rule of NETWORK's convolutions: rows of x are windows of the slot as a tensor, after leaky ReLU and max pooling.
//
// workgroup  EXPAND_THREADS vectors of 16 channels of a pooled pixel, one for each invocation; no memory
// bounds     row r of x reads bytes of the W / 4 rows that r is one of and of the W / 4 rows after them: in its own
//            piece or the next one. That of the last piece is the first: windows wrap over the tensor
// exact      maxima and a shift of signed bytes

const FILTER = 4u;

// Vector v of the slot, from whichever piece has it; those after its last are its first again.
fn vector_of_slot(v: u32) -> vec4<u32> {
    let pitch = row_vectors();
    let inside = v - params.slot_row0 * pitch;
    if inside < params.slot_rows * pitch {
        return slot[inside];
    }
    return next[inside - params.slot_rows * pitch];
}

// Leaky ReLU keeps the order, so that the largest alone needs it.
fn pooled(a: u32, b: u32, c: u32, d: u32) -> u32 {
    let largest = max(max(integers(a), integers(b)), max(integers(c), integers(d)));
    return packed(select(largest >> vec4(3u), largest, largest >= vec4(0)));
}

@compute @workgroup_size(EXPAND_THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let i = (params.first_group + group.x) * EXPAND_THREADS + thread;
    let at = in_matrix(i);
    let exponent = firstTrailingBit(params.n) + 4u;
    let width = 1u << (exponent / 2u);
    let pixel_vectors = params.n / 256u;
    let row = at / row_vectors();
    let place = at % row_vectors() / pixel_vectors;
    let y = 2u * (row / (width / 4u)) + place / FILTER;
    let x = (2u * (row % (width / 4u)) + place % FILTER) % (width / 2u);
    let upper = (2u * y * width + 2u * x) * pixel_vectors + at % pixel_vectors;
    let lower = upper + width * pixel_vectors;
    let a = vector_of_slot(upper);
    let b = vector_of_slot(upper + pixel_vectors);
    let c = vector_of_slot(lower);
    let d = vector_of_slot(lower + pixel_vectors);
    operands[i] = vec4(
        pooled(a.x, b.x, c.x, d.x),
        pooled(a.y, b.y, c.y, d.y),
        pooled(a.z, b.z, c.z, d.z),
        pooled(a.w, b.w, c.w, d.w),
    );
}
