// Chunks of BLAKE3 hashed a warp at a time, and subtrees that warps or blocks leave for one another.
#pragma once
#include "blake3.cuh"
#include "rows.cuh"

namespace assay {

/// The chaining value of this thread's chunk, number `chunk` of the string; the warp's first is `first`.
__device__ __forceinline__ blake3::Value hash_chunk(const uint8_t* data, uint32_t first, uint32_t chunk, uint32_t chunks, uint4* staging) {
    const uint8_t* from = data + uint64_t{first} * blake3::chunk_bytes;
    const uint32_t rows = chunks - first;
    blake3::Value value = blake3::initial();
    uint4 pieces[row_pieces] = {};
    fetch_rows(pieces, from, blake3::chunk_bytes, rows);
    // Not unrolled: 16 copies of the compression would not fit in the instruction cache.
#pragma unroll 1
    for (unsigned i = 0; i < blake3::chunk_blocks; ++i) {
        uint32_t words[16];
        deal_rows(pieces, staging, words);
        from += blake3::block_bytes;
        if (i + 1 < blake3::chunk_blocks) fetch_rows(pieces, from, blake3::chunk_bytes, rows);
        const bool at_start = i == 0, at_end = i + 1 == blake3::chunk_blocks;
        const uint32_t flags = (at_start ? blake3::chunk_start : 0) | (at_end ? blake3::chunk_end : 0);
        value = blake3::compress(value, words, chunk, flags);
    }
    return value;
}

/// Stores subtree number i for others: they see it after this thread's fence.
__device__ __forceinline__ void publish_partial(uint32_t* partials, unsigned i, const blake3::Value& value) {
#pragma unroll
    for (unsigned w = 0; w < 8; ++w) ptx::publish(partials + 8 * i + w, value.w[w]);
}

/// Subtree number i of those that were stored.
__device__ __forceinline__ blake3::Value load_partial(const uint32_t* partials, unsigned i) {
    blake3::Value value;
#pragma unroll
    for (unsigned w = 0; w < 8; ++w) value.w[w] = ptx::load_published(partials + 8 * i + w);
    return value;
}

}  // namespace assay
