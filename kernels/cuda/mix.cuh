// From exact sums to a slot's bytes: the mixing step (WORK.md, A pass), and words changing lanes so that
// bytes leave in runs of 16 for each thread.
#pragma once
#include "device.cuh"

namespace assay {

constexpr uint32_t slot_factor = 0xC2B2AE35, mix_first_factor = 0x9E3779B1, mix_second_factor = 0x85EBCA6B;

/// The element is the top byte of the result. `place` = r · n + c + u · slot_factor.
__device__ __forceinline__ uint32_t mixed(int32_t sum, uint32_t place) {
    uint32_t x = static_cast<uint32_t>(sum) + place;
    x *= mix_first_factor;
    x ^= x >> 16;
    return x * mix_second_factor;
}

/// The top bytes of four words, the first lowest.
__device__ __forceinline__ uint32_t top_bytes(uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
    return __byte_perm(__byte_perm(a, b, 0x0073), __byte_perm(c, d, 0x0073), 0x5410);
}

/// Among four neighbouring lanes: word i of lane p becomes word p of lane i. All lanes of the warp call it.
__device__ __forceinline__ void transpose_4(uint32_t (&words)[4]) {
    const unsigned lane = threadIdx.x % 4;
    // First within pairs of lanes and words, then between the pairs.
#pragma unroll
    for (unsigned bit = 1; bit <= 2; bit *= 2) {
        const bool upper = lane & bit;
#pragma unroll
        for (unsigned i = 0; i < 4; ++i) {
            if (i & bit) continue;
            const uint32_t received = __shfl_xor_sync(0xFFFFFFFF, upper ? words[i] : words[i | bit], bit);
            if (upper) words[i] = received;
            else words[i | bit] = received;
        }
    }
}

/// 64 columns of one row from the accumulators of mma: lane t of four holds, of the j-th eight columns,
/// number 2t in sums[j][0] and 2t + 1 in sums[j][1]. `row` is where the 64 bytes go, `place` that of the
/// first. Every lane stores 16 bytes. All lanes of the warp call it.
__device__ __forceinline__ void store_mixed_row(uint8_t* row, uint32_t place, const int32_t (&sums)[8][2]) {
    const unsigned t = threadIdx.x % 4;
    uint32_t words[4];
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) {
        const uint32_t here = place + 16 * i + 2 * t;
        words[i] = top_bytes(mixed(sums[2 * i][0], here), mixed(sums[2 * i][1], here + 1),
                             mixed(sums[2 * i + 1][0], here + 8), mixed(sums[2 * i + 1][1], here + 9));
    }
    transpose_4(words);
    // Word p now holds columns 2p, 2p + 1, 8 + 2p, 9 + 2p of this lane's sixteen.
    const uint4 bytes = {__byte_perm(words[0], words[1], 0x5410), __byte_perm(words[2], words[3], 0x5410),
                         __byte_perm(words[0], words[1], 0x7632), __byte_perm(words[2], words[3], 0x7632)};
    ptx::store_global_16(row + 16 * t, bytes);
}

/// 16 columns of one row, all of one thread. `row` is where the 16 bytes go, `place` that of the first.
__device__ __forceinline__ void store_mixed_run(uint8_t* row, uint32_t place, const int32_t (&sums)[16]) {
    uint32_t words[4];
#pragma unroll
    for (unsigned i = 0; i < 4; ++i)
        words[i] = top_bytes(mixed(sums[4 * i], place + 4 * i), mixed(sums[4 * i + 1], place + 4 * i + 1),
                             mixed(sums[4 * i + 2], place + 4 * i + 2), mixed(sums[4 * i + 3], place + 4 * i + 3));
    ptx::store_global_16(row, uint4{words[0], words[1], words[2], words[3]});
}

}  // namespace assay
