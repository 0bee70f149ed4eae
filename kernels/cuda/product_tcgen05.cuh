// Slot u = mix(slot[earlier] · slot[previous]ᵀ) with tcgen05.mma fed by TMA, for every kind of operand whose instruction
// takes rows of 32 bytes: only the instruction differs. It is the `Arithmetic`: `drains` says whether sums are
// floats, `buffers` how many tiles' sums tensor memory holds, `has_scales` whether operands are scaled in blocks,
// `step` is log2 of the integer sum over the unit's, `multiply` is one instruction. Data-centre Blackwell (WORK.md, A
// pass). No GPU has run it.
//
// shapes   operands: maps of [n][depth] bytes, n and depth powers of two, n from 256 to 32768, depth from 256 to 65536;
//          boxes of 128 rows (left) and 256 rows (right) by 128 bytes, 128-byte swizzle
// tile     128 rows x 256 columns, 128 bytes of the inner dimension at a time; six warps: 0 to 3 read the sums, mix and
//          store them, one row a thread; one thread of warp 4 multiplies, one of warp 5 copies,
//          three warps hash (beside.cuh)
// grid     persistent, 1 to `tiles` blocks (tiles.cuh numbers the tiles); block 288 threads, one block an SM
// shared   192 KiB dynamic: 4 stages of 128 + 256 rows of 128 bytes; up to 96 bytes of barriers, an address;
//          6 KiB to hash
// tensor   512 columns, all there are: 256 for each buffer of sums, then 16 of scales
// bounds   u < 2^20; offsets within a slot in 32 bits
// exact    INT8: products summed in int32, |sum| ≤ 65536 · 2^14 = 2^30
//          floats: integers (E2M1: halves), summed in FP32 while all partial sums stay below 2^24 (E2M1: quarters, 2^22), which
//          `chunk` bounds. Then the sums are drained: converted, and added up in int32 in the block's part of `sums`,
//          [column][row]. Scales are 1
//
// Synchronisation: each stage has two barriers, and so has each buffer of sums.
//   full     ends a phase when the copying thread has arrived and the stage's bytes have landed
//   empty    ends a phase when the multiplications that read the stage have ended (tensor_commit)
//   summed   ends a phase when all multiplications of a chunk have ended
//   free     ends a phase when the four warps have read the buffer, and once before that, when they have begun
// A walker visits the stages or the buffers in order, then again with the other parity. So the next tile is multiplied
// while this one is mixed, where there are two buffers. A barrier orders accesses to tensor memory only between the two
// fences: before an arrival, and after a wait.
#pragma once
#include "device_sm100.cuh"
#include "beside.cuh"

namespace product_tcgen05 {

constexpr unsigned tile_rows = 128, tile_columns = 256, group = 16;
constexpr unsigned depth = 128;  // bytes of the inner dimension in a stage: the width of the swizzle
constexpr unsigned inner = 32;   // and in one instruction
constexpr unsigned stages = 4;
constexpr unsigned swizzle_bytes = 1024;  // the swizzle's pattern repeats
constexpr unsigned readers = 4, multiplier = 4, copier = 5;  // warps: the first so many, and one each
constexpr unsigned hashers = 3, first_hasher = 6;
constexpr unsigned threads = (first_hasher + hashers) * 32;
constexpr unsigned left_bytes = tile_rows * depth, right_bytes = tile_columns * depth;
constexpr unsigned stage_bytes = left_bytes + right_bytes;
constexpr unsigned shared_bytes = stages * stage_bytes;
constexpr unsigned columns_at_once = 32;    // that a warp reads of tensor memory
constexpr unsigned tensor_columns = 512, most_buffers = 2;
constexpr unsigned left_scale_columns = 8;  // 4 are needed; and 8 of the right operand
constexpr uint32_t scales_of_one = 0x7F7F7F7F;
constexpr uint32_t fp32_sums = 1, int32_sums = 2;  // in an instruction descriptor

static_assert(readers * 32 == tile_rows, "one row a thread");
static_assert(left_bytes % swizzle_bytes == 0 && right_bytes % swizzle_bytes == 0, "an operand begins where the swizzle's pattern does");
static_assert(shared_bytes + 1024 + hashers * assay::warp_pieces * 16 <= 227 * 1024, "what a block gets");

/// PTX ISA, "Instruction descriptor": formats of the sums and of both operands, which are K-major, nothing negated.
__device__ __forceinline__ constexpr uint32_t instruction(uint32_t sums, uint32_t format) {
    return sums << 4 | format << 7 | format << 10 | tile_columns / 8 << 17 | tile_rows / 16 << 24;
}
/// That of block-scaled kinds: scales are UE8M0, from byte 0 on; sums are FP32 without saying so.
__device__ __forceinline__ constexpr uint32_t scaled_instruction(uint32_t format) {
    return format << 7 | format << 10 | tile_columns / 8 << 17 | 1 << 23 | tile_rows / 16 << 24;
}

/// One of `count` stages or buffers, and the parity of the round.
template <uint32_t count>
struct Walker {
    uint32_t at = 0, parity = 0;

