// Tiles of slot u = mix(slot[earlier] · slot[previous]ᵀ) in cooperative matrices of F16 with FP32 sums: as product.wgsl,
// over operands that expand_to_f16.wgsl wrote. In front of it stand the parts written for a tile: the constants, and
// `sum_region`; sums_float.wgsl and write_*.wgsl come after.
//
// shapes     earlier, previous: f16[], rows of operands of `depth` bytes; written: as in product.wgsl
// tile       SIDE x SIDE elements for each workgroup, cut into REGIONS regions of REGION_ROWS x REGION_COLUMNS elements,
//            each of whole cells of CELL x CELL. A subgroup sums one region, or several one after another
// grid       as in product.wgsl
// workgroup  4 * SIDE * SIDE bytes: the sums of one chunk
// bounds     as in product.wgsl; CELL divides CHUNK_TERMS and depth / 2; the number of subgroups divides REGIONS
// exact      on a device that has passed the self-test of WORK.md's appendix, which runs this code with RAW: a sum of the
//            operands of slots stays below 2^24 for CHUNK_TERMS terms. After each chunk sums are added to integers

const BLOCKS_ACROSS = SIDE / 4u;    // blocks of 4 x 4 sums
const BLOCKS_EACH = BLOCKS_ACROSS * BLOCKS_ACROSS / THREADS;    // of a thread
const_assert BLOCKS_EACH * THREADS == BLOCKS_ACROSS * BLOCKS_ACROSS;

// Where the i-th block of a thread begins in the tile: row and column.
fn block_of(thread: u32, i: u32) -> vec2<u32> {
    let block = i * THREADS + thread;
    return vec2(4u * (block / BLOCKS_ACROSS), 4u * (block % BLOCKS_ACROSS));
}

fn row_of(at: u32) -> vec4<f32> {
    return vec4(tile_sums[at], tile_sums[at + 1u], tile_sums[at + 2u], tile_sums[at + 3u]);
}

// The sums of this chunk in a block, after those before.
fn taken(before: Sums, block: vec2<u32>) -> Sums {
    let at = block.x * SIDE + block.y;
    var held = settled(before);
    held.r0 = row_of(at);
    held.r1 = row_of(at + SIDE);
    held.r2 = row_of(at + 2u * SIDE);
    held.r3 = row_of(at + 3u * SIDE);
    return held;
}

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
    @builtin(subgroup_id) subgroup: u32,
    @builtin(num_subgroups) subgroups: u32,
) {
    let tile = params.first_tile + group.x;
    let row = (tile / params.tiles_across) * SIDE;
    let column = (tile % params.tiles_across) * SIDE;
    let terms = params.depth / 2u;

    var held: array<Sums, BLOCKS_EACH>;
    for (var i = 0u; i < BLOCKS_EACH; i++) {
        held[i] = Sums();
    }
    for (var chunk = 0u; chunk < terms; chunk += CHUNK_TERMS) {
        for (var i = thread; i < SIDE * SIDE; i += THREADS) {
            tile_sums[i] = 0.0;
        }
        workgroupBarrier();
        for (var region = subgroup; region < REGIONS; region += subgroups) {
            let region_row = (region / REGIONS_ACROSS) * REGION_ROWS;
            let region_column = (region % REGIONS_ACROSS) * REGION_COLUMNS;
            let left = (row + region_row) * terms + chunk;
            let right = (column + region_column) * terms + chunk;
            sum_region(region_row * SIDE + region_column, left, right, min(terms - chunk, CHUNK_TERMS), terms);
        }
        workgroupBarrier();
        for (var i = 0u; i < BLOCKS_EACH; i++) {
            held[i] = taken(held[i], block_of(thread, i));
        }
        workgroupBarrier();
    }
    for (var i = 0u; i < BLOCKS_EACH; i++) {
        let block = block_of(thread, i);
        write(held[i], row + block.x, column + block.y);
    }
}
