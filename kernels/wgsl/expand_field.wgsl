// The rule of FIELD: v = (v^2 + k) mod Q, 64 times, for each group of 32 bytes of y.
//
// workgroup  EXPAND_THREADS groups, one for each invocation; no memory
// exact      Montgomery's arithmetic with R = 2^260 on 20 limbs of 13 bits. A sum in a row is at most 40 products of
//            limbs, a limb of `start` and a carry below 2^19: less than 2^32, so that carries wait for the end
//
// For x = v R, x * x / R is v^2 R. With x and `start` below 2 Q, (x * x + start) / R + Q is too, since 4 Q + 2 < R.

const LIMB_BITS = 13u;
const LIMB_MASK = 0x1fffu;
const STEPS = 64u;
const GROUP_BYTES = 32u;

// 20 limbs, the lowest first.
struct Number {
    a: vec4<u32>,
    b: vec4<u32>,
    c: vec4<u32>,
    d: vec4<u32>,
    e: vec4<u32>,
}

// The order of the field: 1 mod 2^13, so that -1 / Q is -1 there.
const Q = Number(
    vec4(0x0001u, 0x0000u, 0x04fcu, 0x03ebu),
    vec4(0x143eu, 0x1848u, 0x06e5u, 0x090fu),
    vec4(0x13e8u, 0x0941u, 0x1617u, 0x0302u),
    vec4(0x1b68u, 0x0822u, 0x06e1u, 0x1405u),
    vec4(0x0131u, 0x1397u, 0x1913u, 0x0060u),
);
// R^2 mod Q, which brings a number into Montgomery's form.
const R2 = Number(
    vec4(0x06f5u, 0x0b6du, 0x14b4u, 0x0170u),
    vec4(0x1ce3u, 0x066eu, 0x0588u, 0x18c4u),
    vec4(0x1fb6u, 0x1a1fu, 0x0e54u, 0x15e3u),
    vec4(0x07c2u, 0x081fu, 0x0578u, 0x1878u),
    vec4(0x0122u, 0x147du, 0x0054u, 0x0005u),
);
// R^3 mod Q, which makes of k what is added to a square before its reduction: k R^2.
const R3 = Number(
    vec4(0x1bb7u, 0x001fu, 0x1720u, 0x1188u),
    vec4(0x16a4u, 0x13b6u, 0x1f20u, 0x07c3u),
    vec4(0x1d83u, 0x1a1au, 0x0adcu, 0x1376u),
    vec4(0x1090u, 0x15c7u, 0x13f1u, 0x0eb9u),
    vec4(0x08b0u, 0x0daeu, 0x1023u, 0x004fu),
);

// (s + limb * y + m * Q) / 2^13, with the m that makes it whole. Sums of limbs, without carries.
fn row(s: Number, limb: u32, y: Number) -> Number {
    let lowest = s.a.x + limb * y.a.x;
    let m = (0u - lowest) & LIMB_MASK;
    let carry = (lowest + m) >> LIMB_BITS;
    let a = s.a + limb * y.a + m * Q.a;
    let b = s.b + limb * y.b + m * Q.b;
    let c = s.c + limb * y.c + m * Q.c;
    let d = s.d + limb * y.d + m * Q.d;
    let e = s.e + limb * y.e + m * Q.e;
    return Number(
        vec4(a.y + carry, a.z, a.w, b.x),
        vec4(b.yzw, c.x),
        vec4(c.yzw, d.x),
        vec4(d.yzw, e.x),
        vec4(e.yzw, 0u),
    );
}

fn four_rows(s: Number, limbs: vec4<u32>, y: Number) -> Number {
    return row(row(row(row(s, limbs.x, y), limbs.y, y), limbs.z, y), limbs.w, y);
}

// Four limbs of 13 bits of the sums and what comes from below; the last of `sums` keeps what is above it.
fn carried(sums: vec4<u32>, below: u32) -> vec4<u32> {
    let x = sums.x + (below >> LIMB_BITS);
    let y = sums.y + (x >> LIMB_BITS);
    let z = sums.z + (y >> LIMB_BITS);
    return vec4(x & LIMB_MASK, y & LIMB_MASK, z & LIMB_MASK, sums.w + (z >> LIMB_BITS));
}

