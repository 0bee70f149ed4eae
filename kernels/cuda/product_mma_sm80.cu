// Slot u = mix(slot[earlier] · slot[previous]ᵀ) with mma.sync.m16n8k32 and cp.async: Ampere, Ada, and
// Blackwell without tcgen05; Hopper where wgmma is not wanted (WORK.md, A pass).
//
// shapes   slots: [count][n][n] bytes, n a power of two from 256 to 32768
// tile     128 rows x 256 columns for each block, 64 bytes of the inner dimension at a time;
//          8 warps, 2 x 4, each 64 x 64: 128 sums for each thread, in registers until they are mixed
// grid     `tiles` (tiles.cuh numbers them); block 256 threads
// shared   96 KiB dynamic: 4 stages of 128 + 256 rows of 64 bytes. What an RTX card has; one block an SM
// bounds   u < 2^20; offsets into slots in 64 bits, within a slot in 32
// exact    INT8 products summed in int32: |sum| ≤ 32768 · 2^14 = 2^29
//
// Stage s holds rows of 64 bytes as four pieces of 16, piece q at q XOR bits 1-2 of the row, so that the
// eight rows of a matrix that ldmatrix reads lie in different banks.
#include "mix.cuh"
#include "tiles.cuh"

namespace product_mma_sm80 {

constexpr unsigned tile_rows = 128, tile_columns = 256, group = 16;
constexpr unsigned threads = 256, warp_rows = 64, warp_columns = 64;
constexpr unsigned depth = 64;    // bytes of the inner dimension in a stage
constexpr unsigned inner = 32;    // and in one mma
constexpr unsigned stages = 4;
constexpr unsigned pieces = depth / 16;
constexpr unsigned rows_at_once = threads / pieces;  // that one cp.async of every thread copies
constexpr unsigned left_bytes = tile_rows * depth, right_bytes = tile_columns * depth;
constexpr unsigned stage_bytes = left_bytes + right_bytes;
constexpr unsigned shared_bytes = stages * stage_bytes;
constexpr unsigned warps_down = tile_rows / warp_rows;
constexpr unsigned row_tiles = warp_rows / 16, column_tiles = warp_columns / 8;

static_assert(warps_down * (tile_columns / warp_columns) * 32 == threads);
static_assert(shared_bytes <= 99 * 1024, "an RTX card gives a block 99 KiB");
static_assert(depth == 2 * inner, "the pipeline below alternates two fragments");
static_assert(tile_rows % rows_at_once == 0 && tile_columns % rows_at_once == 0);
static_assert(rows_at_once % 8 == 0, "a thread's pieces are swizzled alike in all its rows");
static_assert(256 / depth >= stages, "the smallest matrix fills the pipeline");

__device__ __forceinline__ unsigned swizzle(unsigned row, unsigned piece) { return piece ^ (row >> 1 & 3); }

/// What a thread copies: one piece of every 64th row of both operands, stage after stage.
struct Loader {
    const uint8_t *left, *right;
    uint32_t n, to;

    __device__ __forceinline__ Loader(const uint8_t* first_left, const uint8_t* first_right, uint32_t n, uint32_t shared) : n(n) {
        const unsigned row = threadIdx.x / pieces, piece = threadIdx.x % pieces;
        left = first_left + row * n + piece * 16;
        right = first_right + row * n + piece * 16;
        to = shared + row * depth + swizzle(row, piece) * 16;
    }

    /// Copies the next `depth` bytes of every row into `stage`.
    __device__ __forceinline__ void copy(unsigned stage) {
        const uint32_t at = to + stage * stage_bytes;
#pragma unroll
        for (unsigned i = 0; i < tile_rows / rows_at_once; ++i)
            ptx::copy_async_16(at + i * rows_at_once * depth, left + i * rows_at_once * n);
#pragma unroll
        for (unsigned i = 0; i < tile_columns / rows_at_once; ++i)
            ptx::copy_async_16(at + left_bytes + i * rows_at_once * depth, right + i * rows_at_once * n);
        left += depth;
        right += depth;
    }
};

/// A warp's operands for one mma step.
struct Fragments {
    uint32_t left[row_tiles][4];
    uint32_t right[column_tiles][2];
};

/// Reads fragments out of a stage. Lane l names row l % 16, piece l / 16 of sixteen rows of the left
/// operand; of the right one row l % 8 + 8 · (l / 16), piece l / 8 % 2, which gives two mma their columns.
struct Reader {
    uint32_t left, right;
    unsigned left_piece, right_piece;

    __device__ __forceinline__ Reader(uint32_t shared, unsigned first_row, unsigned first_column) {
        const unsigned lane = threadIdx.x % 32;
        const unsigned row = lane % 16, column = lane % 8 + lane / 16 * 8;
        left = shared + (first_row + row) * depth;
        right = shared + left_bytes + (first_column + column) * depth;
        left_piece = swizzle(row, lane / 16) * 16;
        right_piece = swizzle(column, lane / 8 % 2) * 16;
    }

