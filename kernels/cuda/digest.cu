// digest = BLAKE3(data), and the chaining values of data's subtrees (WORK.md, A pass and Openings).
//
// A thread hashes one chunk; a block merges its 128 chunks in shared memory, level by level, and stores
// its subtree's value. The block that arrives last merges those, so that a slot is one
// launch and no level waits for another.
//
// shapes   data: 1024 · chunks bytes, 16-byte aligned, chunks a power of two from 4
//          partials: [grid][8] words; digest: [8]; values: [chunks / subtree_chunks][8]
// grid     max(1, chunks / 128); block 128 threads, those beyond `chunks` idle
// shared   12 KiB static: 8 KiB for rows on their way in (rows.cuh), 4 KiB of chaining values
// bounds   chunks up to 2^31, so that counters fit in one word
// exact    32-bit words, additions mod 2^32, rotations and XOR only. `arrivals` decides who finishes the
//          tree, never in which order values are merged
#include "chunks.cuh"

namespace digest {

using assay::blake3::Value;

constexpr unsigned threads = 128;
constexpr unsigned warps = threads / 32;
/// Limits registers to 64 a thread. On an A100 a block of this kernel then fits on an SM beside one of
/// product_mma_sm80, so that one slot is hashed during the next one's product: 57344 + 8192 of 65536 registers,
/// 97 + 13 of 164 KiB of shared memory. The driver must be told to make the SM's shared memory that large
/// (CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT on both kernels): for the product alone it may choose 100 KiB.
/// On sm_86, sm_89 and sm_120 an SM has 100 KiB: there the two never share one, and a digest runs where the product
/// leaves SMs idle. A ninth warp in the product does not help: three warps in a quarter of an SM have 170 registers a
/// thread, and the product needs 220. On sm_90 and sm_100 the product's idle warps hash (beside.cuh). No GPU but sm_90
/// has run this.
constexpr unsigned resident_blocks = 8;
static_assert(threads % assay::warp_rows == 0);
static_assert((threads & (threads - 1)) == 0, "a block's chunks are one subtree");

/// A chaining value lies in shared memory as two uint4.
__device__ __forceinline__ Value take(const uint4* values, unsigned i) {
    const uint4 a = ptx::load_shared(values + 2 * i), b = ptx::load_shared(values + 2 * i + 1);
    return {{a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w}};
}

__device__ __forceinline__ void put(uint4* values, unsigned i, const Value& v) {
    ptx::store_shared(values + 2 * i, uint4{v.w[0], v.w[1], v.w[2], v.w[3]});
    ptx::store_shared(values + 2 * i + 1, uint4{v.w[4], v.w[5], v.w[6], v.w[7]});
}

/// Merges `width` values in place until `left` of them remain; the whole block calls it, after a barrier.
/// `last_flags` go with a merge that leaves one.
__device__ __forceinline__ void merge_levels(uint4* values, unsigned width, unsigned left, uint32_t last_flags) {
#pragma unroll 1
    while (width > left) {
        width /= 2;
        Value merged = {};
        if (threadIdx.x < width)
            merged = assay::blake3::merge(take(values, 2 * threadIdx.x), take(values, 2 * threadIdx.x + 1),
                                          width == 1 ? last_flags : 0);
        __syncthreads();
        if (threadIdx.x < width) put(values, threadIdx.x, merged);
        __syncthreads();
    }
}

/// Hashes the block's chunks into `values`; returns how many there are. Ends with a barrier.
__device__ __forceinline__ unsigned hash_chunks(const uint8_t* data, uint32_t chunks, uint4* staging, uint4* values) {
    const uint32_t chunk = blockIdx.x * threads + threadIdx.x;
    const uint32_t first = chunk - threadIdx.x % assay::warp_rows;
    if (first < chunks) {  // the whole warp
        const Value value = assay::hash_chunk(data, first, chunk, chunks, staging + threadIdx.x / assay::warp_rows * assay::warp_pieces);
        put(values, threadIdx.x, value);
    }
    __syncthreads();
    return chunks < threads ? chunks : threads;
}

/// Notes that this block's subtree is stored. True, for all its threads, in the block that came last.
__device__ __forceinline__ bool arrive(uint32_t* arrivals, uint32_t* last) {
    if (threadIdx.x == 0) {
        __threadfence();
        ptx::store_shared(last, uint32_t{atomicAdd(arrivals, 1u) + 1 == gridDim.x});
    }
    __syncthreads();
    if (ptx::load_shared(last) == 0) return false;
    __threadfence();
    return true;
}

/// This thread's share of the stored subtrees, `each` of them (a power of two) from number `first` on,
/// merged in place: no other thread touches them any more.
__device__ __forceinline__ Value merge_share(uint32_t* partials, unsigned first, unsigned each) {
#pragma unroll 1
    for (unsigned width = each / 2; width > 0; width /= 2) {
#pragma unroll 1
        for (unsigned i = 0; i < width; ++i) {
            const Value left = assay::load_partial(partials, first + 2 * i), right = assay::load_partial(partials, first + 2 * i + 1);
            const Value merged = assay::blake3::merge(left, right, 0);
#pragma unroll
            for (unsigned w = 0; w < 8; ++w) partials[8 * (first + i) + w] = merged.w[w];
        }
    }
    return assay::load_partial(partials, first);
}

/// The last block: merges all stored subtrees into the root, and writes it.
__device__ __forceinline__ void finish(uint32_t* partials, uint4* values, uint32_t* result) {
    const unsigned width = gridDim.x < threads ? gridDim.x : threads;
    const unsigned each = gridDim.x / width;
    if (threadIdx.x < width) put(values, threadIdx.x, merge_share(partials, threadIdx.x * each, each));
    __syncthreads();
    merge_levels(values, width, 1, assay::blake3::root);
    if (threadIdx.x < 8) result[threadIdx.x] = ptx::load_shared(reinterpret_cast<const uint32_t*>(values) + threadIdx.x);
}

}  // namespace digest