// (start + x * y) / R mod Q: at most Q more than (start + x * y) / R.
fn multiplied(start: Number, x: Number, y: Number) -> Number {
    let low = four_rows(four_rows(start, x.a, y), x.b, y);
    let s = four_rows(four_rows(four_rows(low, x.c, y), x.d, y), x.e, y);
    let a = carried(s.a, 0u);
    let b = carried(s.b, a.w);
    let c = carried(s.c, b.w);
    let d = carried(s.d, c.w);
    let mask = vec4(LIMB_MASK);
    return Number(a & mask, b & mask, c & mask, d & mask, carried(s.e, d.w) & mask);
}

// 1 + j + c * 2^16 + u * 2^32, below 2^52.
fn addend(group: u32) -> Number {
    let groups = params.n / GROUP_BYTES;
    let low = 1u + group % groups + ((group / groups) << 16u);
    let limbs = vec4(low, low >> 13u, (low >> 26u) | (params.u << 6u), params.u >> 7u);
    return Number(limbs & vec4(LIMB_MASK), vec4(0u), vec4(0u), vec4(0u), vec4(0u));
}

// Limbs first .. first + 3 of a number of eight words and a 0.
fn limbs_from(words: ptr<function, array<u32, 9>>, first: u32) -> vec4<u32> {
    var limbs: vec4<u32>;
    for (var i = 0u; i < 4u; i++) {
        let at = (first + i) * LIMB_BITS;
        // In two shifts, since one by 32 is none.
        let above = ((*words)[at / 32u + 1u] << 1u) << (31u - at % 32u);
        limbs[i] = ((*words)[at / 32u] >> (at % 32u)) | above;
    }
    return limbs & vec4(LIMB_MASK);
}

fn put_limbs(words: ptr<function, array<u32, 9>>, first: u32, limbs: vec4<u32>) {
    for (var i = 0u; i < 4u; i++) {
        let at = (first + i) * LIMB_BITS;
        (*words)[at / 32u] |= limbs[i] << (at % 32u);
        (*words)[at / 32u + 1u] |= (limbs[i] >> 1u) >> (31u - at % 32u);
    }
}

fn stepped(group: u32, low: vec4<u32>, high: vec4<u32>) -> Number {
    var w = array<u32, 9>(low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w, 0u);
    let a = limbs_from(&w, 0u);
    let bytes = Number(a, limbs_from(&w, 4u), limbs_from(&w, 8u), limbs_from(&w, 12u), limbs_from(&w, 16u));
    let added = multiplied(Number(), addend(group), R3);
    var v = multiplied(Number(), bytes, R2);
    for (var i = 0u; i < STEPS; i++) {
        v = multiplied(added, v, v);
    }
    // x / R of an x below 2 Q is at most Q.
    v = multiplied(Number(), v, Number(vec4(1u, 0u, 0u, 0u), vec4(0u), vec4(0u), vec4(0u), vec4(0u)));
    if all(v.a == Q.a) && all(v.b == Q.b) && all(v.c == Q.c) && all(v.d == Q.d) && all(v.e == Q.e) {
        return Number();
    }
    return v;
}

@compute @workgroup_size(EXPAND_THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let i = 2u * ((params.first_group + group.x) * EXPAND_THREADS + thread);
    let at = in_matrix(i);
    let v = stepped(at / 2u, own_vector(at), own_vector(at + 1u));
    var w: array<u32, 9>;
    put_limbs(&w, 0u, v.a);
    put_limbs(&w, 4u, v.b);
    put_limbs(&w, 8u, v.c);
    put_limbs(&w, 12u, v.d);
    put_limbs(&w, 16u, v.e);
    operands[i] = vec4(w[0], w[1], w[2], w[3]);
    operands[i + 1u] = vec4(w[4], w[5], w[6], w[7]);
}
