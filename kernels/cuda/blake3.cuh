// BLAKE3's compression function, and the chunks and parents built from it (the BLAKE3 paper, section 2).
#pragma once
#include "device.cuh"

namespace assay {

namespace blake3 {

constexpr unsigned block_bytes = 64;
constexpr unsigned chunk_bytes = 1024;
constexpr unsigned chunk_blocks = chunk_bytes / block_bytes;

constexpr uint32_t chunk_start = 1, chunk_end = 2, parent = 4, root = 8;  // flags

/// A chaining value: 8 words.
struct Value {
    uint32_t w[8];
};

__device__ __forceinline__ Value initial() {
    return {{0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19}};
}

__device__ __forceinline__ uint32_t rotate_right(uint32_t x, unsigned by) { return (x >> by) | (x << (32 - by)); }

__device__ __forceinline__ void mix(uint32_t& a, uint32_t& b, uint32_t& c, uint32_t& d, uint32_t x, uint32_t y) {
    a += b + x; d = rotate_right(d ^ a, 16);
    c += d;     b = rotate_right(b ^ c, 12);
    a += b + y; d = rotate_right(d ^ a, 8);
    c += d;     b = rotate_right(b ^ c, 7);
}

/// The chaining value after one full block of 64 bytes. The counter's upper word is 0: a string here has
/// at most 2^20 chunks.
__device__ __forceinline__ Value compress(const Value& value, const uint32_t (&block)[16], uint32_t counter, uint32_t flags) {
    const Value start = initial();
    uint32_t v[16], m[16];
#pragma unroll
    for (int i = 0; i < 8; ++i) v[i] = value.w[i];
#pragma unroll
    for (int i = 0; i < 4; ++i) v[8 + i] = start.w[i];
    v[12] = counter;
    v[13] = 0;
    v[14] = block_bytes;
    v[15] = flags;
#pragma unroll
    for (int i = 0; i < 16; ++i) m[i] = block[i];
#pragma unroll
    for (int round = 0; round < 7; ++round) {
#pragma unroll
        for (int i = 0; i < 4; ++i) mix(v[i], v[4 + i], v[8 + i], v[12 + i], m[2 * i], m[2 * i + 1]);
#pragma unroll
        for (int i = 0; i < 4; ++i)
            mix(v[i], v[4 + (i + 1) % 4], v[8 + (i + 2) % 4], v[12 + (i + 3) % 4], m[8 + 2 * i], m[9 + 2 * i]);
        // Unrolled, the permutation of the message only renames registers.
        const uint32_t next[16] = {m[2], m[6], m[3], m[10], m[7], m[0], m[4], m[13],
                                   m[1], m[11], m[12], m[5], m[9], m[14], m[15], m[8]};
#pragma unroll
        for (int i = 0; i < 16; ++i) m[i] = next[i];
    }
    Value result;
#pragma unroll
    for (int i = 0; i < 8; ++i) result.w[i] = v[i] ^ v[8 + i];
    return result;
}

__device__ __forceinline__ Value merge(const Value& left, const Value& right, uint32_t flags) {
    uint32_t block[16];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        block[i] = left.w[i];
        block[8 + i] = right.w[i];
    }
    return compress(initial(), block, 0, parent | flags);
}

}  // namespace blake3

}  // namespace assay