    /// Step 0 or 1 of `stage`. The second step's pieces are two further on: XOR, since they are swizzled.
    __device__ __forceinline__ void read(Fragments& to, unsigned stage, unsigned step) const {
        const uint32_t a = left + stage * stage_bytes + (left_piece ^ step * inner);
        const uint32_t b = right + stage * stage_bytes + (right_piece ^ step * inner);
#pragma unroll
        for (unsigned i = 0; i < row_tiles; ++i) ptx::load_matrices(to.left[i], a + i * 16 * depth);
#pragma unroll
        for (unsigned j = 0; j < column_tiles; j += 2) {
            uint32_t four[4];
            ptx::load_matrices(four, b + j * 8 * depth);
            to.right[j][0] = four[0];
            to.right[j][1] = four[1];
            to.right[j + 1][0] = four[2];
            to.right[j + 1][1] = four[3];
        }
    }
};

using Sums = int32_t[row_tiles][column_tiles][4];

__device__ __forceinline__ void multiply(Sums& sums, const Fragments& f) {
#pragma unroll
    for (unsigned i = 0; i < row_tiles; ++i)
#pragma unroll
        for (unsigned j = 0; j < column_tiles; ++j) ptx::mma_m16n8k32(sums[i][j], f.left[i], f.right[j]);
}

/// The inner dimension: copies run three stages ahead, fragments one step.
__device__ __forceinline__ void accumulate(Sums& sums, Loader& loader, const Reader& reader, uint32_t n) {
#pragma unroll
    for (unsigned stage = 0; stage < stages - 1; ++stage) {
        loader.copy(stage);
        ptx::copy_commit();
    }
    ptx::copy_wait<stages - 2>();
    __syncthreads();
    Fragments fragments[2];
    reader.read(fragments[0], 0, 0);

    const unsigned rounds = n / depth;
#pragma unroll 1
    for (unsigned round = 0; round < rounds; ++round) {
        const unsigned stage = round % stages;
        reader.read(fragments[1], stage, 1);
        // Into the stage that all warps left before the last barrier. A group is committed in any case, so
        // that the count below holds to the end.
        if (round + stages - 1 < rounds) loader.copy((round + stages - 1) % stages);
        ptx::copy_commit();
        multiply(sums, fragments[0]);
        ptx::copy_wait<stages - 2>();
        __syncthreads();
        // After the last round this reads an old stage, for nothing.
        reader.read(fragments[0], (round + 1) % stages, 0);
        multiply(sums, fragments[1]);
    }
}

/// A thread holds rows lane / 4 and 8 further of each 16, as store_mixed_row expects them.
__device__ __forceinline__ void store(uint8_t* to, uint32_t n, uint32_t place, const Sums& sums) {
#pragma unroll
    for (unsigned i = 0; i < row_tiles; ++i)
#pragma unroll
        for (unsigned half = 0; half < 2; ++half) {
            const uint32_t offset = (i * 16 + half * 8 + threadIdx.x % 32 / 4) * n;
            int32_t row[column_tiles][2];
#pragma unroll
            for (unsigned j = 0; j < column_tiles; ++j) {
                row[j][0] = sums[i][j][2 * half];
                row[j][1] = sums[i][j][2 * half + 1];
            }
            assay::store_mixed_row(to + offset, place + offset, row);
        }
}

}  // namespace product_mma_sm80

extern "C" __global__ void __launch_bounds__(product_mma_sm80::threads, 1)
assay_product_mma_sm80(uint8_t* slots, uint32_t n, uint32_t earlier, uint32_t previous, uint32_t u,
                       uint32_t first_tile, uint32_t tiles) {
    namespace p = product_mma_sm80;
    if (blockIdx.x >= tiles) return;
    ASSAY_DYNAMIC_SHARED(stages);
    const uint32_t shared = ptx::shared_address(stages);
    const assay::Tile tile = assay::tile_at<p::tile_rows, p::tile_columns, p::group>(first_tile + blockIdx.x, n);
    const unsigned warp = threadIdx.x / 32;
    const unsigned row = warp % p::warps_down * p::warp_rows, column = warp / p::warps_down * p::warp_columns;

    p::Loader loader(assay::slot_at(slots, earlier, n) + tile.row * n, assay::slot_at(slots, previous, n) + tile.column * n, n, shared);
    const p::Reader reader(shared, row, column);
    p::Sums sums = {};
    p::accumulate(sums, loader, reader, n);

    const uint32_t position = (tile.row + row) * n + tile.column + column;
    p::store(assay::slot_at(slots, u, n) + position, n, position + u * assay::slot_factor, sums);
}

ASSAY_PRODUCT(assay_product_mma_sm80, product_mma_sm80::threads, product_mma_sm80::shared_bytes,
              product_mma_sm80::tile_rows, product_mma_sm80::tile_columns);
