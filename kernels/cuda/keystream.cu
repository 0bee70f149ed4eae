// Leaves, and the states that a probe round starts from: out[64 i .. 64 i + 63] = block i of
// KEYSTREAM(key, stream), i < blocks (WORK.md, Notation).
//
// shapes   out: 64 · blocks bytes, 16-byte aligned
// grid     ceil(blocks / 256); block 256 threads, one ChaCha block each
// shared   16 KiB static: each warp's rows on their way out (rows.cuh)
// bounds   blocks < 2^32: the counter's upper word stays 0
// exact    32-bit words, additions mod 2^32, rotations and XOR only
#include "chacha.cuh"
#include "rows.cuh"

namespace keystream {

constexpr unsigned threads = 256;
constexpr unsigned warps = threads / 32;
static_assert(threads % assay::warp_rows == 0);

}  // namespace keystream

extern "C" __global__ void __launch_bounds__(keystream::threads)
assay_keystream(uint8_t* out, Words8 key, uint64_t stream, uint32_t blocks) {
    ASSAY_SHARED(uint4, staging, keystream::warps * assay::warp_pieces);
    const unsigned warp = threadIdx.x / assay::warp_rows;
    const uint32_t counter = blockIdx.x * keystream::threads + threadIdx.x;
    const uint32_t first = counter - threadIdx.x % assay::warp_rows;
    if (first >= blocks) return;  // the whole warp

    uint32_t words[16];
    assay::chacha8(key, counter, stream, words);
    assay::write_rows(out + uint64_t{first} * assay::row_bytes, blocks - first, staging + warp * assay::warp_pieces, words);
}

ASSAY_KERNEL(assay_keystream, keystream::threads, 0);
