// Slot u = mix(slot[earlier] · slot[previous]ᵀ) with wgmma fed by TMA, for every kind of operand whose wgmma takes 64
// rows of 32 bytes by 256 columns of 32 bytes: only the instruction differs. It is the `Arithmetic`: `Sum` is a sum's type,
// `drains` says whether it is a float, `multiply` is one wgmma. Hopper (WORK.md, A pass).
//
// shapes   operands: maps of [n][depth] bytes, n and depth powers of two, n from 256 to 32768, depth from 256 to 65536;
//          boxes of 128 rows (left) and 256 rows (right) by 128 bytes, 128-byte swizzle
// tile     128 rows x 256 columns, 128 bytes of the inner dimension at a time; three warpgroups: one thread of
//          the first starts the copies, its other warps hash (beside.cuh), the other two multiply 64 rows each,
//          128 sums for each thread
// grid     persistent, 1 to `tiles` blocks (tiles.cuh numbers the tiles); block 384 threads, one block an SM
// shared   192 KiB dynamic: 4 stages of 128 + 256 rows of 128 bytes; 64 bytes of barriers; 6 KiB to hash
// bounds   u < 2^20; offsets within a slot in 32 bits
// exact    INT8: products summed in int32, |sum| ≤ 65536 · 2^14 = 2^30
//          floats: integers, summed in FP32 while all partial sums stay below 2^24, which `chunk` bounds. Then the sums
//          are drained: converted, and added up in int32 in the block's part of `sums`, [register][thread]
//
// Synchronisation: each stage has two barriers.
//   full    ends a phase when the producer has arrived and the stage's bytes have landed. Copies write and wgmma
//           read through the asynchronous proxy, so that the wait alone orders them.
//   empty   ends a phase when all eight consumer warps have arrived, each after its own wgmma on the stage have
//           ended (wgmma_wait is for the warp that waits, not for its group). Only then does the next copy into
//           the stage start.
// A walker visits the stages in order, then again with the other parity. The ring continues from tile to tile, so
// that the next tile's first stages are copied while this one is mixed and stored. Wgmma of one stage are pending
// while the next one's are issued: the tensor cores never wait for a barrier.
#pragma once
#include "device_sm90.cuh"
#include "beside.cuh"

namespace product_wgmma {

constexpr unsigned tile_rows = 128, tile_columns = 256, group = 16;
constexpr unsigned depth = 128;  // bytes of the inner dimension in a stage: the width of the swizzle
constexpr unsigned inner = 32;   // and in one wgmma
constexpr unsigned stages = 4;
constexpr unsigned swizzle_bytes = 1024;  // the swizzle's pattern repeats
constexpr unsigned warpgroup = 128, consumers = 2;  // threads; warpgroups
constexpr unsigned hashers = 3;  // warps of the first warpgroup
constexpr unsigned threads = warpgroup * (1 + consumers);
constexpr unsigned consumer_rows = tile_rows / consumers;
constexpr unsigned consumer_warps = consumers * warpgroup / 32;
constexpr unsigned left_bytes = tile_rows * depth, right_bytes = tile_columns * depth;
constexpr unsigned stage_bytes = left_bytes + right_bytes;
constexpr unsigned shared_bytes = stages * stage_bytes;

static_assert(consumer_rows == 64 && tile_columns == 256, "the shape of a wgmma");
static_assert(left_bytes % swizzle_bytes == 0 && right_bytes % swizzle_bytes == 0 && consumer_rows * depth % swizzle_bytes == 0,
              "an operand begins where the swizzle's pattern does");
static_assert(shared_bytes + 1024 + hashers * assay::warp_pieces * 16 <= 227 * 1024, "what a block gets");

/// A stage of the ring, and the parity of the round.
struct Walker {
    uint32_t stage = 0, parity = 0;

    __device__ __forceinline__ void advance() {
        if (++stage < stages) return;
        stage = 0;
        parity ^= 1;
    }
};

/// The ring of stages by addresses in shared memory.
struct Ring {
    uint32_t bytes, full_barriers, empty_barriers;

    __device__ __forceinline__ uint32_t left(uint32_t stage) const { return bytes + stage * stage_bytes; }
    __device__ __forceinline__ uint32_t right(uint32_t stage) const { return left(stage) + left_bytes; }
    __device__ __forceinline__ uint32_t full(uint32_t stage) const { return full_barriers + 8 * stage; }
    __device__ __forceinline__ uint32_t empty(uint32_t stage) const { return empty_barriers + 8 * stage; }

