//! Faults planted into the sources: the checks of this folder have to find every one.
//!
//! Faults that a software driver cannot show are left out. It runs the invocations of a workgroup vector by vector,
//! lowest first, up to the next barrier: that hides the barrier of `tree.wgsl` between a level's reads and its writes,
//! whose absence harms only where a higher invocation runs ahead. Workgroup memory keeps what an earlier workgroup wrote:
//! that hides the barrier behind the thresholds of `expand_noise.wgsl`. And it has subgroups of one size, all full, in the
//! order of the invocations.
//!
//! A faulty shader is compiled with bounds checks, so that it harms nothing but its own result.

use super::*;

/// A text of a shader, and its replacement in every place.
type Fault = (&'static str, &'static str);

const CHACHA: &[Fault] = &[
    ("s.d ^ s.a, 16u", "s.d ^ s.a, 15u"),
    ("s.d ^ s.a, 8u", "s.d ^ s.a, 9u"),
    ("s.b ^ s.c, 7u", "s.b ^ s.c, 6u"),
    ("columns.b.yzwx, columns.c.zwxy", "columns.b.zwxy, columns.c.yzwx"),
    ("s.b.wxyz, s.c.zwxy, s.d.yzwx", "s.b, s.c, s.d"),
    ("two_rounds(two_rounds(two_rounds(two_rounds(start))))", "two_rounds(two_rounds(two_rounds(start)))"),
    ("s.c + start.c", "s.c"),
    ("0x6b206574u", "0x6b206575u"),
    ("low, high, vec4(counter", "high, low, vec4(counter"),
    ("counter, 0u, stream.x, stream.y", "counter, 0u, stream.x, 0u"),
    ("counter, 0u, stream.x, stream.y", "counter, stream.x, stream.y, 0u"),
    ("params.counter + id.x", "params.counter"),
    ("id.x >= params.blocks", "id.x > params.blocks"),
    ("(params.at + id.x) * 4u", "id.x * 4u"),
    ("out[to + 3u] = block.d", "out[to + 3u] = block.c"),
];

const COMPLETION_COUNTER: &[Fault] = &[
    ("params.first == 1u", "params.first == 2u"),
    ("before << 7u", "before << 8u"),
    (" + params.number", ""),
    ("select(completed[0], 0u", "select(0u, 0u"),
];

const STREAM: &[Fault] = &[
    ("i + 3u * stride < params.vectors", "i + 2u * stride < params.vectors"),
    ("; i < params.vectors; i += stride", "; i + 1u < params.vectors; i += stride"),
    ("i += 4u * stride", "i += 5u * stride"),
    ("all.z ^ all.w", "all.z"),
];

/// Faults of both kernels of trees.
const BLAKE3: &[Fault] = &[
    ("v.d ^ v.a, 16u", "v.d ^ v.a, 12u"),
    ("v.b ^ v.c, 7u", "v.b ^ v.c, 8u"),
    ("v.a += v.b + y", "v.a += v.b + x"),
    ("vec4(m.columns_x.y, m.columns_y.y", "vec4(m.columns_y.y, m.columns_x.y"),
    ("m.columns_x.w, m.diagonals_x.y", "m.columns_x.w, m.diagonals_x.z"),
    ("m.diagonals_x.w, m.diagonals_x.x", "m.diagonals_x.x, m.diagonals_x.w"),
    ("v = blake3_round(v, m6)", "v = blake3_round(v, m5)"),
    ("columns.d.wxyz", "columns.d.yzwx"),
    ("0u, BLOCK_BYTES, flags", "0u, flags, BLOCK_BYTES"),
    ("v.a ^ v.c, v.b ^ v.d", "v.a ^ v.d, v.b ^ v.c"),
    ("0x5be0cd19u", "0x5be0cd18u"),
    ("PARENT | flags", "flags"),
    ("const ROOT = 8u", "const ROOT = 16u"),
    ("level == levels", "level + 1u == levels"),
    ("thread < (width >> level)", "thread < (width >> (level + 1u))"),
    ("values[4u * i + 2u], values[4u * i + 3u]", "values[4u * i], values[4u * i + 1u]"),
    ("    workgroupBarrier();\n    for", "    for"),
    (
        "            put(thread, value);\n        }\n        workgroupBarrier();",
        "            put(thread, value);\n        }",
    ),
    ("i < 2u * left", "i < left"),
];

