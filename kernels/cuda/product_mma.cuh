// Slot u = mix(slot[earlier] · slot[previous]ᵀ) with mma.sync and cp.async, for every kind of operand whose mma takes
// 16 rows of 32 bytes by 8 columns of 32 bytes: their fragments lie alike (PTX ISA, "Matrix Fragments" for m16n8k16 of
// BF16, m16n8k32 of S8, m16n8k64 of E2M1), so that only the instruction differs. It is the `Arithmetic`: `Sum` is a sum's
// type, `drains` says whether it is a float, 2^-`step` is its unit, `multiply` is one mma. Ampere, Ada, and Blackwell
// without tcgen05; Hopper where wgmma is not wanted (WORK.md, A pass).
//
// shapes   operands: [n][depth] bytes; n and depth powers of two, n from 256 to 32768, depth from 256 to 65536
// tile     128 rows x 256 columns for each block, 64 bytes of the inner dimension at a time;
//          8 warps, 2 x 4, each 64 x 64: 128 sums for each thread, in registers until they are mixed
// grid     `tiles` (tiles.cuh numbers them); block 256 threads
// shared   96 KiB dynamic: 4 stages of 128 + 256 rows of 64 bytes. An RTX card has that much; one block an SM
// bounds   u < 2^20; n · depth ≤ 2^31: offsets within a matrix in 32 bits
// exact    INT8: products summed in int32, |sum| ≤ 65536 · 2^14 = 2^30
//          floats: integers, summed in FP32 while all partial sums stay below 2^24 (E2M1: quarters, 2^22), which `chunk`
//          bounds. Then the sums are drained: converted, and added up in int32 in `sums`, 128 words a thread,
//          [register][thread]
//
// Stage s holds rows of 64 bytes as four pieces of 16, piece q at q XOR bits 1-2 of the row, so that the
// eight rows of a matrix that ldmatrix reads lie in different banks.
#pragma once
#include "product.cuh"

namespace product_mma {

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

/// Copies a thread's part: one piece of every 64th row of both operands, stage after stage.
struct Loader {
    const uint8_t *left, *right;
    uint32_t pitch_bytes, to;

    __device__ __forceinline__ Loader(const uint8_t* first_left, const uint8_t* first_right, uint32_t pitch_bytes, uint32_t shared)
        : pitch_bytes(pitch_bytes) {
        const unsigned row = threadIdx.x / pieces, piece = threadIdx.x % pieces;
        left = first_left + row * pitch_bytes + piece * 16;
        right = first_right + row * pitch_bytes + piece * 16;
        to = shared + row * depth + swizzle(row, piece) * 16;
    }

