// Sums of a sweep: sums[r] = Σ_k slots[r][k] · weights[k] over the rows of slots that lie one behind another (WORK.md, Sweep).
//
// shapes   slots: 64 · grid rows of n bytes; weights: n bytes; sums: 64 · grid words; all 16-byte aligned
// grid     rows / 64; block 256 threads, 16 lanes for each four rows
// shared   none: a piece of weights is in registers for four rows, and in the L1 cache for all others
// bounds   256 ≤ n ≤ 32768, a power of two: rows are whole runs of 256 bytes, and a slot's rows whole blocks
// exact    integers: |product| ≤ 2^14, |sum| ≤ 2^29, so that the order of the terms does not show
//
// The lanes of a row read 256 bytes of it in one load; a warp has 2 KiB under way.
#include "device.cuh"

namespace sweep {

constexpr unsigned threads = 256;
constexpr unsigned lanes = 16;
constexpr unsigned rows = 4;
constexpr unsigned block_rows = threads / lanes * rows;
constexpr unsigned piece_bytes = 16;
constexpr unsigned run_bytes = lanes * piece_bytes;
constexpr unsigned all_lanes = 0xFFFFFFFF;
static_assert(256 % block_rows == 0 && 256 % run_bytes == 0, "for the smallest n, and so for all");
static_assert(rows == 4, "the sums of a lane are one store of 16 bytes");

/// sum + the inner product of 16 signed bytes each.
__device__ __forceinline__ int32_t added(int32_t sum, const uint4& row, const uint4& z) {
    sum = ptx::dot4(row.x, z.x, sum);
    sum = ptx::dot4(row.y, z.y, sum);
    sum = ptx::dot4(row.z, z.z, sum);
    return ptx::dot4(row.w, z.w, sum);
}

}  // namespace sweep

extern "C" __global__ void __launch_bounds__(sweep::threads)
assay_sweep(const uint8_t* slots, const uint8_t* weights, uint32_t n, uint32_t* sums) {
    namespace s = sweep;
    const unsigned lane = threadIdx.x % s::lanes;
    const uint64_t first = uint64_t{blockIdx.x} * s::block_rows + threadIdx.x / s::lanes * s::rows;
    const uint8_t* from = slots + first * n + lane * s::piece_bytes;
    const uint8_t* z = weights + lane * s::piece_bytes;
    int32_t y[s::rows] = {};
#pragma unroll 1
    for (uint32_t k = 0; k < n; k += s::run_bytes) {
        const uint4 weight = ptx::load_global_16(z + k);
        uint4 pieces[s::rows];
#pragma unroll
        for (unsigned i = 0; i < s::rows; ++i) pieces[i] = ptx::load_line_16(from + i * n + k);
#pragma unroll
        for (unsigned i = 0; i < s::rows; ++i) y[i] = s::added(y[i], pieces[i], weight);
    }
    uint32_t sum[s::rows];
#pragma unroll
    for (unsigned i = 0; i < s::rows; ++i) {
        sum[i] = static_cast<uint32_t>(y[i]);
#pragma unroll
        for (unsigned apart = s::lanes / 2; apart > 0; apart /= 2) sum[i] += __shfl_xor_sync(s::all_lanes, sum[i], apart);
    }
    if (lane == 0) ptx::store_global_16(sums + first, uint4{sum[0], sum[1], sum[2], sum[3]});
}

ASSAY_KERNEL(assay_sweep, sweep::threads, 0);