const CHUNKS: &[Fault] = &[
    ("(params.at + chunk)", "(params.at ^ chunk)"),
    ("params.counter + chunk", "chunk"),
    ("const CHUNK_START = 1u", "const CHUNK_START = 2u"),
    ("CHUNK_END, block == BLOCKS - 1u", "CHUNK_END, block == BLOCKS"),
    ("first + thread < params.chunks", "first + thread + 1u < params.chunks"),
    ("params.root * ROOT", "0u"),
    ("params.out_at + group.x * left", "group.x * left"),
    ("params.out_at + group.x * left", "params.out_at + group.x"),
    ("width >> params.levels", "width"),
    ("min(params.chunks, TREE_THREADS)", "TREE_THREADS"),
];

const PARENTS: &[Fault] = &[
    ("params.in_at + 2u * pair", "2u * pair"),
    ("2u * pair < params.values", "2u * pair + 2u < params.values"),
    ("last_flags, params.levels == 1u", "last_flags, params.levels == 2u"),
    ("width, params.levels - 1u, last_flags", "width, params.levels - 1u, 0u"),
    ("width, params.levels - 1u, last_flags", "width, params.levels, last_flags"),
    ("width >> (params.levels - 1u)", "width >> params.levels"),
    ("params.out_at + group.x * left", "params.out_at + thread * left"),
];

/// Faults of both ways to sum.
const PRODUCT: &[Fault] = &[
    ("vec4(0u, 1u, 2u, 3u)", "vec4(0u, 1u, 2u, 2u)"),
    ("x *= MIX_SECOND_FACTOR", "x *= MIX_FIRST_FACTOR"),
    ("x ^= x >>", "x += x >>"),
    ("<< vec4(0u, 8u, 16u, 24u)", "<< vec4(24u, 16u, 8u, 0u)"),
    ("const MIX_SHIFT = 16u", "const MIX_SHIFT = 15u"),
    ("tile / params.tiles_across", "tile % params.tiles_across"),
    ("tile % params.tiles_across", "tile / params.tiles_across"),
    ("params.first_tile + group.x", "group.x"),
    ("select(tile_column, tile_row, of_left)", "select(tile_row, tile_column, of_left)"),
    ("SIDE + 4u * quad", "SIDE + 2u * quad"),
    ("deep * 4u * QUADS + quad", "deep * QUADS + quad"),
    ("inner_step * BLOCKS_DEEP", "inner_step"),
    ("earlier[i + 3u * pitch]", "earlier[i + 2u * pitch]"),
    ("return Block(previous[i],", "return Block(earlier[i],"),
    ("vec4(b.v0.y, b.v1.y, b.v2.y, b.v3.y)", "vec4(b.v0.y, b.v1.y, b.v3.y, b.v2.y)"),
    ("let b = turned(block)", "let b = block"),
    ("right[c.goal + 2u * QUADS] = b.v2", "right[c.goal + 2u * QUADS] = b.v3"),
    ("params.row0 + row) * n", "row) * n"),
    ("n + params.column0 + column + params.slot_term", "n + column + params.slot_term"),
    ("column + params.slot_term", "column"),
    ("row * n + params.column0 + column) / 4u", "row * n + column) / 4u"),
    ("mixed(whole.r2, place + 2u * n)", "mixed(whole.r2, place + n)"),
    ("written[to + n / 4u]", "written[to + 1u]"),
    ("        put(mine, next);\n        workgroupBarrier();", "        put(mine, next);"),
    ("drained(held);\n        }\n        workgroupBarrier();", "drained(held);\n        }"),
    ("i + 1u < steps", "i + 2u < steps"),
    ("fetched(mine, i + 1u)", "fetched(mine, i)"),
    ("let x = thread % GRID", "let x = thread / GRID"),
    ("word < STEP_WORDS * QUADS", "word < (STEP_WORDS - 1u) * QUADS"),
    ("tile_row * SIDE + 4u * y", "tile_row * SIDE + 4u * x"),
];

/// Faults of eight by eight sums.
const EIGHT: &[Fault] = &[
    ("held.upper_right, upper, far", "held.upper_right, upper, near"),
    ("held.lower_left, lower, near", "held.lower_left, near, lower"),
    ("const HALF = SIDE / 2u", "const HALF = SIDE / 4u"),
    ("write(held.lower_left, row + HALF, column)", "write(held.lower_left, row, column + HALF)"),
];

