// The probe with four lanes for each walk, 16 bytes of its state and of its line each: together they read a line whole.
//
// grid       ceil(4 * walks / PROBE_THREADS) workgroups of PROBE_THREADS
// workgroup  no memory
// bounds     subgroups are full and of four lanes or more. A walk is told by a lane's place in its subgroup, not by the
//            invocation's index, whose order in subgroups no API promises
//
// Lanes of walks beyond the last take part in all quad operations, with zeros, and touch no memory.

fn place_named(s: vec4<u32>, lane: u32) -> Place {
    var turned = turned_left(turned_xor(s), 8u * lane);
    turned ^= quadSwapX(turned);
    turned ^= quadSwapY(turned);
    var sum = total(s);
    sum += quadSwapX(sum);
    sum += quadSwapY(sum);
    return place_of(turned, sum);
}

// The same word of the next lane, of the first one for the last.
fn of_next_lane(word: u32, lane: u32) -> u32 {
    let in_pair = quadSwapX(word);
    let across = quadSwapDiagonal(word);
    return select(across, in_pair, (lane & 1u) == 0u);
}

@compute @workgroup_size(PROBE_THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(subgroup_id) subgroup: u32,
    @builtin(subgroup_size) width: u32,
    @builtin(subgroup_invocation_id) in_subgroup: u32,
) {
    let lane = in_subgroup & 3u;
    let in_group = subgroup * width + in_subgroup;
    let walk = (group.x * PROBE_THREADS + in_group) / 4u;
    // The first: a subgroup that is not full must not reach the walks of the next workgroup.
    let live = in_group < PROBE_THREADS && walk < params.walks;
    let i = 4u * walk + lane;

    var s = vec4<u32>();
    if live {
        s = states[i];
    }
    var kept = live;
    let steps = select(params.steps, 1u, GROUPED);
    for (var made = 0u; made < steps; made++) {
        let place = place_named(s, lane);
        kept = live && place.buffer < BUFFERS;
        var w = vec4<u32>();
        if kept {
            w = line_at(place, lane);
        }
        let t = stirred(s, w);
        s = stepped(t, of_next_lane(t.x, lane));
    }
    if kept {
        keep(i, s);
    }
}
