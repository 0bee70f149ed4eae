// The probe with one thread for each walk.
//
// grid       ceil(walks / PROBE_THREADS) workgroups of PROBE_THREADS
// workgroup  no memory

struct Line {
    w0: vec4<u32>,
    w1: vec4<u32>,
    w2: vec4<u32>,
    w3: vec4<u32>,
}

fn place_named(s: Line) -> Place {
    let turned = turned_xor(s.w0) ^ turned_left(turned_xor(s.w1), 8u) ^ turned_left(turned_xor(s.w2), 16u)
        ^ turned_left(turned_xor(s.w3), 24u);
    return place_of(turned, total(s.w0) + total(s.w1) + total(s.w2) + total(s.w3));
}

fn moved(s: Line, place: Place) -> Line {
    let w = line_at(place);
    let t0 = stirred(s.w0, w.w0);
    let t1 = stirred(s.w1, w.w1);
    let t2 = stirred(s.w2, w.w2);
    let t3 = stirred(s.w3, w.w3);
    return Line(stepped(t0, t1.x), stepped(t1, t2.x), stepped(t2, t3.x), stepped(t3, t0.x));
}

@compute @workgroup_size(PROBE_THREADS)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= params.walks {
        return;
    }
    let i = 4u * id.x;
    var s = Line(states[i], states[i + 1u], states[i + 2u], states[i + 3u]);
    if GROUPED {
        let place = place_named(s);
        if place.buffer >= BUFFERS {
            return;
        }
        s = moved(s, place);
    } else {
        for (var made = 0u; made < params.steps; made++) {
            s = moved(s, place_named(s));
        }
    }
    keep(i, s.w0);
    keep(i + 1u, s.w1);
    keep(i + 2u, s.w2);
    keep(i + 3u, s.w3);
}