const PACKED: &[Fault] = &[
    ("dot4I8Packed(row, columns.z)", "i32(dot4U8Packed(row, columns.z))"),
    ("sums.r1 + dots(rows.y, columns)", "sums.r1 + dots(rows.x, columns)"),
];

const PLAIN: &[Fault] = &[
    ("extractBits(signed, 8u, 8u)", "extractBits(signed, 8u, 7u)"),
    ("signed >> vec4(24u)", "bitcast<vec4<i32>>(words >> vec4(24u))"),
    ("rows.b2.z * columns.b2", "rows.b2.z * columns.b1"),
    ("sums.r3 + rows.b0.w", "sums.r3 + rows.b0.z"),
    ("sums.r1 + ", ""),
];

/// Where rows of operands are longer than those of a slot.
const DEPTH: &[Fault] = &[
    ("params.depth / 16u) + deep", "params.n / 16u) + deep"),
    ("let pitch = params.depth / 16u", "let pitch = params.n / 16u"),
    ("params.depth / (4u * STEP_WORDS)", "params.n / (4u * STEP_WORDS)"),
    ("(row * n + params.column0 + column) / 4u", "(row * params.depth + params.column0 + column) / 4u"),
];

const WIDE: &[Fault] = &[
    ("extractBits(signed, 0u, 16u)", "extractBits(signed, 0u, 8u)"),
    ("extractBits(signed, 0u, 16u)", "signed & vec4(0xffff)"),
    ("signed >> vec4(16u)", "bitcast<vec4<i32>>(words >> vec4(16u))"),
    ("rows.high.z * columns.high", "rows.high.z * columns.low"),
    ("sums.r3 + rows.low.w", "sums.r3 + rows.low.z"),
];

const FLOAT: &[Fault] = &[
    ("extractBits(signed, 0u, 16u)", "signed & vec4(0xffff)"),
    ("vec4<f32>(signed >> vec4(16u))", "vec4<f32>(words >> vec4(16u))"),
    ("rows.high.y * columns.high", "rows.high.x * columns.high"),
    ("sums.before3 + vec4<i32>(sums.r3)", "vec4<i32>(sums.r2)"),
];

/// Faults of float sums in chunks.
const DRAIN: &[Fault] = &[
    ("if DRAINS &&", "if !DRAINS &&"),
    ("% CHUNK_STEPS == 0u", "% CHUNK_STEPS == CHUNK_STEPS"),
    ("(i + 1u) % CHUNK_STEPS", "(i + 1u) % (2u * CHUNK_STEPS)"),
    ("sums.before2 + vec4<i32>(sums.r2)", "vec4<i32>(sums.r2)"),
    ("return Sums(none, none, none, none,", "return Sums(sums.r0, none, none, none,"),
    ("        settled(held.upper_right),", "        settled(held.upper_left),"),
];

const RAW: &[Fault] = &[
    ("bitcast<vec4<u32>>(sums.r2)", "bitcast<vec4<u32>>(sums.r1)"),
    ("bitcast<vec4<u32>>(sums.r3)", "bitcast<vec4<u32>>(vec4<i32>(sums.r3))"),
    ("written[to + 3u] = bits.w", "written[to + 3u] = bits.z"),
    ("row * params.n + params.column0 + column", "column * params.n + params.column0 + row"),
];

/// Faults of every way to write operands out.
const EXPAND: &[Fault] = &[
    ("write_expanded(params.at + id.x, slot[params.at + id.x])", "write_expanded(id.x, slot[id.x])"),
    ("slot[params.at + id.x]", "slot[id.x]"),
    ("id.x >= params.vectors", "id.x > params.vectors"),
];

const TO_INT8: &[Fault] = &[
    ("integers) & vec4(0xffu)", "integers)"),
    ("<< vec4(0u, 8u, 16u, 24u);\n    return", "<< vec4(24u, 16u, 8u, 0u);\n    return"),
];

/// Of one operand for each byte, in two bytes.
const TO_TWO_BYTES: &[Fault] =
    &[("packed(integers(v.w))", "packed(integers(v.z))"), ("operands[2u * i + 1u]", "operands[2u * i]")];

