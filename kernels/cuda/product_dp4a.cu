// Slot u = mix(slot[earlier] · slot[previous]ᵀ) with dp4a: the plain tiled product, for any GPU from
// sm_61 on, and the one to read first (WORK.md, A pass).
//
// shapes   operands: [n][depth] bytes, INT8; n and depth powers of two, n from 256 to 32768, depth from 256 to 65536
// tile     128 rows x 128 columns for each block, 64 bytes of the inner dimension at a time;
//          16 x 16 threads with 8 x 8 sums each, in registers until they are mixed
// grid     `tiles` (tiles.cuh numbers them); block 256 threads, two blocks an SM
// shared   16.5 KiB static: both operands turned, [16 words of the inner dimension][128 rows + 4]
// bounds   u < 2^20; n · depth ≤ 2^31: offsets within a matrix in 32 bits
// exact    INT8 products summed in int32: |sum| ≤ 65536 · 2^14 = 2^30
//
// A thread's rows are 4 y … 4 y + 3 and those 64 further on, its columns likewise from 4 x: neighbours
// read neighbouring 16 bytes. Rows are padded by 16 bytes, so that turned stores meet few banks twice.
#include "product.cuh"

namespace product_dp4a {

constexpr unsigned tile_rows = 128, tile_columns = 128, group = 16;
constexpr unsigned threads = 256, side = 16;  // side x side threads
constexpr unsigned depth = 64;                // bytes of the inner dimension at a time
constexpr unsigned pieces = depth / 16, words = depth / 4;
constexpr unsigned rows_at_once = threads / pieces;
constexpr unsigned pitch = 128 + 4;           // words between turned rows
constexpr unsigned half = 64;                 // from a thread's first four rows to its second

static_assert(side * side == threads && tile_rows == side * 8 && tile_columns == side * 8);
static_assert(tile_rows == 2 * rows_at_once && tile_columns == 2 * rows_at_once, "two pieces of each operand for each thread");
static_assert(pitch % 4 == 0, "16-byte loads");

/// A thread's two pieces of an operand.
struct Held {
    uint4 piece[2];
};

__device__ __forceinline__ Held fetch(const uint8_t* from, uint32_t pitch_bytes) {
    return {{ptx::load_global_16(from), ptx::load_global_16(from + rows_at_once * pitch_bytes)}};
}

/// Stores the pieces turned: word w of row r goes to turned[w][r].
__device__ __forceinline__ void put(uint32_t* turned, const Held& held) {
    const unsigned row = threadIdx.x / pieces, first = threadIdx.x % pieces * 4;
#pragma unroll
    for (unsigned i = 0; i < 2; ++i) {
        uint32_t* to = turned + first * pitch + row + i * rows_at_once;
        ptx::store_shared(to, held.piece[i].x);
        ptx::store_shared(to + pitch, held.piece[i].y);
        ptx::store_shared(to + 2 * pitch, held.piece[i].z);
        ptx::store_shared(to + 3 * pitch, held.piece[i].w);
    }
}

/// Eight rows' words: four from `first` on, and four half a tile further.
__device__ __forceinline__ void take(uint32_t (&eight)[8], const uint32_t* turned, unsigned first) {
    const uint4 a = ptx::load_shared(reinterpret_cast<const uint4*>(turned + first));
    const uint4 b = ptx::load_shared(reinterpret_cast<const uint4*>(turned + first + half));
    eight[0] = a.x; eight[1] = a.y; eight[2] = a.z; eight[3] = a.w;
    eight[4] = b.x; eight[5] = b.y; eight[6] = b.z; eight[7] = b.w;
}

using Sums = int32_t[8][8];

__device__ __forceinline__ void multiply(Sums& sums, const uint32_t* left, const uint32_t* right) {
    const unsigned x = threadIdx.x % side, y = threadIdx.x / side;
#pragma unroll 2
    for (unsigned w = 0; w < words; ++w) {
        uint32_t rows[8], columns[8];
        take(rows, left + w * pitch, 4 * y);
        take(columns, right + w * pitch, 4 * x);
#pragma unroll
        for (unsigned i = 0; i < 8; ++i)
#pragma unroll
            for (unsigned j = 0; j < 8; ++j) sums[i][j] = ptx::dot4(rows[i], columns[j], sums[i][j]);
    }
}

/// Four neighbours in x hold sixteen columns of four rows: after the exchange each holds one row of them.
__device__ __forceinline__ void store(uint8_t* tile, uint32_t n, uint32_t place, const Sums& sums) {
    const unsigned x = threadIdx.x % side, y = threadIdx.x / side;
#pragma unroll
    for (unsigned i = 0; i < 8; i += 4)
#pragma unroll
        for (unsigned j = 0; j < 8; j += 4) {
            const unsigned row = 4 * y + i / 4 * half, column = 4 * x + j / 4 * half;
            uint32_t bytes[4];
#pragma unroll
            for (unsigned r = 0; r < 4; ++r) {
                const uint32_t at = place + (row + r) * n + column;
                bytes[r] = assay::top_bytes(assay::mixed(sums[i + r][j], at), assay::mixed(sums[i + r][j + 1], at + 1),
                                            assay::mixed(sums[i + r][j + 2], at + 2), assay::mixed(sums[i + r][j + 3], at + 3));
            }
            assay::transpose_4(bytes);
            uint8_t* to = tile + (row + x % 4) * n + (column - x % 4 * 4);
            ptx::store_global_16(to, uint4{bytes[0], bytes[1], bytes[2], bytes[3]});
        }
}

/// The same sums as they are.
__device__ __forceinline__ void store_raw(uint32_t* tile, const Sums& sums) {
    const unsigned x = threadIdx.x % side, y = threadIdx.x / side;
#pragma unroll
    for (unsigned i = 0; i < 8; ++i)
#pragma unroll
        for (unsigned j = 0; j < 8; ++j)
            tile[(4 * y + i / 4 * half + i % 4) * tile_columns + 4 * x + j / 4 * half + j % 4] = assay::bits_of(sums[i][j]);
}

}  // namespace product_dp4a

