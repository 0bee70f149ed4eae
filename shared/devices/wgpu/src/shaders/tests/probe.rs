//! The probe in every shape: slots in one buffer or several, bound at once or in groups, with threads and with quads.

use super::*;
use assay_work::probe::{LINE_BYTES, WalkState, position, state_bytes, state_from_bytes, step};

/// Not a multiple of a workgroup's walks.
const WALKS: u32 = 100;
const STEPS: u32 = 9;

/// Slots, and their places in buffers.
struct Layout {
    count: u32,
    n: u32,
    piece_lines_log2: u32,
    pieces_per_buffer: u32,
    buffers: Vec<Vec<u8>>,
}

impl Layout {
    fn new(count: u32, n: u32, pieces_per_slot: u32, pieces_per_buffer: u32) -> Self {
        let slots = noise(u64::from(count), (count * n * n) as usize);
        let piece_lines = n * n / LINE_BYTES as u32 / pieces_per_slot;
        let buffer_bytes = (pieces_per_buffer * piece_lines) as usize * LINE_BYTES;
        let buffers = slots.chunks(buffer_bytes).map(<[u8]>::to_vec).collect();
        Self { count, n, piece_lines_log2: piece_lines.ilog2(), pieces_per_buffer, buffers }
    }

    fn slots(&self) -> Vec<Vec<u8>> {
        self.buffers.concat().chunks_exact((self.n * self.n) as usize).map(<[u8]>::to_vec).collect()
    }

    fn params(&self, steps: u32, first_buffer: u32) -> ProbeParams {
        let lines_log2 = 2 * self.n.ilog2() - LINE_BYTES.ilog2();
        let Self { count, piece_lines_log2, pieces_per_buffer, .. } = *self;
        let (total, first_slot, walks) = (count, 0, WALKS);
        ProbeParams { total, first_slot, lines_log2, piece_lines_log2, pieces_per_buffer, walks, steps, first_buffer }
    }
}

/// Layouts for a shape: all of their buffers are bound at once, or, grouped, more than a group has.
fn layouts(shape: ProbeShape) -> Vec<Layout> {
    let (count, n, pieces) = (5, 256, 4);
    let wanted = if shape.grouped { shape.buffers + shape.buffers.div_ceil(2) } else { shape.buffers };
    let few = Layout::new(count, n, pieces, (count * pieces).div_ceil(wanted));
    // Whole slots as pieces, and as many buffers as slots.
    let whole = Layout::new(wanted.max(3), 512, 1, if wanted == 1 { 3 } else { wanted.max(3).div_ceil(wanted) });
    vec![few, whole]
}

/// States that name the first and the last line of all, and lines anywhere; and one more, which no walk has.
fn start_states() -> Vec<u8> {
    let mut states = noise(77, (WALKS as usize + 1) * LINE_BYTES);
    states[..LINE_BYTES].fill(0);
    states[LINE_BYTES..2 * LINE_BYTES].fill(0);
    states[LINE_BYTES..LINE_BYTES + 4].fill(0xFF);
    states
}

fn walked(layout: &Layout, states: &[u8], steps: u32) -> Vec<u8> {
    let slots = layout.slots();
    let mut states = states.to_vec();
    for bytes in states.chunks_exact_mut(LINE_BYTES).take(WALKS as usize) {
        let mut state: WalkState = state_from_bytes((&*bytes).try_into().unwrap());
        for _ in 0..steps {
            let (slot, line) = position(&state, layout.count, layout.n);
            let at = line as usize * LINE_BYTES;
            step(&mut state, slots[slot as usize][at..][..LINE_BYTES].try_into().unwrap());
        }
        bytes.copy_from_slice(&state_bytes(&state));
    }
    states
}

fn workgroups(shape: ProbeShape) -> u32 {
    (WALKS * if shape.quads { QUAD_LANES } else { 1 }).div_ceil(PROBE_THREADS)
}