    __device__ __forceinline__ void advance() {
        if (++at < count) return;
        at = 0;
        parity ^= 1;
    }
};

/// The stages and the buffers of sums by addresses in shared and in tensor memory.
struct Ring {
    uint32_t bytes, barriers, tensor;

    static constexpr unsigned barrier_count = 2 * stages + 2 * most_buffers;

    __device__ __forceinline__ uint32_t left(uint32_t stage) const { return bytes + stage * stage_bytes; }
    __device__ __forceinline__ uint32_t right(uint32_t stage) const { return left(stage) + left_bytes; }
    __device__ __forceinline__ uint32_t full(uint32_t stage) const { return barriers + 8 * stage; }
    __device__ __forceinline__ uint32_t empty(uint32_t stage) const { return full(stages + stage); }
    __device__ __forceinline__ uint32_t summed(uint32_t buffer) const { return full(2 * stages + buffer); }
    __device__ __forceinline__ uint32_t free(uint32_t buffer) const { return full(2 * stages + most_buffers + buffer); }
    __device__ __forceinline__ uint32_t sums(uint32_t buffer) const { return tensor + buffer * tile_columns; }

    /// One thread: all threads can use the barriers after the next __syncthreads.
    __device__ __forceinline__ void init() const {
        // A stage off the swizzle's pattern would be multiplied without an error, and give other bits.
        ptx::require_alignment<swizzle_bytes>(bytes);
        for (uint32_t stage = 0; stage < stages; ++stage) {
            ptx::barrier_init(full(stage), 1);
            ptx::barrier_init(empty(stage), 1);
        }
        for (uint32_t buffer = 0; buffer < most_buffers; ++buffer) {
            ptx::barrier_init(summed(buffer), 1);
            ptx::barrier_init(free(buffer), readers);
        }
        ptx::barrier_init_fence();
    }
};

/// The tiles of one block, and the number of each within the launch.
template <class Function>
__device__ __forceinline__ void for_each_tile(const assay::Product& product, Function function) {
    for (uint32_t i = blockIdx.x; i < product.tiles; i += gridDim.x)
        function(assay::tile_at<tile_rows, tile_columns, group>(product.first_tile + i, product.n), i);
}

/// One thread: copies every stage of every tile, as soon as it is empty.
__device__ __forceinline__ void copy(const Ring& ring, const TensorMap& left, const TensorMap& right, const assay::Product& product) {
    Walker<stages> stage;
    for_each_tile(product, [&](assay::Tile tile, uint32_t) {
#pragma unroll 1
        for (uint32_t column = 0; column < product.depth; column += depth) {
            // In the first round there was nothing to read: the phase before the first has ended.
            ptx::barrier_wait(ring.empty(stage.at), stage.parity ^ 1);
            const uint32_t full = ring.full(stage.at);
            ptx::barrier_arrive_expect(full, stage_bytes);
            ptx::copy_box(ring.left(stage.at), left, full, column, tile.row);
            ptx::copy_box(ring.right(stage.at), right, full, column, tile.column);
            stage.advance();
        }
    });
}

/// PTX ISA, "Shared memory descriptor": rows of 128 bytes with the 128-byte swizzle (2 in bits 61-63), groups of eight rows
/// 1024 bytes apart (bits 32-45, in units of 16), version 1 (bits 46-47). The leading offset (bits 16-29) says nothing here.
__device__ __forceinline__ uint64_t descriptor(uint32_t address) {
    constexpr uint64_t swizzle_128_bytes = 2, version = 1, eight_rows = 8 * depth / 16, leading = 1;
    return swizzle_128_bytes << 61 | version << 46 | eight_rows << 32 | leading << 16 | (address & 0x3FFFF) >> 4;
}

/// Bytes of the inner dimension that are summed before the sums are read.
template <class Arithmetic>
__device__ __forceinline__ uint32_t chunk_of(const assay::Product& product) {
    return Arithmetic::drains ? product.chunk : product.depth;
}

/// One thread: multiplies every stage of every tile into the buffers of sums, one chunk into each.
template <class Arithmetic>
__device__ __forceinline__ void multiply(const Ring& ring, const assay::Product& product) {
    const uint32_t scales = ring.sums(Arithmetic::buffers), chunk = chunk_of<Arithmetic>(product);
    Walker<stages> stage;
    Walker<Arithmetic::buffers> buffer;
    for_each_tile(product, [&](assay::Tile, uint32_t) {
#pragma unroll 1
        for (uint32_t left = product.depth; left > 0; left -= chunk) {
            ptx::barrier_wait(ring.free(buffer.at), buffer.parity);
            const uint32_t sums = ring.sums(buffer.at);
#pragma unroll 1
            for (uint32_t round = 0; round < chunk / depth; ++round) {
                ptx::barrier_wait(ring.full(stage.at), stage.parity);
                ptx::tensor_fence_after();
                const uint64_t a = descriptor(ring.left(stage.at)), b = descriptor(ring.right(stage.at));
                // A step along the inner dimension is 32 bytes: 2 in the descriptor's unit; the hardware swizzles the sum.
#pragma unroll
                for (uint32_t step = 0; step < depth / inner; ++step)
                    Arithmetic::multiply(sums, a + step * inner / 16, b + step * inner / 16, round > 0 || step > 0, scales);
                ptx::tensor_commit(ring.empty(stage.at));
                stage.advance();
            }
            ptx::tensor_commit(ring.summed(buffer.at));
            buffer.advance();
        }
    });
    // The arrivals below free the buffers: all have been read.
    for (uint32_t i = 0; i < Arithmetic::buffers; ++i) {
        ptx::barrier_wait(ring.free(buffer.at), buffer.parity);
        buffer.advance();
    }
    ptx::tensor_fence_after();
}

/// This warp will read the buffer no more in this round.
__device__ __forceinline__ void release(const Ring& ring, uint32_t buffer) {
    ptx::tensor_fence_before();
    __syncwarp();
    if (threadIdx.x % 32 == 0) ptx::barrier_arrive(ring.free(buffer));
}

/// A sum of the unit, in units of 2^-step, as an integer. Nothing is rounded.
template <class Arithmetic>
__device__ __forceinline__ int32_t integer(uint32_t bits) {
    const auto sum = static_cast<int32_t>(bits);
    if constexpr (!Arithmetic::drains) return sum;
    else return assay::integer_of_steps<Arithmetic::step>(__int_as_float(sum));
}

/// What becomes of one row's sums, 32 columns at a time.
template <class Arithmetic>
struct Row {
    const assay::Product& product;
    uint32_t* raw;       // where the row begins in the tile's raw sums
    uint32_t* held;      // where this thread's drained sums are: one column, then 128 words further the next one
    uint32_t position;   // of the row's first element in the slot
    bool is_held;

