// Slot u = mix(slot[earlier] · slot[previous]ᵀ) with the mma.sync of Turing, whose operands are 16 bytes wide: m8n8k16 of
// S8, m16n8k8 of FP16. Their fragments lie alike, so that only the instruction differs. It is the `Arithmetic`: `Sum` is a
// sum's type, `drains` says whether it is a float, `multiply` is 32 rows by 8 columns by 16 bytes (WORK.md, A pass).
//
// shapes   operands: [n][depth] bytes; n and depth powers of two, n from 256 to 32768, depth from 256 to 65536
// tile     128 rows x 128 columns for each block, 64 bytes of the inner dimension at a time;
//          8 warps, 4 x 2, each 32 x 64: 64 sums for each thread, in registers until they are mixed
// grid     `tiles` (tiles.cuh numbers them); block 256 threads, two blocks an SM
// shared   32 KiB dynamic: 2 stages of 128 + 128 rows of 64 bytes
// bounds   u < 2^20; n · depth ≤ 2^31: offsets within a matrix in 32 bits
// exact    INT8: products summed in int32, |sum| ≤ 65536 · 2^14 = 2^30
//          floats: integers, summed in FP32 while all partial sums stay below 2^24, which `chunk` bounds. Then the sums
//          are drained: converted, and added up in int32 in `sums`, 64 words a thread, [register][thread]
//
// Turing has no cp.async: the next stage is on its way to registers while this one is multiplied. Pieces
// of 16 bytes lie at their place XOR bits 1-2 of the row, so that ldmatrix meets no bank twice.
#pragma once
#include "product.cuh"

namespace product_turing {

constexpr unsigned tile_rows = 128, tile_columns = 128, group = 16;
constexpr unsigned threads = 256, warp_rows = 32, warp_columns = 64;
constexpr unsigned depth = 64;  // bytes of the inner dimension in a stage
constexpr unsigned inner = 16;  // and in one mma
constexpr unsigned stages = 2;
constexpr unsigned pieces = depth / 16;
constexpr unsigned rows_at_once = threads / pieces;
constexpr unsigned left_bytes = tile_rows * depth, right_bytes = tile_columns * depth;
constexpr unsigned stage_bytes = left_bytes + right_bytes;
constexpr unsigned shared_bytes = stages * stage_bytes;
constexpr unsigned warps_down = tile_rows / warp_rows;
constexpr unsigned row_tiles = warp_rows / 8, column_tiles = warp_columns / 8;
constexpr unsigned left_loads = tile_rows / rows_at_once, right_loads = tile_columns / rows_at_once;

static_assert(warps_down * (tile_columns / warp_columns) * 32 == threads);
static_assert(shared_bytes <= 32 * 1024, "two blocks share the 64 KiB of an SM");
static_assert(row_tiles == 4 && column_tiles == 8, "one ldmatrix for the rows, two for the columns");
static_assert(tile_rows % rows_at_once == 0 && tile_columns % rows_at_once == 0);
static_assert(rows_at_once % 8 == 0, "a thread's pieces are swizzled alike in all its rows");

__device__ __forceinline__ unsigned swizzle(unsigned row, unsigned piece) { return piece ^ (row >> 1 & 3); }

/// A thread's share of a stage, on its way from global through registers to shared memory.
struct Loader {
    const uint8_t *left, *right;
    uint8_t* to;
    uint32_t pitch_bytes;
    uint4 held[left_loads + right_loads];

    __device__ __forceinline__ Loader(const uint8_t* first_left, const uint8_t* first_right, uint32_t pitch_bytes, uint8_t* shared)
        : pitch_bytes(pitch_bytes) {
        const unsigned row = threadIdx.x / pieces, piece = threadIdx.x % pieces;
        left = first_left + row * pitch_bytes + piece * 16;
        right = first_right + row * pitch_bytes + piece * 16;
        to = shared + row * depth + swizzle(row, piece) * 16;
    }

    __device__ __forceinline__ void fetch() {
#pragma unroll
        for (unsigned i = 0; i < left_loads; ++i) held[i] = ptx::load_global_16(left + i * rows_at_once * pitch_bytes);
#pragma unroll
        for (unsigned i = 0; i < right_loads; ++i) held[left_loads + i] = ptx::load_global_16(right + i * rows_at_once * pitch_bytes);
        left += depth;
        right += depth;
    }