extern "C" __global__ void __launch_bounds__(digest::threads, digest::resident_blocks)
assay_digest(const uint8_t* data, uint32_t chunks, uint32_t* partials, uint32_t* arrivals, uint32_t* result) {
    ASSAY_SHARED(uint4, staging, digest::warps * assay::warp_pieces);
    ASSAY_SHARED(uint4, values, 2 * digest::threads);
    ASSAY_SHARED(uint32_t, last, 1);
    const unsigned width = digest::hash_chunks(data, chunks, staging, values);
    const bool alone = gridDim.x == 1;
    digest::merge_levels(values, width, 1, alone ? assay::blake3::root : 0);
    // The thread that stores the value passes the fence and counts the block in, all by itself.
    if (threadIdx.x == 0) {
        const assay::blake3::Value value = digest::take(values, 0);
        if (!alone) assay::publish_partial(partials, blockIdx.x, value);
        else
            for (unsigned w = 0; w < 8; ++w) result[w] = value.w[w];
    }
    if (alone || !digest::arrive(arrivals, last)) return;
    digest::finish(partials, values, result);
    if (threadIdx.x == 0) *arrivals = 0;
}

extern "C" __global__ void __launch_bounds__(digest::threads)
assay_subtrees(const uint8_t* data, uint32_t chunks, uint32_t subtree_chunks, uint32_t* result) {
    ASSAY_SHARED(uint4, staging, digest::warps * assay::warp_pieces);
    ASSAY_SHARED(uint4, values, 2 * digest::threads);
    const unsigned width = digest::hash_chunks(data, chunks, staging, values);
    const unsigned left = width / subtree_chunks;
    digest::merge_levels(values, width, left, 0);
    const unsigned first = blockIdx.x * left;
    for (unsigned i = threadIdx.x; i < 8 * left; i += digest::threads)
        result[8 * first + i] = ptx::load_shared(reinterpret_cast<const uint32_t*>(values) + i);
}

ASSAY_KERNEL(assay_digest, digest::threads, 0);
ASSAY_KERNEL(assay_subtrees, digest::threads, 0);
