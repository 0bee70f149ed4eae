// ChaCha with 8 rounds, as WORK.md's KEYSTREAM: words 12-13 the block counter, 14-15 the stream id.
//
// A block's 16 words are four rows of four: a quarter round on rows does the four columns at once, and the
// diagonals are columns after rows 1 to 3 have been turned.

struct ChaCha {
    a: vec4<u32>,
    b: vec4<u32>,
    c: vec4<u32>,
    d: vec4<u32>,
}

// "expand 32-byte k"
const CHACHA_START = vec4<u32>(0x61707865u, 0x3320646eu, 0x79622d32u, 0x6b206574u);

fn turned_left(x: vec4<u32>, by: u32) -> vec4<u32> {
    return (x << vec4(by)) | (x >> vec4(32u - by));
}

fn quarter_rounds(start: ChaCha) -> ChaCha {
    var s = start;
    s.a += s.b; s.d = turned_left(s.d ^ s.a, 16u);
    s.c += s.d; s.b = turned_left(s.b ^ s.c, 12u);
    s.a += s.b; s.d = turned_left(s.d ^ s.a, 8u);
    s.c += s.d; s.b = turned_left(s.b ^ s.c, 7u);
    return s;
}

fn two_rounds(start: ChaCha) -> ChaCha {
    let columns = quarter_rounds(start);
    let s = quarter_rounds(ChaCha(columns.a, columns.b.yzwx, columns.c.zwxy, columns.d.wxyz));
    return ChaCha(s.a, s.b.wxyz, s.c.zwxy, s.d.yzwx);
}

// Block `counter` (its upper word 0) of the keystream of key (low, high) and a stream id.
fn chacha8(low: vec4<u32>, high: vec4<u32>, counter: u32, stream: vec2<u32>) -> ChaCha {
    let start = ChaCha(CHACHA_START, low, high, vec4(counter, 0u, stream.x, stream.y));
    let s = two_rounds(two_rounds(two_rounds(two_rounds(start))));
    return ChaCha(s.a + start.a, s.b + start.b, s.c + start.c, s.d + start.d);
}