const TO_INT16: &[Fault] = &[("low.x | (low.y << 16u)", "low.y | (low.x << 16u)"), (" & vec4(0xffffu)", "")];

const TO_F16: &[Fault] = &[
    ("pack2x16float(floats.zw)", "pack2x16float(floats.wz)"),
    ("vec4<f32>(integers)", "vec4<f32>(bitcast<vec4<u32>>(integers))"),
];

const EXPAND_INT8: &[Fault] = &[
    ("vec4(24u, 16u, 8u, 0u)) >> vec4(24u)", "vec4(0u, 8u, 16u, 24u)) >> vec4(24u)"),
    (">> vec4(24u);", ">> vec4(25u);"),
];

const EXPAND_FP8: &[Fault] = &[
    ("(b >> vec4(3u)) & vec4(3u)", "(b >> vec4(2u)) & vec4(3u)"),
    ("(b >> vec4(3u)) & vec4(3u)", "(b >> vec4(3u)) & vec4(7u)"),
    ("b & vec4(0x80u)", "b & vec4(0x40u)"),
    ("magnitudes, -magnitudes,", "-magnitudes, magnitudes,"),
    ("packed(integers(v.w))", "packed(integers(v.z))"),
];

const EXPAND_FP4: &[Fault] = &[
    ("b.x & 0xfu, b.x >> 4u", "b.x >> 4u, b.x & 0xfu"),
    ("codes & vec4(8u)", "codes & vec4(4u)"),
    ("low > vec4(1u)", "low > vec4(2u)"),
    ("max(low >> vec4(1u), vec4(1u)) - vec4(1u)", "max(low >> vec4(1u), vec4(1u))"),
    ("vec2(packed(lower_integers(word)), packed(upper_integers(word)))", "vec2(packed(lower_integers(word)), 0u)"),
    ("vec4(both(v.x), both(v.y))", "vec4(both(v.y), both(v.x))"),
    ("operands[2u * i + 1u]", "operands[2u * i]"),
];

const EXPAND_F16: &[Fault] = &[
    ("signed >> vec4(1u)", "signed / vec4(2)"),
    ("vec4(24u, 16u, 8u, 0u)) >> vec4(24u)", "vec4(0u, 8u, 16u, 24u)) >> vec4(24u)"),
    (">> vec4(24u);", ">> vec4(25u);"),
];

/// Faults of every rule.
const RULE: &[Fault] = &[("params.first_group + group.x", "group.x"), ("params.row0 * row_vectors() + v", "v")];

/// Faults of rules that read a row of the slot where they write one.
const OWN: &[Fault] = &[("in_slot - params.slot_row0 * row_vectors()", "in_slot")];

const FIELD: &[Fault] = &[
    ("(lowest + m) >> LIMB_BITS", "lowest >> LIMB_BITS"),
    ("(0u - lowest) & LIMB_MASK", "lowest & LIMB_MASK"),
    ("a.y + carry", "a.y"),
    ("limb * y.e + m * Q.e", "limb * y.e"),
    ("vec4(c.yzw, d.x)", "vec4(c.yzw, d.y)"),
    ("sums.z + (y >> LIMB_BITS)", "sums.z"),
    ("carried(s.c, b.w)", "carried(s.c, a.w)"),
    ("d & mask", "d"),
    ("0x1913u, 0x0060u", "0x1913u, 0x0061u"),
    ("0x0054u, 0x0005u", "0x0054u, 0x0004u"),
    ("0x1bb7u, 0x001fu", "0x1bb7u, 0x001eu"),
    ("const STEPS = 64u", "const STEPS = 63u"),
    ("1u + group % groups", "group % groups"),
    ("(group / groups) << 16u", "(group / groups) << 15u"),
    ("(low >> 26u) | ", ""),
    ("params.u << 6u", "params.u << 5u"),
    ("params.u >> 7u", "params.u >> 8u"),
    ("multiplied(added, v, v)", "multiplied(Number(), v, v)"),
    ("multiplied(added, v, v)", "multiplied(added, v, bytes)"),
    ("bytes, R2)", "bytes, R3)"),
    ("[at / 32u + 1u] << 1u) << (31u", "[at / 32u + 1u] << 1u) << (30u"),
    ("(limbs[i] >> 1u) >> (31u", "limbs[i] >> (31u"),
    ("put_limbs(&w, 12u, v.d)", "put_limbs(&w, 12u, v.c)"),
    ("stepped(at / 2u", "stepped(at"),
    ("own_vector(at + 1u)", "own_vector(at)"),
];