fn check_at_once(kernel: &Kernel<'_>, shape: ProbeShape, layout: &Layout) -> Checked {
    let (given, mut states) = (start_states(), start_states());
    let mut buffers = layout.buffers.clone();
    assert_eq!(buffers.len(), shape.buffers as usize, "what the layout is for");
    let mut data = vec![&mut states];
    data.extend(&mut buffers);
    kernel.run(layout.params(STEPS, 0).words(), &mut data, workgroups(shape))?;
    same(&format!("{shape:?}"), &states, &walked(layout, &given, STEPS))?;
    same("slots", &buffers.concat(), &layout.buffers.concat())
}

/// Step by step, each in one dispatch for each group of buffers, which moves the walks that it should and no other.
fn check_grouped(kernel: &Kernel<'_>, shape: ProbeShape, layout: &Layout) -> Checked {
    let mut states = start_states();
    assert!(layout.buffers.len() > shape.buffers as usize, "more buffers than are bound");
    for _ in 0..STEPS {
        let mut next = vec![POISON; states.len()];
        let mut expected = next.clone();
        let moved = walked(layout, &states, 1);
        for first in (0..layout.buffers.len()).step_by(shape.buffers as usize) {
            // A binding without a buffer left gets some other memory, which must not be read.
            let mut bound: Vec<Vec<u8>> =
                layout.buffers[first..].iter().take(shape.buffers as usize).cloned().collect();
            bound.resize(shape.buffers as usize, vec![POISON; LINE_BYTES]);
            expect_moved(layout, &states, &moved, first..first + shape.buffers as usize, &mut expected);
            let mut data = vec![&mut states, &mut next];
            data.extend(&mut bound);
            kernel.run(layout.params(1, first as u32).words(), &mut data, workgroups(shape))?;
            same(&format!("{shape:?} from buffer {first}"), &next, &expected)?;
        }
        let moved = &moved[..WALKS as usize * LINE_BYTES];
        same(&format!("{shape:?}"), &next[..moved.len()], moved)?;
        states[..moved.len()].copy_from_slice(moved);
    }
    Ok(())
}

/// Copies the walks whose line lies in these buffers.
fn expect_moved(layout: &Layout, states: &[u8], moved: &[u8], bound: std::ops::Range<usize>, expected: &mut [u8]) {
    let buffer_bytes = layout.buffers[0].len();
    for (i, state) in states.chunks_exact(LINE_BYTES).take(WALKS as usize).enumerate() {
        let (slot, line) = position(&state_from_bytes(state.try_into().unwrap()), layout.count, layout.n);
        let byte = slot as usize * (layout.n * layout.n) as usize + line as usize * LINE_BYTES;
        if bound.contains(&(byte / buffer_bytes)) {
            expected[i * LINE_BYTES..][..LINE_BYTES].copy_from_slice(&moved[i * LINE_BYTES..][..LINE_BYTES]);
        }
    }
}

/// One step over slots in the midst of others, of states that name them.
fn check_linked(kernel: &Kernel<'_>, shape: ProbeShape, layout: &Layout) -> Checked {
    let (total, first_slot) = (layout.count + 7, 3);
    let slots = layout.slots();
    let mut states = Vec::new();
    let mut expected = Vec::new();
    for state in noise(78, 40 * WALKS as usize * LINE_BYTES).chunks_exact(LINE_BYTES) {
        let mut words = state_from_bytes(state.try_into().unwrap());
        let (place, line) = position(&words, total, layout.n);
        let Some(slot) = place.checked_sub(first_slot).and_then(|slot| slots.get(slot as usize)) else { continue };
        step(&mut words, slot[line as usize * LINE_BYTES..][..LINE_BYTES].try_into().unwrap());
        states.extend_from_slice(state);
        expected.extend(state_bytes(&words));
        if expected.len() == WALKS as usize * LINE_BYTES {
            break;
        }
    }
    assert_eq!(expected.len(), WALKS as usize * LINE_BYTES, "enough of the states name slots here");
    let mut next = vec![POISON; states.len()];
    for first in (0..layout.buffers.len()).step_by(shape.buffers as usize) {
        let mut bound: Vec<Vec<u8>> = layout.buffers[first..].iter().take(shape.buffers as usize).cloned().collect();
        bound.resize(shape.buffers as usize, vec![POISON; LINE_BYTES]);
        let mut data = if shape.grouped { vec![&mut states, &mut next] } else { vec![&mut states] };
        data.extend(&mut bound);
        let params = ProbeParams { total, first_slot, ..layout.params(1, first as u32) };
        kernel.run(params.words(), &mut data, workgroups(shape))?;
    }
    same(&format!("{shape:?}, linked"), if shape.grouped { &next } else { &states }, &expected)
}

