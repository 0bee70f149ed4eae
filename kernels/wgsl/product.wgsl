// Tiles of slot u = mix(slot[earlier] · slot[previous]ᵀ): the rows of a piece of `earlier` by the rows of a piece of
// `previous`, which are columns of the product (WORK.md, A pass). This is the part that all tiles share;
// product_8x8.wgsl and product_4x4.wgsl have a thread's sums, dot_*.wgsl the way that products are summed, write_*.wgsl
// the output of the sums.
//
// shapes     earlier, previous: vec4<u32>[], rows of operands of `depth` bytes: slots for INT8, with depth = n, or what
//            expand.wgsl made of them; written: u32[], n / 4 for each row. Row i of `earlier` and of `written` is row
//            row0 + i of the matrix; row j of `previous` is its column column0 + j
// tile       SIDE x SIDE elements for each workgroup, STEP_WORDS words of the inner dimension at a time
// grid       one workgroup of THREADS a tile: workgroup w has tile t = first_tile + w, in row t / tiles_across of tiles
// workgroup  2 * SIDE * STEP_WORDS * 4 bytes: both operands turned, [word of the inner dimension][row / 4], a vec4 of
//            one word of four rows
// bounds     n a power of two from 256 to 32768; SIDE divides the rows of both pieces, and 4 * STEP_WORDS divides depth;
//            first_tile + workgroups <= tiles. Indices within a piece in 32 bits
// exact      dot_*.wgsl says why
//
// A thread takes a block of four rows by 16 bytes of the inner dimension from memory, turns it in registers and
// stores whole vectors: to store one component of a vector may write its neighbours too.

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read_write> earlier: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read_write> previous: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read_write> written: array<u32>;

const QUADS = SIDE / 4u;                // groups of four rows of an operand
const BLOCKS_DEEP = STEP_WORDS / 4u;    // blocks of 16 bytes along the inner dimension
const BLOCKS = QUADS * BLOCKS_DEEP;     // of one operand
const GRID = SIDE / PER_THREAD;         // threads along a side of the tile
const THREADS = GRID * GRID;
const CHUNK_STEPS = CHUNK_WORDS / STEP_WORDS;
const_assert 2u * BLOCKS <= THREADS;
const_assert CHUNK_WORDS % STEP_WORDS == 0u;

var<workgroup> left: array<vec4<u32>, STEP_WORDS * QUADS>;
var<workgroup> right: array<vec4<u32>, STEP_WORDS * QUADS>;

// Four rows by 16 bytes: as they lie in memory, a vector a row; or turned, a vector a word.
struct Block {
    v0: vec4<u32>,
    v1: vec4<u32>,
    v2: vec4<u32>,
    v3: vec4<u32>,
}

// Which block of the operands a thread carries.
struct Carried {
    some: bool,
    of_left: bool,
    source: u32,  // where its first row begins in the operand
    goal: u32,    // where its first word goes in workgroup memory
}

fn carried(thread: u32, tile_row: u32, tile_column: u32) -> Carried {
    let of_left = thread < BLOCKS;
    let block = thread % BLOCKS;
    let quad = block / BLOCKS_DEEP;
    let deep = block % BLOCKS_DEEP;
    let row = select(tile_column, tile_row, of_left) * SIDE + 4u * quad;
    return Carried(thread < 2u * BLOCKS, of_left, row * (params.depth / 16u) + deep, deep * 4u * QUADS + quad);
}

// The block that a thread carries in a step.
fn fetched(c: Carried, inner_step: u32) -> Block {
    let pitch = params.depth / 16u;
    let i = c.source + inner_step * BLOCKS_DEEP;
    if !c.some {
        return Block();
    }
    if c.of_left {
        return Block(earlier[i], earlier[i + pitch], earlier[i + 2u * pitch], earlier[i + 3u * pitch]);
    }
    return Block(previous[i], previous[i + pitch], previous[i + 2u * pitch], previous[i + 3u * pitch]);
}

fn turned(b: Block) -> Block {
    return Block(
        vec4(b.v0.x, b.v1.x, b.v2.x, b.v3.x),
        vec4(b.v0.y, b.v1.y, b.v2.y, b.v3.y),
        vec4(b.v0.z, b.v1.z, b.v2.z, b.v3.z),
        vec4(b.v0.w, b.v1.w, b.v2.w, b.v3.w),
    );
}

fn put(c: Carried, block: Block) {
    let b = turned(block);
    if !c.some {
        return;
    }
    if c.of_left {
        left[c.goal] = b.v0;
        left[c.goal + QUADS] = b.v1;
        left[c.goal + 2u * QUADS] = b.v2;
        left[c.goal + 3u * QUADS] = b.v3;
    } else {
        right[c.goal] = b.v0;
        right[c.goal + QUADS] = b.v1;
        right[c.goal + 2u * QUADS] = b.v2;
        right[c.goal + 3u * QUADS] = b.v3;
    }
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let tile = params.first_tile + group.x;
    let tile_row = tile / params.tiles_across;
    let tile_column = tile % params.tiles_across;
    let mine = carried(thread, tile_row, tile_column);
    let x = thread % GRID;
    let y = thread / GRID;

    var held = Held();
    var next = fetched(mine, 0u);
    let steps = params.depth / (4u * STEP_WORDS);
    for (var i = 0u; i < steps; i++) {
        put(mine, next);
        workgroupBarrier();
        // Under way while this step is multiplied.
        if i + 1u < steps {
            next = fetched(mine, i + 1u);
        }
        held = multiplied(held, x, y);
        if DRAINS && (i + 1u) % CHUNK_STEPS == 0u {
            held = drained(held);
        }
        workgroupBarrier();
    }
    write_held(held, tile_row * SIDE + 4u * y, tile_column * SIDE + 4u * x);
}