/// Of the last reduction.
const REMAINDER: &[Fault] =
    &[("if all(v.a == Q.a) && ", "if any(v.a != Q.a) && "), ("        return Number();\n    }", "    }")];

const CONVOLUTION: &[Fault] = &[
    ("v - params.slot_row0 * pitch", "v"),
    ("inside < params.slot_rows * pitch", "inside <= params.slot_rows * pitch"),
    ("return next[inside - params.slot_rows * pitch]", "return slot[inside - params.slot_rows * pitch]"),
    (" % (width / 2u)", ""),
    ("exponent / 2u", "(exponent + 1u) / 2u"),
    ("largest >> vec4(3u), largest,", "largest / vec4(8), largest,"),
    ("largest >= vec4(0)", "largest > vec4(8)"),
    ("max(integers(c), integers(d))", "integers(c)"),
    ("place / FILTER", "place % FILTER"),
    ("2u * (row % (width / 4u))", "row % (width / 4u)"),
    ("at % pixel_vectors;", "place % pixel_vectors;"),
    ("upper + width * pixel_vectors", "upper + pixel_vectors"),
    ("pooled(a.z, b.z, c.z, d.z)", "pooled(a.z, b.z, c.z, d.y)"),
];

const ATTENTION: &[Fault] = &[
    ("WEIGHTS[d / 4u]", "WEIGHTS[min(d + 1u, 255u) / 4u]"),
    ("8u * (d % 4u)", "8u * ((d + 1u) % 4u)"),
    ("vec4(top) - integers(word)", "vec4(127) - integers(word)"),
    ("max(max(all.x, all.y), max(all.z, all.w))", "max(max(all.x, all.y), all.z)"),
    ("sums.x + sums.y + sums.z + sums.w", "sums.x + sums.y + sums.z"),
    ("* 32u * params.n", "* 31u * params.n"),
    ("atomicLoad(&sum), 127u", "atomicLoad(&sum), 128u"),
    ("row_vectors(); i += EXPAND_THREADS", "row_vectors() - 1u; i += EXPAND_THREADS"),
    ("most);\n    workgroupBarrier();", "most);"),
    ("sums.w);\n    workgroupBarrier();", "sums.w);"),
    ("127u);\n    }\n    workgroupBarrier();", "127u);\n    }"),
];

const NOISE: &[Fault] = &[
    ("at / 2u, vec2(0u)", "(at % row_vectors()) / 2u, vec2(0u)"),
    ("at / 2u, vec2(0u)", "at / 2u + row_vectors() / 2u, vec2(0u)"),
    ("at / 2u, vec2(0u)", "at / 2u, vec2(1u, 0u)"),
    ("params.key_low, params.key_high", "params.key_high, params.key_low"),
    ("thresholds[i] = THRESHOLDS[i]", "thresholds[i] = THRESHOLDS[(i + 1u) % 64u]"),
    ("step - 1u] <= draw", "step - 1u] < draw"),
    ("var step = 32u", "var step = 16u"),
    ("draws >> vec4(1u)", "draws"),
    ("vec4(1u)) == vec4(1u)", "vec4(1u)) == vec4(0u)"),
    ("vec4(-64), vec4(63)", "vec4(-63), vec4(63)"),
    ("vec4(-64), vec4(63)", "vec4(-64), vec4(64)"),
    ("block.b.x, block.b.y", "block.b.y, block.b.x"),
    ("noisy(w.w, block.d.z, block.d.w)", "noisy(v.w, block.d.z, block.d.w)"),
];

/// Faults of sums of rows.
const SWEEP: &[Fault] = &[
    ("slots[i + 3u * pitch]", "slots[i + 2u * pitch]"),
    ("operand(weights[k])", "operand(weights[lane])"),
    ("params.first_row + 4u * four", "4u * four"),
    ("params.first_sum + four", "four"),
    ("group.x * (SWEEP_THREADS / LANES)", "group.x"),
    ("thread / LANES", "thread % LANES / 8u"),
    ("k < pitch; k += LANES", "k + LANES < pitch; k += LANES"),
    ("k < pitch; k += LANES", "k < pitch; k += 2u * LANES"),
    ("other < LANES", "other + 1u < LANES"),
    ("var other = 1u", "var other = 0u"),
    ("    workgroupBarrier();\n", ""),
];