    /// The right operand's rows follow the left one's.
    __device__ __forceinline__ void put(unsigned stage) const {
#pragma unroll
        for (unsigned i = 0; i < left_loads + right_loads; ++i)
            ptx::store_shared(reinterpret_cast<uint4*>(to + stage * stage_bytes + i * rows_at_once * depth), held[i]);
    }
};

template <class Sum>
using Sums = Sum[row_tiles][column_tiles][2];

/// Multiplies a whole stage. Lane l names row l of 32: one ldmatrix gives four tiles' operands.
template <class Arithmetic>
__device__ __forceinline__ void multiply(Sums<typename Arithmetic::Sum>& sums, uint32_t shared, unsigned first_row, unsigned first_column) {
    const unsigned lane = threadIdx.x % 32;
    const uint32_t left = shared + (first_row + lane) * depth;
    const uint32_t right = shared + left_bytes + (first_column + lane) * depth;
#pragma unroll
    for (unsigned step = 0; step < depth / inner; ++step) {
        const unsigned at = swizzle(lane, step) * 16;
        uint32_t rows[4], columns[2][4];
        ptx::load_matrices(rows, left + at);
        ptx::load_matrices(columns[0], right + at);
        ptx::load_matrices(columns[1], right + 32 * depth + at);
#pragma unroll
        for (unsigned j = 0; j < column_tiles; ++j)
            Arithmetic::multiply(sums[0][j], sums[1][j], sums[2][j], sums[3][j], rows, columns[j / 4][j % 4]);
    }
}

/// Where a thread's sum (i, j, e) is held between chunks, from the thread's first word on.
__device__ __forceinline__ constexpr unsigned held_at(unsigned i, unsigned j, unsigned e) { return ((i * column_tiles + j) * 2 + e) * threads; }

/// Adds the sums to those drained before, unless they are the first, and starts them anew.
template <class Sum>
__device__ __forceinline__ void drain(Sums<Sum>& sums, uint32_t* held, bool first) {
#pragma unroll
    for (unsigned i = 0; i < row_tiles; ++i) {
#pragma unroll
        for (unsigned j = 0; j < column_tiles; ++j)
#pragma unroll
            for (unsigned e = 0; e < 2; ++e) {
                uint32_t* const word = held + held_at(i, j, e);
                *word = static_cast<uint32_t>(assay::integer(sums[i][j][e])) + (first ? 0 : *word);
                sums[i][j][e] = 0;
            }
        // No registers for more words under way than these: the compiler moves no load over it.
        __syncwarp();
    }
}

template <class Arithmetic>
__device__ __forceinline__ void run(const assay::Product& product) {
    using Sum = typename Arithmetic::Sum;
    if (blockIdx.x >= product.tiles) return;
    ASSAY_DYNAMIC_SHARED(ring);
    const uint32_t shared = ptx::shared_address(ring), n = product.n;
    const assay::Tile tile = assay::tile_at<tile_rows, tile_columns, group>(product.first_tile + blockIdx.x, n);
    const unsigned warp = threadIdx.x / 32;
    const unsigned row = warp % warps_down * warp_rows, column = warp / warps_down * warp_columns;

    Loader loader(assay::operand_row(product.left, tile.row, product), assay::operand_row(product.right, tile.column, product),
                  product.depth, ring);
    uint32_t* const own = assay::raw_tile<tile_rows, tile_columns>(product, blockIdx.x);
    Sums<Sum> sums = {};
    const uint32_t* held = nullptr;
    loader.fetch();
    loader.put(0);
    __syncthreads();
    const unsigned rounds = product.depth / depth, rounds_of_chunk = product.chunk / depth;
#pragma unroll 1
    for (unsigned round = 0; round < rounds; ++round) {
        const bool more = round + 1 < rounds;
        if (more) loader.fetch();
        multiply<Arithmetic>(sums, shared + round % 2 * stage_bytes, row, column);
        // The other stage was left by all warps before the last barrier.
        if (more) loader.put((round + 1) % 2);
        __syncthreads();
        if (Arithmetic::drains && more && (round + 1) % rounds_of_chunk == 0) {
            drain<Sum>(sums, own + threadIdx.x, !held);
            held = own + threadIdx.x;
        }
    }

    // A thread holds row lane / 4 of each eight, as store_mixed_row expects it.
    const unsigned mine = row + threadIdx.x % 32 / 4;
    if (product.raw) {
        uint32_t* const to = own + mine * tile_columns + column;
#pragma unroll
        for (unsigned i = 0; i < row_tiles; ++i) assay::store_raw_row(to + i * 8 * tile_columns, sums[i]);
        return;
    }
    const uint32_t position = (tile.row + mine) * n + tile.column + column;
#pragma unroll
    for (unsigned i = 0; i < row_tiles; ++i) {
        int32_t integers[column_tiles][2];
#pragma unroll
        for (unsigned j = 0; j < column_tiles; ++j)
#pragma unroll
            for (unsigned e = 0; e < 2; ++e) {
                integers[j][e] = assay::integer(sums[i][j][e]);
                if (held) integers[j][e] += static_cast<int32_t>(held[held_at(i, j, e)]);
            }
        const uint32_t at = position + i * 8 * n;
        assay::store_mixed_row(product.slot + at, at + product.u * assay::slot_factor, integers);
    }
}

}  // namespace product_turing
