// The digest of a slot, hashed in a product's launch by warps that the product does not need: slot u - 1 while slot u is
// multiplied (WORK.md, A pass). So no digest waits for a multiprocessor, and no product for a digest.
//
// A warp takes groups of 32 chunks, merges each to one value and stores it. Whoever stores the last of 32 merges those to
// one of the next level, up to the root: five merges a level, behind the last group too. Groups are dealt to the warps of
// all blocks in turn, so that it does not matter how many there are.
//
// shapes   product.hashed: n² bytes; product.digest: [8]; of each level but the root's, G = n² / 32768 values, then a 32nd
//          part of the level before: product.partials: [G][8] words; of each level but the chunks', product.arrivals: a
//          word for every 32 values below
// shared   2 KiB a warp, for rows on their way in (rows.cuh)
// bounds   n from 256 to 32768: 2 to 32768 groups
// exact    as digest.cu. `arrivals` decides who goes on up the tree, never in which order values are merged
#pragma once
#include "chunks.cuh"
#include "product.cuh"

namespace beside {

using assay::blake3::Value;

constexpr unsigned group_chunks = assay::warp_rows;

/// The subtree over the values of the first `width` lanes, a power of two from 2; lane 0 has it. All lanes call it.
__device__ __forceinline__ Value merge_lanes(Value value, unsigned width, uint32_t last_flags) {
    const unsigned lane = threadIdx.x % 32;
#pragma unroll 1
    while (width > 1) {
        width /= 2;
        Value left, right;
#pragma unroll
        for (unsigned w = 0; w < 8; ++w) {
            left.w[w] = __shfl_sync(0xFFFFFFFF, value.w[w], 2 * lane);
            right.w[w] = __shfl_sync(0xFFFFFFFF, value.w[w], 2 * lane + 1);
        }
        // Lanes from `width` on merge what nobody reads.
        value = assay::blake3::merge(left, right, width == 1 ? last_flags : 0);
    }
    return value;
}

/// Counts this warp's value in, which is stored. True, in all lanes, for the last of `count`: the counter is 0 again then.
__device__ __forceinline__ bool arrive(uint32_t* arrivals, uint32_t count) {
    uint32_t last = 0;
    // The lane that stored the value passes the fences; the others see what it has seen.
    if (threadIdx.x % 32 == 0) {
        __threadfence();
        last = atomicAdd(arrivals, 1u) + 1 == count;
        __threadfence();
        if (last) *arrivals = 0;
    }
    __syncwarp();
    return __shfl_sync(0xFFFFFFFF, last, 0) != 0;
}

/// Warp number `warp` of `WARPS` that each block has for it. `staging` is this warp's.
template <unsigned WARPS>
__device__ __forceinline__ void hash(const assay::Product& product, unsigned warp, uint4* staging) {
    if (!product.hashed) return;
    const unsigned lane = threadIdx.x % 32;
    const uint32_t chunks = product.n * product.n / assay::blake3::chunk_bytes, groups = chunks / group_chunks;
#pragma unroll 1
    for (uint32_t group = blockIdx.x * WARPS + warp; group < groups; group += gridDim.x * WARPS) {
        const uint32_t first = group * group_chunks;
        Value value = assay::hash_chunk(product.hashed, first, first + lane, chunks, staging);
        // Value `at` of `count` of a level is merged from `width`, of a lane each.
        uint32_t at = group, count = groups, width = group_chunks;
        uint32_t *values = product.partials, *arrivals = product.arrivals;
#pragma unroll 1
        for (;;) {
            value = merge_lanes(value, width, count == 1 ? assay::blake3::root : 0);
            if (count == 1) {
                if (lane == 0)
                    for (unsigned w = 0; w < 8; ++w) product.digest[w] = value.w[w];
                break;
            }
            if (lane == 0) assay::publish_partial(values, at, value);
            width = count < 32 ? count : 32;
            at /= width;
            if (!arrive(arrivals + at, width)) break;
            if (lane < width) value = assay::load_partial(values, at * width + lane);
            values += 8 * count;
            count /= width;
            arrivals += count;
        }
    }
}

}  // namespace beside
