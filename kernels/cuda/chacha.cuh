// ChaCha with 8 rounds, as WORK.md's KEYSTREAM: words 12-13 the block counter, 14-15 the stream id.
#pragma once
#include "device.cuh"

/// A key, passed to a kernel by value.
struct Words8 {
    uint32_t w[8];
};

namespace assay {

__device__ __forceinline__ uint32_t rotate_left(uint32_t x, unsigned by) { return (x << by) | (x >> (32 - by)); }

__device__ __forceinline__ void quarter_round(uint32_t& a, uint32_t& b, uint32_t& c, uint32_t& d) {
    a += b; d = rotate_left(d ^ a, 16);
    c += d; b = rotate_left(b ^ c, 12);
    a += b; d = rotate_left(d ^ a, 8);
    c += d; b = rotate_left(b ^ c, 7);
}

/// The 16 words of block `counter` of the keystream.
__device__ __forceinline__ void chacha8(const Words8& key, uint32_t counter, uint64_t stream, uint32_t (&words)[16]) {
    const uint32_t start[16] = {
        0x61707865, 0x3320646E, 0x79622D32, 0x6B206574,  // "expand 32-byte k"
        key.w[0], key.w[1], key.w[2], key.w[3], key.w[4], key.w[5], key.w[6], key.w[7],
        counter, 0, static_cast<uint32_t>(stream), static_cast<uint32_t>(stream >> 32)};
#pragma unroll
    for (int i = 0; i < 16; ++i) words[i] = start[i];
#pragma unroll
    for (int pair = 0; pair < 4; ++pair) {
#pragma unroll
        for (int i = 0; i < 4; ++i) quarter_round(words[i], words[4 + i], words[8 + i], words[12 + i]);
#pragma unroll
        for (int i = 0; i < 4; ++i)
            quarter_round(words[i], words[4 + (i + 1) % 4], words[8 + (i + 2) % 4], words[12 + (i + 3) % 4]);
    }
#pragma unroll
    for (int i = 0; i < 16; ++i) words[i] += start[i];
}

}  // namespace assay