    /// One thread: all threads can use the barriers after the next __syncthreads.
    __device__ __forceinline__ void init() const {
        // A stage off the swizzle's pattern would be multiplied without an error, and give other bits.
        ptx::require_alignment<swizzle_bytes>(bytes);
        for (uint32_t stage = 0; stage < stages; ++stage) {
            ptx::barrier_init(full(stage), 1);
            ptx::barrier_init(empty(stage), consumer_warps);
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
__device__ __forceinline__ void produce(const Ring& ring, const TensorMap& left, const TensorMap& right, const assay::Product& product) {
    Walker at;
    for_each_tile(product, [&](assay::Tile tile, uint32_t) {
#pragma unroll 1
        for (uint32_t column = 0; column < product.depth; column += depth) {
            // In the first round there was nothing to read: the phase before the first has ended.
            ptx::barrier_wait(ring.empty(at.stage), at.parity ^ 1);
            const uint32_t full = ring.full(at.stage);
            ptx::barrier_arrive_expect(full, stage_bytes);
            ptx::copy_box(ring.left(at.stage), left, full, column, tile.row);
            ptx::copy_box(ring.right(at.stage), right, full, column, tile.column);
            at.advance();
        }
    });
}

/// PTX ISA, "Matrix descriptor": rows of 128 bytes with the 128-byte swizzle, groups of eight rows 1024 bytes
/// apart (bits 32-45, in units of 16). The leading offset (bits 16-29) says nothing in this mode.
__device__ __forceinline__ uint64_t descriptor(uint32_t address) {
    constexpr uint64_t swizzle_128_bytes = 1, eight_rows = 8 * depth / 16, leading = 1;
    return swizzle_128_bytes << 62 | eight_rows << 32 | leading << 16 | (address & 0x3FFFF) >> 4;
}

template <class Sum>
using Sums = Sum[128];

/// Starts the products of one stage, as one group. A step along the inner dimension is 32 bytes: 2 in the
/// descriptor's unit; the hardware swizzles the sum.
template <class Arithmetic>
__device__ __forceinline__ void start(Sums<typename Arithmetic::Sum>& sums, uint32_t left, uint32_t right, bool first) {
    const uint64_t a = descriptor(left), b = descriptor(right);
    ptx::wgmma_fence(sums);
#pragma unroll
    for (uint32_t step = 0; step < depth / inner; ++step)
        Arithmetic::multiply(sums, a + step * inner / 16, b + step * inner / 16, !first || step > 0);
    ptx::wgmma_commit();
}

/// This warp has read the stage for the last time in this round.
__device__ __forceinline__ void release(const Ring& ring, uint32_t stage) {
    if (threadIdx.x % 32 == 0) ptx::barrier_arrive(ring.empty(stage));
}

/// `rounds` stages of one tile. `rows` is where this warpgroup's rows begin in the left part of a stage.
template <class Arithmetic>
__device__ __forceinline__ void accumulate(Sums<typename Arithmetic::Sum>& sums, const Ring& ring, Walker& at, uint32_t rows, uint32_t rounds) {
    ptx::barrier_wait(ring.full(at.stage), at.parity);
    start<Arithmetic>(sums, ring.left(at.stage) + rows, ring.right(at.stage), true);
    uint32_t pending = at.stage;
    at.advance();
#pragma unroll 1
    for (uint32_t round = 1; round < rounds; ++round) {
        ptx::barrier_wait(ring.full(at.stage), at.parity);
        start<Arithmetic>(sums, ring.left(at.stage) + rows, ring.right(at.stage), false);
        ptx::wgmma_wait<1>();
        release(ring, pending);
        pending = at.stage;
        at.advance();
    }
    ptx::wgmma_wait_all(sums);
    release(ring, pending);
}

/// Where a thread's sum i is held between chunks, from the thread's first word on.
__device__ __forceinline__ constexpr uint32_t held_at(uint32_t i) { return i * consumers * warpgroup; }

/// Adds the sums to those drained before, unless they are the first. The next wgmma starts them anew.
template <bool first, class Sum>
__device__ __forceinline__ void drain(const Sums<Sum>& sums, uint32_t* held) {
#pragma unroll
    for (uint32_t eights = 0; eights < 128; eights += 16) {
#pragma unroll
        for (uint32_t i = eights; i < eights + 16; ++i) {
            uint32_t* const word = held + held_at(i);
            *word = static_cast<uint32_t>(assay::integer(sums[i])) + (first ? 0 : *word);
        }
        // No registers for more words under way than these: the compiler moves no load over it.
        __syncwarp();
    }
}

/// A thread holds rows lane / 4 and 8 further of its warp's 16, 64 columns at a time as store_mixed_row expects them: calls
/// `function` with each, the number of its first sum, and where it lies among the warp's.
template <class Sum, class Function>
__device__ __forceinline__ void for_each_row(const Sums<Sum>& sums, Function function) {
#pragma unroll
    for (uint32_t half = 0; half < 2; ++half)
#pragma unroll
        for (uint32_t columns = 0; columns < tile_columns; columns += 64) {
            Sum row[8][2];
#pragma unroll
            for (uint32_t j = 0; j < 8; ++j) {
                row[j][0] = sums[(columns / 8 + j) * 4 + 2 * half];
                row[j][1] = sums[(columns / 8 + j) * 4 + 2 * half + 1];
            }
            function(columns / 8 * 4 + 2 * half, half * 8 + threadIdx.x % 32 / 4, columns, row);
        }
}

/// One tile: `row` is the first of this warp's rows within it, `held` the sums drained of it before, or null.
template <class Sum>
__device__ __forceinline__ void finish(const Sums<Sum>& sums, const assay::Product& product, assay::Tile tile, uint32_t number, uint32_t row,
                                       const uint32_t* held) {
    if (product.raw) {
        uint32_t* const to = assay::raw_tile<tile_rows, tile_columns>(product, number) + row * tile_columns;
        for_each_row<Sum>(sums, [&](uint32_t, uint32_t r, uint32_t c, const Sum(&eights)[8][2]) {
            assay::store_raw_row(to + r * tile_columns + c, eights);
        });
        return;
    }
    const uint32_t position = (tile.row + row) * product.n + tile.column;
    for_each_row<Sum>(sums, [&](uint32_t first, uint32_t r, uint32_t c, const Sum(&eights)[8][2]) {
        int32_t integers[8][2];
#pragma unroll
        for (uint32_t j = 0; j < 8; ++j)
#pragma unroll
            for (uint32_t e = 0; e < 2; ++e) {
                integers[j][e] = assay::integer(eights[j][e]);
                if (held) integers[j][e] += static_cast<int32_t>(held[held_at(first + 4 * j + e)]);
            }
        const uint32_t at = position + r * product.n + c;
        assay::store_mixed_row(product.slot + at, at + product.u * assay::slot_factor, integers);
    });
}

/// A warpgroup that multiplies, number 0 or 1.
template <class Arithmetic>
__device__ __forceinline__ void consume(const Ring& ring, const assay::Product& product, uint32_t consumer) {
    const uint32_t rows = consumer * consumer_rows * depth;
    Walker at;
    for_each_tile(product, [&](assay::Tile tile, uint32_t number) {
        Sums<typename Arithmetic::Sum> sums;
        uint32_t* held = nullptr;
        if constexpr (Arithmetic::drains) {
#pragma unroll 1
            for (uint32_t left = product.depth;; left -= product.chunk) {
                accumulate<Arithmetic>(sums, ring, at, rows, product.chunk / depth);
                if (left <= product.chunk) break;
                uint32_t* const own = assay::raw_tile<tile_rows, tile_columns>(product, blockIdx.x) + threadIdx.x - warpgroup;
                if (held) drain<false>(sums, own);
                else drain<true>(sums, own);
                held = own;
            }
        } else {
            accumulate<Arithmetic>(sums, ring, at, rows, product.depth / depth);
        }
        finish<typename Arithmetic::Sum>(sums, product, tile, number, consumer * consumer_rows + threadIdx.x % warpgroup / 32 * 16, held);
    });
}

template <class Arithmetic>
__device__ __forceinline__ void run(const TensorMap& left, const TensorMap& right, const assay::Product& product) {
    ASSAY_DYNAMIC_SHARED(bytes);
    ASSAY_SHARED(uint64_t, barriers, 2 * stages);
    ASSAY_SHARED(uint4, staging, hashers * assay::warp_pieces);
    const uint32_t first_barrier = ptx::shared_address(barriers);
    const Ring ring{ptx::shared_address(bytes), first_barrier, first_barrier + 8 * stages};
    // The same in all lanes, and by the shuffle known to be: descriptors then stay in uniform registers.
    const uint32_t role = __shfl_sync(0xFFFFFFFF, threadIdx.x / warpgroup, 0);
    if (threadIdx.x == 0) ring.init();
    __syncthreads();

    if (role > 0) {
        consume<Arithmetic>(ring, product, role - 1);
    } else if (threadIdx.x >= 32) {
        const unsigned hasher = threadIdx.x / 32 - 1;
        beside::hash<hashers>(product, hasher, staging + hasher * assay::warp_pieces);
    } else if (ptx::elect_one()) {
        ptx::prefetch_map(left);
        ptx::prefetch_map(right);
        produce(ring, left, right, product);
    }
}

}  // namespace product_wgmma