pub(super) fn check_probe(shape: ProbeShape, shader: &Shader, checked: bool) -> Checked {
    let bindings = 1 + u32::from(shape.grouped) + shape.buffers;
    let kernel = gpu().compile(shader, bindings, checked)?;
    for layout in layouts(shape) {
        if shape.grouped {
            check_grouped(&kernel, shape, &layout)?;
        } else {
            check_at_once(&kernel, shape, &layout)?;
        }
        check_linked(&kernel, shape, &layout)?;
    }
    Ok(())
}

fn check_all(grouped: bool, quads: bool) {
    for buffers in [1, 2, 7] {
        let shape = ProbeShape { buffers, grouped, quads };
        check_probe(shape, &probe(shape), false).unwrap();
    }
}

#[test]
fn walks_follow_the_slots() {
    check_all(false, false);
}

#[test]
fn walks_follow_the_slots_group_by_group() {
    check_all(true, false);
}

#[test]
fn quads_follow_the_slots() {
    check_all(false, true);
}

#[test]
fn quads_follow_the_slots_group_by_group() {
    check_all(true, true);
}

/// A kernel of the probe's own `high_product` alone: the first of each pair becomes the upper half of their product.
fn upper_half(probe: &Shader) -> Shader {
    let function = probe.source.split("fn high_product").nth(1).unwrap().split("\n}\n").next().unwrap();
    let source = format!(
        "fn high_product{function}
        }}
        @group(0) @binding(0) var<uniform> unused: vec4<u32>;
        @group(0) @binding(1) var<storage, read_write> pairs: array<vec2<u32>>;
        @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {{
            let pair = pairs[id.x];
            pairs[id.x].x = high_product(pair.x, pair.y) + (unused.x & 0u);
        }}"
    );
    Shader { name: format!("{}, upper half", probe.name), source }
}

/// The slots of a test are few: this checks the values that they do not reach, over the whole range of a count and
/// more.
pub(super) fn check_upper_half(probe: &Shader, checked: bool) -> Checked {
    let ends = [0_u32, 1, 3, 0xFFFF, 0x1_0000, 0xF_FFFF, 0x10_0000, 0x8000_0000, u32::MAX];
    let random: Vec<u32> =
        noise(5, 8 * 47).chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect();
    let mut pairs: Vec<(u32, u32)> = ends.iter().flat_map(|&x| ends.map(|y| (x, y))).collect();
    pairs.extend(random.chunks_exact(2).map(|pair| (pair[0], pair[1])));
    assert_eq!(pairs.len(), 128, "two workgroups");
    let high = |x: u32, y: u32| ((u64::from(x) * u64::from(y)) >> 32) as u32;
    let bytes = |x: u32, y: u32| [x.to_le_bytes(), y.to_le_bytes()].concat();
    let mut data: Vec<u8> = pairs.iter().flat_map(|&(x, y)| bytes(x, y)).collect();
    let expected: Vec<u8> = pairs.iter().flat_map(|&(x, y)| bytes(high(x, y), y)).collect();
    gpu().compile(&upper_half(probe), 1, checked)?.run([0; 16], &mut [&mut data], 2)?;
    same("upper halves", &data, &expected)
}

#[test]
fn the_upper_half_of_a_product_is_exact() {
    check_upper_half(&probe(ProbeShape { buffers: 1, grouped: false, quads: false }), false).unwrap();
}