    using Sums = uint32_t[columns_at_once];

    __device__ __forceinline__ void store_raw(const Sums& sums, uint32_t column) const {
#pragma unroll
        for (uint32_t i = 0; i < columns_at_once; ++i) raw[column + i] = sums[i];
    }

    /// Adds the sums to those drained before, unless they are the first.
    __device__ __forceinline__ void drain(const Sums& sums, uint32_t column) const {
#pragma unroll
        for (uint32_t i = 0; i < columns_at_once; ++i) {
            uint32_t* const word = held + (column + i) * tile_rows;
            *word = static_cast<uint32_t>(integer<Arithmetic>(sums[i])) + (is_held ? *word : 0);
        }
    }

    __device__ __forceinline__ void store_mixed(const Sums& sums, uint32_t column) const {
#pragma unroll
        for (uint32_t sixteen = 0; sixteen < columns_at_once; sixteen += 16) {
            int32_t integers[16];
#pragma unroll
            for (uint32_t i = 0; i < 16; ++i) {
                integers[i] = integer<Arithmetic>(sums[sixteen + i]);
                if (is_held) integers[i] += static_cast<int32_t>(held[(column + sixteen + i) * tile_rows]);
            }
            const uint32_t at = position + column + sixteen;
            assay::store_mixed_run(product.slot + at, at + product.u * assay::slot_factor, integers);
        }
    }
};

/// A warp that reads sums, each thread one row of every tile.
template <class Arithmetic>
__device__ __forceinline__ void read(const Ring& ring, const assay::Product& product) {
    const uint32_t first_lane = threadIdx.x / 32 * 32 << 16;
    if constexpr (Arithmetic::has_scales) ptx::tensor_fill_16(ring.sums(Arithmetic::buffers) + first_lane, scales_of_one);
    for (uint32_t i = 0; i < Arithmetic::buffers; ++i) release(ring, i);

    const uint32_t chunk = chunk_of<Arithmetic>(product);
    Walker<Arithmetic::buffers> buffer;
    for_each_tile(product, [&](assay::Tile tile, uint32_t number) {
        uint32_t* const raw = assay::raw_tile<tile_rows, tile_columns>(product, number) + threadIdx.x * tile_columns;
        uint32_t* const held = assay::raw_tile<tile_rows, tile_columns>(product, blockIdx.x) + threadIdx.x;
        Row<Arithmetic> row{product, raw, held, (tile.row + threadIdx.x) * product.n + tile.column, false};
#pragma unroll 1
        for (uint32_t left = product.depth; left > 0; left -= chunk) {
            ptx::barrier_wait(ring.summed(buffer.at), buffer.parity);
            ptx::tensor_fence_after();
            const uint32_t from = ring.sums(buffer.at) + first_lane;
#pragma unroll 1
            for (uint32_t column = 0; column < tile_columns; column += columns_at_once) {
                uint32_t sums[columns_at_once];
                ptx::tensor_load(sums, from + column);
                ptx::tensor_load_wait(sums);
                if (column + columns_at_once == tile_columns) release(ring, buffer.at);
                if (product.raw) row.store_raw(sums, column);
                else if (left > chunk) row.drain(sums, column);
                else row.store_mixed(sums, column);
            }
            row.is_held = true;
            buffer.advance();
        }
    });
}

template <class Arithmetic>
__device__ __forceinline__ void run(const TensorMap& left, const TensorMap& right, const assay::Product& product) {
    static_assert(Arithmetic::buffers <= most_buffers);
    static_assert(Arithmetic::buffers * tile_columns + (Arithmetic::has_scales ? 16 : 0) <= tensor_columns);
    ASSAY_DYNAMIC_SHARED(bytes);
    ASSAY_SHARED(uint64_t, barriers, Ring::barrier_count);
    ASSAY_SHARED(uint32_t, tensor, 1);
    ASSAY_SHARED(uint4, staging, hashers * assay::warp_pieces);
    Ring ring{ptx::shared_address(bytes), ptx::shared_address(barriers), 0};
    // The same in all lanes, and by the shuffle known to be: addresses then stay in uniform registers.
    const uint32_t warp = __shfl_sync(0xFFFFFFFF, threadIdx.x / 32, 0);
    if (threadIdx.x == 0) ring.init();
    if (warp == multiplier) {
        ptx::tensor_allocate<tensor_columns>(ptx::shared_address(tensor));
        ptx::tensor_allocate_no_more();
    }
    __syncthreads();
    ring.tensor = ptx::load_shared(tensor);

    if (warp < readers) {
        read<Arithmetic>(ring, product);
    } else if (warp == multiplier) {
        if (ptx::elect_one()) multiply<Arithmetic>(ring, product);
        __syncwarp();
        ptx::tensor_free<tensor_columns>(ring.tensor);
    } else if (warp >= first_hasher) {
        const unsigned hasher = warp - first_hasher;
        beside::hash<hashers>(product, hasher, staging + hasher * assay::warp_pieces);
    } else if (ptx::elect_one()) {
        ptx::prefetch_map(left);
        ptx::prefetch_map(right);
        copy(ring, left, right, product);
    }
}

}  // namespace product_tcgen05