    /// Copies the next `depth` bytes of every row into `stage`.
    __device__ __forceinline__ void copy(unsigned stage) {
        const uint32_t at = to + stage * stage_bytes;
#pragma unroll
        for (unsigned i = 0; i < tile_rows / rows_at_once; ++i)
            ptx::copy_async_16(at + i * rows_at_once * depth, left + i * rows_at_once * pitch_bytes);
#pragma unroll
        for (unsigned i = 0; i < tile_columns / rows_at_once; ++i)
            ptx::copy_async_16(at + left_bytes + i * rows_at_once * depth, right + i * rows_at_once * pitch_bytes);
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

template <class Sum>
using Sums = Sum[row_tiles][column_tiles][4];

template <class Arithmetic>
__device__ __forceinline__ void multiply(Sums<typename Arithmetic::Sum>& sums, const Fragments& f) {
#pragma unroll
    for (unsigned i = 0; i < row_tiles; ++i)
#pragma unroll
        for (unsigned j = 0; j < column_tiles; ++j) Arithmetic::multiply(sums[i][j], f.left[i], f.right[j]);
}

/// `bytes` of the inner dimension: copies run three stages ahead, fragments one step.
template <class Arithmetic>
__device__ __forceinline__ void accumulate(Sums<typename Arithmetic::Sum>& sums, Loader& loader, const Reader& reader, uint32_t bytes) {
#pragma unroll
    for (unsigned stage = 0; stage < stages - 1; ++stage) {
        loader.copy(stage);
        ptx::copy_commit();
    }
    ptx::copy_wait<stages - 2>();
    __syncthreads();
    Fragments fragments[2];
    reader.read(fragments[0], 0, 0);

    const unsigned rounds = bytes / depth;
#pragma unroll 1
    for (unsigned round = 0; round < rounds; ++round) {
        const unsigned stage = round % stages;
        reader.read(fragments[1], stage, 1);
        // Into the stage that all warps left before the last barrier. A group is committed in any case, so
        // that the count below holds to the end.
        if (round + stages - 1 < rounds) loader.copy((round + stages - 1) % stages);
        ptx::copy_commit();
        multiply<Arithmetic>(sums, fragments[0]);
        ptx::copy_wait<stages - 2>();
        __syncthreads();
        // After the last round this reads an old stage, for nothing.
        reader.read(fragments[0], (round + 1) % stages, 0);
        multiply<Arithmetic>(sums, fragments[1]);
    }
}

/// Where a thread's sum (i, j, e) is held between chunks, from the thread's first word on.
__device__ __forceinline__ constexpr unsigned held_at(unsigned i, unsigned j, unsigned e) { return ((i * column_tiles + j) * 4 + e) * threads; }

/// Adds the sums to those drained before, unless they are the first, and starts them anew.
template <class Arithmetic, bool first>
__device__ __forceinline__ void drain(Sums<typename Arithmetic::Sum>& sums, uint32_t* held) {
#pragma unroll
    for (unsigned i = 0; i < row_tiles; ++i) {
#pragma unroll
        for (unsigned j = 0; j < column_tiles; ++j)
#pragma unroll
            for (unsigned e = 0; e < 4; ++e) {
                uint32_t* const word = held + held_at(i, j, e);
                *word = static_cast<uint32_t>(assay::integer_of_steps<Arithmetic::step>(sums[i][j][e])) + (first ? 0 : *word);
                sums[i][j][e] = 0;
            }
        // No registers for more words under way than these: the compiler moves no load over it.
        __syncwarp();
    }
}

/// A thread holds rows lane / 4 and 8 further of each 16, as store_mixed_row expects them: calls `function` with each, which
/// of the 16, and where it lies among the warp's.
template <class Sum, class Function>
__device__ __forceinline__ void for_each_row(const Sums<Sum>& sums, Function function) {
#pragma unroll
    for (unsigned i = 0; i < row_tiles; ++i)
#pragma unroll
        for (unsigned half = 0; half < 2; ++half) {
            Sum row[column_tiles][2];
#pragma unroll
            for (unsigned j = 0; j < column_tiles; ++j) {
                row[j][0] = sums[i][j][2 * half];
                row[j][1] = sums[i][j][2 * half + 1];
            }
            function(i, half, i * 16 + half * 8 + threadIdx.x % 32 / 4, row);
        }
}

/// A row's sums as integers, with those drained of them before; `held` is null where none were.
template <class Arithmetic>
__device__ __forceinline__ void total(int32_t (&integers)[column_tiles][2], const typename Arithmetic::Sum (&row)[column_tiles][2], const uint32_t* held,
                                      unsigned i, unsigned half) {
#pragma unroll
    for (unsigned j = 0; j < column_tiles; ++j)
#pragma unroll
        for (unsigned e = 0; e < 2; ++e) {
            integers[j][e] = assay::integer_of_steps<Arithmetic::step>(row[j][e]);
            if (held) integers[j][e] += static_cast<int32_t>(held[held_at(i, j, 2 * half + e)]);
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
                  product.depth, shared);
    const Reader reader(shared, row, column);
    uint32_t* const own = assay::raw_tile<tile_rows, tile_columns>(product, blockIdx.x);
    Sums<Sum> sums = {};
    const uint32_t* held = nullptr;
    if constexpr (Arithmetic::drains) {
#pragma unroll 1
        for (uint32_t left = product.depth;; left -= product.chunk) {
            accumulate<Arithmetic>(sums, loader, reader, product.chunk);
            if (left <= product.chunk) break;
            if (held) drain<Arithmetic, false>(sums, own + threadIdx.x);
            else drain<Arithmetic, true>(sums, own + threadIdx.x);
            held = own + threadIdx.x;
            // Every warp has left the stages that the next chunk's first copies go into.
            __syncthreads();
        }
    } else {
        accumulate<Arithmetic>(sums, loader, reader, product.depth);
    }

    if (product.raw) {
        uint32_t* const to = own + row * tile_columns + column;
        for_each_row<Sum>(sums, [&](unsigned, unsigned, unsigned r, const Sum(&eights)[column_tiles][2]) {
            assay::store_raw_row(to + r * tile_columns, eights);
        });
        return;
    }
    const uint32_t position = (tile.row + row) * n + tile.column + column;
    for_each_row<Sum>(sums, [&](unsigned i, unsigned half, unsigned r, const Sum(&eights)[column_tiles][2]) {
        int32_t integers[column_tiles][2];
        total<Arithmetic>(integers, eights, held, i, half);
        const uint32_t at = position + r * n;
        assay::store_mixed_row(product.slot + at, at + product.u * assay::slot_factor, integers);
    });
}

}  // namespace product_mma
