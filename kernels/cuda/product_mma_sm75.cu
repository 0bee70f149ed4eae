// Slot u = mix(slot[earlier] · slot[previous]ᵀ) with mma.sync.m8n8k16: Turing (WORK.md, A pass).
//
// shapes   slots: [count][n][n] bytes, n a power of two from 256 to 32768
// tile     128 rows x 128 columns for each block, 64 bytes of the inner dimension at a time;
//          8 warps, 4 x 2, each 32 x 64: 64 sums for each thread, in registers until they are mixed
// grid     `tiles` (tiles.cuh numbers them); block 256 threads, two blocks an SM
// shared   32 KiB dynamic: 2 stages of 128 + 128 rows of 64 bytes
// bounds   u < 2^20; offsets into slots in 64 bits, within a slot in 32
// exact    INT8 products summed in int32: |sum| ≤ 32768 · 2^14 = 2^29
//
// Turing has no cp.async: the next stage is on its way to registers while this one is multiplied. Pieces
// of 16 bytes lie at their place XOR bits 1-2 of the row, so that ldmatrix meets no bank twice.
#include "mix.cuh"
#include "tiles.cuh"

namespace product_mma_sm75 {

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
    uint32_t n;
    uint4 held[left_loads + right_loads];

    __device__ __forceinline__ Loader(const uint8_t* first_left, const uint8_t* first_right, uint32_t n, uint8_t* shared) : n(n) {
        const unsigned row = threadIdx.x / pieces, piece = threadIdx.x % pieces;
        left = first_left + row * n + piece * 16;
        right = first_right + row * n + piece * 16;
        to = shared + row * depth + swizzle(row, piece) * 16;
    }

    __device__ __forceinline__ void fetch() {
#pragma unroll
        for (unsigned i = 0; i < left_loads; ++i) held[i] = ptx::load_global_16(left + i * rows_at_once * n);
#pragma unroll
        for (unsigned i = 0; i < right_loads; ++i) held[left_loads + i] = ptx::load_global_16(right + i * rows_at_once * n);
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

using Sums = int32_t[row_tiles][column_tiles][2];

/// Multiplies a whole stage. Lane l names row l of 32: one ldmatrix gives four tiles' operands.
__device__ __forceinline__ void multiply(Sums& sums, uint32_t shared, unsigned first_row, unsigned first_column) {
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
        for (unsigned i = 0; i < row_tiles; ++i)
#pragma unroll
            for (unsigned j = 0; j < column_tiles; ++j) ptx::mma_m8n8k16(sums[i][j], rows[i], columns[j / 4][j % 4]);
    }
}

}  // namespace product_mma_sm75

extern "C" __global__ void __launch_bounds__(product_mma_sm75::threads, 1)
assay_product_mma_sm75(uint8_t* slots, uint32_t n, uint32_t earlier, uint32_t previous, uint32_t u,
                       uint32_t first_tile, uint32_t tiles) {
    namespace p = product_mma_sm75;
    if (blockIdx.x >= tiles) return;
    ASSAY_DYNAMIC_SHARED(stages);
    const uint32_t shared = ptx::shared_address(stages);
    const assay::Tile tile = assay::tile_at<p::tile_rows, p::tile_columns, p::group>(first_tile + blockIdx.x, n);
    const unsigned warp = threadIdx.x / 32;
    const unsigned row = warp % p::warps_down * p::warp_rows, column = warp / p::warps_down * p::warp_columns;

    p::Loader loader(assay::slot_at(slots, earlier, n) + tile.row * n, assay::slot_at(slots, previous, n) + tile.column * n, n, stages);
    p::Sums sums = {};
    loader.fetch();
    loader.put(0);
    __syncthreads();
    const unsigned rounds = n / p::depth;
#pragma unroll 1
    for (unsigned round = 0; round < rounds; ++round) {
        const bool more = round + 1 < rounds;
        if (more) loader.fetch();
        p::multiply(sums, shared + round % 2 * p::stage_bytes, row, column);
        // The other stage was left by all warps before the last barrier.
        if (more) loader.put((round + 1) % 2);
        __syncthreads();
    }

    const uint32_t position = (tile.row + row) * n + tile.column + column;
    uint8_t* to = assay::slot_at(slots, u, n) + position;
#pragma unroll
    for (unsigned i = 0; i < p::row_tiles; ++i) {
        const uint32_t offset = (i * 8 + threadIdx.x % 32 / 4) * n;
        assay::store_mixed_row(to + offset, position + u * assay::slot_factor + offset, sums[i]);
    }
}

ASSAY_PRODUCT(assay_product_mma_sm75, product_mma_sm75::threads, product_mma_sm75::shared_bytes,
              product_mma_sm75::tile_rows, product_mma_sm75::tile_columns);
