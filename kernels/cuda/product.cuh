// One launch of a product, as every family takes it, and what becomes of a tile's sums (docs/KERNELS.md,
// Kernel interfaces).
#pragma once
#include "mix.cuh"
#include "tiles.cuh"

namespace assay {

/// The argument of every product kernel, by value. The backend's `ProductArguments` and the check program's launchers
/// repeat it.
struct Product {
    const uint8_t* left;   // operands of slot[earlier], [n][depth] bytes
    const uint8_t* right;  // operands of slot[previous], the same
    uint8_t* slot;         // slot u, [n][n] bytes; not touched where `raw`
    uint32_t* sums;        // what `raw` and `chunk` say; else not touched
    uint32_t n;            // side of the matrix
    uint32_t depth;        // bytes of a row of operands, all of which are multiplied
    uint32_t chunk;        // after so many bytes of the inner dimension float sums are drained; it divides depth
    uint32_t raw;          // 1: the unit's own sums, unmixed and unconverted, go to sums[tile - first_tile][row][column]
    uint32_t u;            // the slot's number
    uint32_t first_tile, tiles;
    const uint8_t* hashed;  // null, or a slot that idle warps hash (beside.cuh), of the same side
    uint32_t* partials;     // the values of its groups, and of those
    uint32_t* arrivals;     // counters: 0 before and afterwards
    uint32_t* digest;
};
static_assert(sizeof(Product) == 96, "the backend's struct");

/// The integer of a sum. Float sums are integers below 2^24: nothing is rounded.
__device__ __forceinline__ int32_t integer(int32_t sum) { return sum; }
__device__ __forceinline__ int32_t integer(float sum) { return __float2int_rn(sum); }
/// That of a sum in units of 2^-STEP.
template <int STEP, class Sum>
__device__ __forceinline__ int32_t integer_of_steps(Sum sum) {
    return integer(sum * static_cast<Sum>(1 << STEP));
}

__device__ __forceinline__ uint32_t bits_of(int32_t sum) { return static_cast<uint32_t>(sum); }
__device__ __forceinline__ uint32_t bits_of(float sum) { return __float_as_uint(sum); }

/// Where the raw sums of a tile begin; `number` counts within the launch.
template <unsigned ROWS, unsigned COLUMNS>
__device__ __forceinline__ uint32_t* raw_tile(const Product& product, uint32_t number) {
    return product.sums + uint64_t{number} * (ROWS * COLUMNS);
}

/// The operands' row `row`.
__device__ __forceinline__ const uint8_t* operand_row(const uint8_t* operands, uint32_t row, const Product& product) {
    return operands + row * product.depth;
}

/// 64 columns of one row from the accumulators of mma, as they are, laid out as store_mixed_row has them.
template <class Sum>
__device__ __forceinline__ void store_raw_row(uint32_t* row, const Sum (&sums)[8][2]) {
    const unsigned t = threadIdx.x % 4;
#pragma unroll
    for (unsigned j = 0; j < 8; ++j) {
        row[8 * j + 2 * t] = bits_of(sums[j][0]);
        row[8 * j + 2 * t + 1] = bits_of(sums[j][1]);
    }
}

}  // namespace assay