const SWEEP_PACKED: &[Fault] =
    &[("dot4I8Packed(a.y, b.y)", "i32(dot4U8Packed(a.y, b.y))"), (" + dot4I8Packed(a.w, b.w)", "")];

const SWEEP_PLAIN: &[Fault] = &[
    (
        "let z = operand(weights[k])",
        "let z = Operand(vec4<i32>(weights[k] & vec4(0xffu)), operand(weights[k]).b1, \
      operand(weights[k]).b2, operand(weights[k]).b3)",
    ),
    ("a.b2 * b.b2", "a.b2 * b.b1"),
    ("products.z + products.w", "products.z"),
];

const COOPERATIVE: &[Fault] = &[
    ("i * THREADS + thread", "thread"),
    ("tile_sums[at + 2u], tile_sums[at + 3u]", "tile_sums[at + 3u], tile_sums[at + 2u]"),
    ("var held = settled(before)", "var held = before"),
    ("held.r2 = row_of(at + 2u * SIDE)", "held.r2 = row_of(at + SIDE)"),
    ("params.first_tile + group.x", "group.x"),
    ("(tile / params.tiles_across) * SIDE", "(tile % params.tiles_across) * SIDE"),
    ("params.depth / 2u", "params.depth / 4u"),
    ("chunk += CHUNK_TERMS", "chunk += 2u * CHUNK_TERMS"),
    ("        for (var i = thread; i < SIDE * SIDE; i += THREADS) {\n            tile_sums[i] = 0.0;\n        }\n", ""),
    ("tile_sums[i] = 0.0;\n        }\n        workgroupBarrier();", "tile_sums[i] = 0.0;\n        }"),
    ("        }\n        workgroupBarrier();\n        for (var i = 0u", "        }\n        for (var i = 0u"),
    ("(region % REGIONS_ACROSS) * REGION_COLUMNS", "(region % REGIONS_ACROSS) * 8u"),
    ("(row + region_row) * terms + chunk", "(row + region_row) * terms"),
    ("(column + region_column) * terms + chunk", "column * terms + chunk"),
    ("min(terms - chunk, CHUNK_TERMS)", "terms - chunk"),
    ("min(terms - chunk, CHUNK_TERMS)", "16u"),
    ("sum1_0 = coopMultiplyAdd(row1", "sum1_0 = coopMultiplyAdd(row0"),
    ("let column1 = coopLoad<", "let column1 = coopLoadT<"),
    ("column + block.y", "column + block.x"),
    ("sums.before1 + vec4<i32>(sums.r1)", "vec4<i32>(sums.r1)"),
];

/// Faults of subgroups that sum several regions each.
const SEVERAL_REGIONS: &[Fault] = &[("region += subgroups", "region += 2u * subgroups")];

const RAW_COOPERATIVE: &[Fault] = &[
    ("bitcast<vec4<u32>>(sums.r3)", "bitcast<vec4<u32>>(sums.before3)"),
    ("write_row(bitcast<vec4<u32>>(sums.r1), to + params.n)", "write_row(bitcast<vec4<u32>>(sums.r1), to)"),
];

/// Faults of every probe.
const PROBE: &[Fault] = &[
    ("turned_left(s.z, 4u)", "turned_left(s.z, 5u)"),
    ("s.x + s.y + s.z + s.w", "s.x + s.y + s.z"),
    ("high_product(turned, params.total)", "high_product(turned, params.total - 1u)"),
    (" - params.first_slot", ""),
    ("sum >> (32u - params.lines_log2)", "sum >> (33u - params.lines_log2)"),
    ("slot << (params.lines_log2 - params.piece_lines_log2)", "slot"),
    (" & ((1u << params.piece_lines_log2) - 1u)", ""),
    ("(piece_in_buffer << params.piece_lines_log2)", "(piece_in_buffer << (params.piece_lines_log2 - 1u))"),
    ("4u * line_in_buffer", "line_in_buffer"),
    ("(s ^ w) * PROBE_FIRST_FACTOR", "(s + w) * PROBE_FIRST_FACTOR"),
    ("t ^ (t >> vec4(PROBE_SHIFT))", "t"),
    ("const PROBE_TURN = 7u", "const PROBE_TURN = 8u"),
    ("vec4(t.yzw, after)", "vec4(t.yzw, t.x)"),
];

