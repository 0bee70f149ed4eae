// The device's own limit on sums of INT8 products, from registers alone: the limit that a product is compared with.
//
// shapes     results: u32[], one for each thread, so that nothing may be left out
// grid       any; workgroups of PEAK_THREADS
// workgroup  no memory
// bounds     writes PEAK_THREADS words for each workgroup
// exact      integer arithmetic mod 2^32, whose result is not read
//
// An iteration is PEAK_MACS_PER_ITERATION multiply-accumulates for each thread: 16 pairs of operands, 4 x 4 dot products
// of four each. The operands are the sums themselves, so that an iteration cannot be foreseen; 64 sums are held as
// in product_8x8.wgsl.

struct Params {
    iterations: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read_write> results: array<u32>;

struct Held {
    a: Sums,
    b: Sums,
    c: Sums,
    d: Sums,
}

fn operand_of(sums: vec4<i32>) -> Operand {
    return operand(bitcast<vec4<u32>>(sums));
}

fn iterated(start: Held) -> Held {
    var h = start;
    let r0 = operand_of(h.a.r0);
    let r1 = operand_of(h.b.r0);
    let r2 = operand_of(h.c.r0);
    let r3 = operand_of(h.d.r0);
    let c0 = operand_of(h.a.r1);
    let c1 = operand_of(h.b.r1);
    let c2 = operand_of(h.c.r1);
    let c3 = operand_of(h.d.r1);
    h.a = added(added(added(added(h.a, r0, c0), r1, c1), r2, c2), r3, c3);
    h.b = added(added(added(added(h.b, r0, c1), r1, c2), r2, c3), r3, c0);
    h.c = added(added(added(added(h.c, r0, c2), r1, c3), r2, c0), r3, c1);
    h.d = added(added(added(added(h.d, r0, c3), r1, c0), r2, c1), r3, c2);
    return h;
}

fn seeded(seed: i32) -> Sums {
    let s = vec4(seed) * vec4(3, 5, 7, 11);
    return Sums(s, s * 13, s * 17, s * 19);
}

fn folded(s: Sums) -> vec4<i32> {
    return s.r0 ^ s.r1 ^ s.r2 ^ s.r3;
}

@compute @workgroup_size(PEAK_THREADS)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let seed = i32(id.x) * 0x01010101 + 1;
    var held = Held(seeded(seed), seeded(seed + 1), seeded(seed + 2), seeded(seed + 3));
    for (var i = 0u; i < params.iterations; i++) {
        held = iterated(held);
    }
    let all = folded(held.a) ^ folded(held.b) ^ folded(held.c) ^ folded(held.d);
    results[id.x] = bitcast<u32>(all.x ^ all.y ^ all.z ^ all.w);
}