extern "C" __global__ void __launch_bounds__(product_dp4a::threads, 2)
assay_product_dp4a(const __grid_constant__ assay::Product product) {
    namespace p = product_dp4a;
    if (blockIdx.x >= product.tiles) return;
    ASSAY_SHARED(uint32_t, left, p::words * p::pitch);
    ASSAY_SHARED(uint32_t, right, p::words * p::pitch);
    const uint32_t n = product.n, depth = product.depth;
    const assay::Tile tile = assay::tile_at<p::tile_rows, p::tile_columns, p::group>(product.first_tile + blockIdx.x, n);
    const uint32_t mine = threadIdx.x / p::pieces * depth + threadIdx.x % p::pieces * 16;
    const uint8_t* from_left = assay::operand_row(product.left, tile.row, product) + mine;
    const uint8_t* from_right = assay::operand_row(product.right, tile.column, product) + mine;

    p::Sums sums = {};
    p::Held next_left = p::fetch(from_left, depth), next_right = p::fetch(from_right, depth);
#pragma unroll 1
    for (uint32_t k = p::depth;; k += p::depth) {
        p::put(left, next_left);
        p::put(right, next_right);
        __syncthreads();
        if (k < depth) {
            next_left = p::fetch(from_left + k, depth);
            next_right = p::fetch(from_right + k, depth);
        }
        p::multiply(sums, left, right);
        if (k >= depth) break;
        __syncthreads();
    }

    if (product.raw) return p::store_raw(assay::raw_tile<p::tile_rows, p::tile_columns>(product, blockIdx.x), sums);
    const uint32_t position = tile.row * n + tile.column;
    p::store(product.slot + position, n, position + product.u * assay::slot_factor, sums);
}

ASSAY_PRODUCT(assay_product_dp4a, product_dp4a::threads, 0, product_dp4a::tile_rows, product_dp4a::tile_columns);