/// Faults where several buffers are bound.
const BUFFERS: &[Fault] = &[
    ("piece - buffer * params.pieces_per_buffer", "piece"),
    ("return piece / params.pieces_per_buffer", "return 0u"),
    ("case 1u:", "case 9u:"),
];

const WALKS: &[Fault] = &[
    ("id.x >= params.walks", "id.x > params.walks"),
    ("turned_left(turned_xor(s.w2), 16u)", "turned_xor(s.w2)"),
    ("stepped(t3, t0.x)", "stepped(t3, t1.x)"),
    ("let t1 = stirred(s.w1, w.w1)", "let t1 = stirred(s.w1, w.w0)"),
    ("keep(i + 2u, s.w2)", "keep(i + 2u, s.w1)"),
];

/// Faults of both grouped probes.
const GROUPED: &[Fault] =
    &[("buffer - params.first_buffer", "buffer"), ("{ next[i] = words; }", "{ states[i] = words; }")];

const QUADS: &[Fault] = &[
    ("8u * lane", "4u * lane"),
    ("turned ^= quadSwapY(turned);", ""),
    ("sum += quadSwapX(sum);", "sum += sum;"),
    ("select(across, in_pair, (lane & 1u) == 0u)", "in_pair"),
    ("let across = quadSwapDiagonal(word)", "let across = quadSwapY(word)"),
    ("walk < params.walks", "walk <= params.walks"),
    ("4u * walk + lane", "4u * walk + (lane ^ 1u)"),
    ("group.x * PROBE_THREADS + in_group", "in_group"),
    ("made < steps", "made + 1u < steps"),
];

/// Of the upper half of a product, which small counts hardly use.
const UPPER_HALF: &[Fault] = &[
    ("(low >> 16u) + (one & 0xffffu)", "(one & 0xffffu)"),
    ("(other & 0xffffu)", "other"),
    ("return xh * yh + ", "return "),
    (" + (other >> 16u)", ""),
    (" + (middle >> 16u)", ""),
];

/// Plants each fault in turn, and holds the check to finding it.
fn all_found(shader: &Shader, faults: &[Fault], check: impl Fn(&Shader) -> Checked) {
    for (text, instead) in faults {
        assert!(shader.source.contains(text), "{} has no “{text}”", shader.name);
        let source = shader.source.replace(text, instead);
        let faulty = Shader { name: format!("{}, “{text}” as “{instead}”", shader.name), source };
        let bindings = faulty.source.matches("var<storage").count() as u32;
        if let Err(error) = gpu().compile(&faulty, bindings, true) {
            panic!("a fault that the compiler finds needs no check: {error}");
        }
        assert!(check(&faulty).is_err(), "nothing found {}", faulty.name);
    }
}

#[test]
fn faults_of_streams_are_found() {
    all_found(&keystream(), CHACHA, |faulty| streams::check_keystream(faulty, true));
    all_found(&stream(), STREAM, |faulty| streams::check_stream(faulty, true));
    all_found(&completion_counter(), COMPLETION_COUNTER, |faulty| streams::check_completion_counter(faulty, true));
}

#[test]
fn faults_of_the_sweep_are_found() {
    for (dot, faults) in [(Dot::Packed, SWEEP_PACKED), (Dot::Plain, SWEEP_PLAIN)] {
        all_found(&sweep(dot), &[SWEEP, faults].concat(), |faulty| sweep::check_sweep(faulty, true));
    }
}

#[test]
fn faults_of_trees_are_found() {
    all_found(&chunks(), &[BLAKE3, CHUNKS].concat(), |faulty| tree::check_chunks(faulty, true));
    all_found(&parents(), &[BLAKE3, PARENTS].concat(), |faulty| tree::check_parents(faulty, true));
}

fn all_found_in_product(precision: Precision, tile: ShaderTile, dot: Dot, faults: &[Fault]) {
    all_found(&product(tile, dot), faults, |faulty| product::check_product(precision, tile, faulty, true));
}

