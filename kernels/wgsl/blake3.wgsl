// BLAKE3's compression function, and the merge of two chaining values (the BLAKE3 paper, section 2).
//
// The state is four rows of four words: a mixing on rows does the four columns at once, and the diagonals are
// columns after rows 1 to 3 have been turned.

// A chaining value: 8 words.
struct Value {
    low: vec4<u32>,
    high: vec4<u32>,
}

// A block of 64 bytes as the rounds take it: words 0 2 4 6, 1 3 5 7, 8 10 12 14 and 9 11 13 15.
struct Message {
    columns_x: vec4<u32>,
    columns_y: vec4<u32>,
    diagonals_x: vec4<u32>,
    diagonals_y: vec4<u32>,
}

struct Rows {
    a: vec4<u32>,
    b: vec4<u32>,
    c: vec4<u32>,
    d: vec4<u32>,
}

const BLAKE3_START = Value(
    vec4<u32>(0x6a09e667u, 0xbb67ae85u, 0x3c6ef372u, 0xa54ff53au),
    vec4<u32>(0x510e527fu, 0x9b05688cu, 0x1f83d9abu, 0x5be0cd19u),
);
const BLOCK_BYTES = 64u;
const CHUNK_START = 1u;
const CHUNK_END = 2u;
const PARENT = 4u;
const ROOT = 8u;

// A block of 64 bytes as it lies in memory.
fn message(a: vec4<u32>, b: vec4<u32>, c: vec4<u32>, d: vec4<u32>) -> Message {
    return Message(vec4(a.xz, b.xz), vec4(a.yw, b.yw), vec4(c.xz, d.xz), vec4(c.yw, d.yw));
}

// The permutation between rounds: words 2 6 3 10 7 0 4 13 1 11 12 5 9 14 15 8.
fn permuted(m: Message) -> Message {
    return Message(
        vec4(m.columns_x.y, m.columns_y.y, m.columns_y.w, m.columns_x.z),
        vec4(m.columns_x.w, m.diagonals_x.y, m.columns_x.x, m.diagonals_y.z),
        vec4(m.columns_y.x, m.diagonals_x.z, m.diagonals_y.x, m.diagonals_y.w),
        vec4(m.diagonals_y.y, m.columns_y.z, m.diagonals_x.w, m.diagonals_x.x),
    );
}

fn turned_right(x: vec4<u32>, by: u32) -> vec4<u32> {
    return (x >> vec4(by)) | (x << vec4(32u - by));
}

fn mixings(start: Rows, x: vec4<u32>, y: vec4<u32>) -> Rows {
    var v = start;
    v.a += v.b + x; v.d = turned_right(v.d ^ v.a, 16u);
    v.c += v.d;     v.b = turned_right(v.b ^ v.c, 12u);
    v.a += v.b + y; v.d = turned_right(v.d ^ v.a, 8u);
    v.c += v.d;     v.b = turned_right(v.b ^ v.c, 7u);
    return v;
}

fn blake3_round(start: Rows, m: Message) -> Rows {
    let columns = mixings(start, m.columns_x, m.columns_y);
    let turned = Rows(columns.a, columns.b.yzwx, columns.c.zwxy, columns.d.wxyz);
    let v = mixings(turned, m.diagonals_x, m.diagonals_y);
    return Rows(v.a, v.b.wxyz, v.c.zwxy, v.d.yzwx);
}

// The chaining value after one full block. The counter's upper word is 0: a string here has at most 2^20 chunks.
fn compressed(value: Value, m0: Message, counter: u32, flags: u32) -> Value {
    // Written out: in a loop the permutation, which here renames words, would move them.
    let m1 = permuted(m0);
    let m2 = permuted(m1);
    let m3 = permuted(m2);
    let m4 = permuted(m3);
    let m5 = permuted(m4);
    let m6 = permuted(m5);
    var v = Rows(value.low, value.high, BLAKE3_START.low, vec4(counter, 0u, BLOCK_BYTES, flags));
    v = blake3_round(v, m0);
    v = blake3_round(v, m1);
    v = blake3_round(v, m2);
    v = blake3_round(v, m3);
    v = blake3_round(v, m4);
    v = blake3_round(v, m5);
    v = blake3_round(v, m6);
    return Value(v.a ^ v.c, v.b ^ v.d);
}

fn merged(left: Value, right: Value, flags: u32) -> Value {
    return compressed(BLAKE3_START, message(left.low, left.high, right.low, right.high), 0u, PARENT | flags);
}