#[test]
fn faults_of_products_are_found() {
    let [large, _, few, deep, idle] = ShaderTile::ALL;
    all_found_in_product(Precision::Int8, idle, Dot::Packed, PRODUCT);
    all_found_in_product(Precision::Int8, large, Dot::Packed, EIGHT);
    all_found_in_product(Precision::Int8, few, Dot::Packed, PACKED);
    all_found_in_product(Precision::Int8, deep, Dot::Plain, PLAIN);
    all_found_in_product(Precision::Fp4, idle, Dot::Packed, DEPTH);
    all_found_in_product(Precision::F16, few, Dot::Wide, &[DEPTH, WIDE].concat());
}

#[test]
fn faults_of_float_products_are_found() {
    let [large, _, few, ..] = ShaderTile::ALL;
    all_found_in_product(Precision::F16, few, Dot::Float, FLOAT);
    all_found(&product::in_chunks(large), DRAIN, |faulty| product::check_in_chunks(large, faulty, true));
    all_found(&raw_product(few), RAW, |faulty| product::check_raw(few, faulty, true));
}

#[test]
fn faults_of_operands_are_found() {
    for (precision, format, faults) in [
        (Precision::F16, Format::Int16, [EXPAND, EXPAND_F16, TO_TWO_BYTES, TO_INT16]),
        (Precision::Fp8, Format::Int8, [EXPAND, EXPAND_FP8, TO_INT8, &[]]),
        (Precision::Fp4, Format::Int8, [EXPAND, EXPAND_FP4, TO_INT8, &[]]),
        (Precision::Int8, Format::F16, [EXPAND, EXPAND_INT8, TO_TWO_BYTES, TO_F16]),
    ] {
        let check = |faulty: &Shader| expand::check_expand(precision, format, faulty, true);
        all_found(&expand(precision, format)[0], &faults.concat(), check);
    }
}

#[test]
fn faults_of_rules_are_found() {
    let faults = [CONVOLUTION, ATTENTION, NOISE, FIELD];
    for (rule, faults) in rules::RULES.into_iter().zip(faults) {
        let own = if faults == CONVOLUTION { &[] } else { OWN };
        let check = |faulty: &Shader| rules::check_rule(rule, faulty, true);
        all_found(&rules::shader_of(rule), &[RULE, own, faults].concat(), check);
    }
    let field = rules::shader_of(rules::RULES[3]);
    all_found(&field, REMAINDER, |faulty| rules::check_remainders(faulty, true));
}

#[test]
#[ignore = "needs a driver with cooperative matrices: scripts/check-cooperative"]
fn faults_of_products_in_cooperative_matrices_are_found() {
    let tile = gpu().cooperative.expect("an adapter with cooperative matrices of half floats and FP32 sums");
    let chunks = product::cooperative_in_chunks(tile);
    all_found(&chunks, COOPERATIVE, |faulty| product::check_cooperative_in_chunks(faulty, true));
    let several = product::cooperative_in_chunks(CooperativeTile { regions: 2 * tile.regions, ..tile });
    all_found(&several, SEVERAL_REGIONS, |faulty| product::check_cooperative_in_chunks(faulty, true));
    all_found(&raw_cooperative_product(tile), RAW_COOPERATIVE, |faulty| product::check_raw_cooperative(faulty, true));
}

fn all_found_in_probe(buffers: u32, grouped: bool, quads: bool, faults: &[Fault]) {
    let shape = ProbeShape { buffers, grouped, quads };
    all_found(&probe(shape), faults, |faulty| probe::check_probe(shape, faulty, true));
}

#[test]
fn faults_of_the_probe_are_found() {
    all_found_in_probe(7, false, false, &[PROBE, BUFFERS, WALKS].concat());
    all_found_in_probe(7, false, false, &[("made < params.steps", "made + 1u < params.steps")]);
    all_found_in_probe(2, true, false, &[GROUPED, &[("place.buffer >= BUFFERS", "place.buffer > BUFFERS")]].concat());
    all_found_in_probe(1, false, true, QUADS);
    all_found_in_probe(2, true, true, &[GROUPED, &[("live && place.buffer < BUFFERS", "live")]].concat());
    let source = probe(ProbeShape { buffers: 1, grouped: false, quads: false });
    all_found(&source, UPPER_HALF, |faulty| probe::check_upper_half(faulty, true));
}
