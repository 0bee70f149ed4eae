// The rules of precision 8: x from the earlier slot by convolution, attention or noise, in turn over slots (WORK.md, Rules).
//
// shapes   slot, out: n² bytes; row r of out is row r of x as INT8. `width`: pixels from left to right of the tensor, whose
//          pixels have n/16 bytes
// grid     assay_convolution: n² / 4096, a thread 16 operands; assay_attention: n / 8, a warp a row; assay_noise: n² / 8192,
//          a thread the 32 operands that a block of keystream serves. Block 256 threads
// shared   static: tables, which lanes read at different places at once, 9 KiB of attention and 256 bytes of noise
// bounds   256 ≤ n ≤ 32768, a power of two: no thread and no lane is left over but in attention's rows of 256
// exact    integers only: p · 32 · n < 2^27, Σ p < 2^22, |s + noise| ≤ 98
#include "chacha.cuh"

namespace network {

constexpr unsigned threads = 256;
constexpr unsigned warp_threads = 32;
constexpr unsigned rows = threads / warp_threads;
constexpr unsigned piece_bytes = 16;
constexpr unsigned weights = 256;
constexpr unsigned thresholds = 34;
/// Thresholds with those behind the last one, which no draw reaches.
constexpr unsigned places = 64;
static_assert(weights == threads && thresholds < places);

/// E: 127 · 2^(-d / 64), rounded.
__constant__ uint8_t weight_of[weights] = {
    127, 126, 124, 123, 122, 120, 119, 118, 116, 115, 114, 113, 112, 110, 109, 108, 107, 106, 105, 103, 102, 101, 100,
    99, 98, 97, 96, 95, 94, 93, 92, 91, 90, 89, 88, 87, 86, 85, 84, 83, 82, 81, 81, 80, 79, 78, 77, 76, 76, 75, 74, 73,
    72, 72, 71, 70, 69, 69, 68, 67, 66, 66, 65, 64, 64, 63, 62, 61, 61, 60, 60, 59, 58, 58, 57, 56, 56, 55, 55, 54, 53,
    53, 52, 52, 51, 51, 50, 49, 49, 48, 48, 47, 47, 46, 46, 45, 45, 44, 44, 43, 43, 43, 42, 42, 41, 41, 40, 40, 39, 39,
    39, 38, 38, 37, 37, 37, 36, 36, 35, 35, 35, 34, 34, 34, 33, 33, 32, 32, 32, 31, 31, 31, 30, 30, 30, 29, 29, 29, 28,
    28, 28, 28, 27, 27, 27, 26, 26, 26, 26, 25, 25, 25, 24, 24, 24, 24, 23, 23, 23, 23, 22, 22, 22, 22, 21, 21, 21, 21,
    21, 20, 20, 20, 20, 20, 19, 19, 19, 19, 18, 18, 18, 18, 18, 18, 17, 17, 17, 17, 17, 16, 16, 16, 16, 16, 16, 15, 15,
    15, 15, 15, 15, 14, 14, 14, 14, 14, 14, 13, 13, 13, 13, 13, 13, 13, 13, 12, 12, 12, 12, 12, 12, 12, 11, 11, 11, 11,
    11, 11, 11, 11, 11, 10, 10, 10, 10, 10, 10, 10, 10, 10, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 8, 8, 8, 8, 8, 8};

/// t: 2^15 times the chance that the noise is at most i in magnitude.
__constant__ uint16_t threshold_of[thresholds] = {
    1634, 4877, 8044, 11091, 13975, 16663, 19130, 21359, 23341, 25077, 26573, 27843, 28904, 29776, 30483, 31047, 31489,
    31831, 32091, 32286, 32429, 32533, 32608, 32660, 32697, 32721, 32738, 32749, 32756, 32761, 32764, 32765, 32766,
    32767};

__device__ __forceinline__ int32_t signed_byte(uint32_t word, unsigned i) { return static_cast<int8_t>(word >> 8 * i); }
__device__ __forceinline__ uint32_t as_byte(int32_t value, unsigned i) { return (static_cast<uint32_t>(value) & 0xFF) << 8 * i; }
__device__ __forceinline__ int32_t larger(int32_t a, int32_t b) { return a > b ? a : b; }
__device__ __forceinline__ int32_t smaller(int32_t a, int32_t b) { return a < b ? a : b; }

/// Four channels of a pooled pixel, from those of its four pixels. Leaky ReLU keeps the order, and so comes after the maximum.
__device__ __forceinline__ uint32_t pooled(uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
    uint32_t result = 0;
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) {
        const int32_t left = larger(signed_byte(a, i), signed_byte(c, i)), right = larger(signed_byte(b, i), signed_byte(d, i));
        const int32_t largest = larger(left, right);
        result |= as_byte(largest < 0 ? largest >> 3 : largest, i);
    }
    return result;
}

/// Four bytes with the noise of four draws: those of the lower halves first.
__device__ __forceinline__ uint32_t noisy(uint32_t word, uint32_t low, uint32_t high, const uint32_t* table) {
    uint32_t result = 0;
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) {
        const uint32_t draw = (i < 2 ? low : high) >> 16 * (i % 2) & 0xFFFF;
        uint32_t reached = 0;  // thresholds: six halvings of 64
#pragma unroll
        for (unsigned half = places / 2; half > 0; half /= 2)
            if (ptx::load_shared(table + reached + half - 1) <= draw >> 1) reached += half;
        const auto magnitude = static_cast<int32_t>(reached);
        result |= as_byte(larger(-64, smaller(63, signed_byte(word, i))) + (draw % 2 ? -magnitude : magnitude), i);
    }
    return result;
}

/// visit(at, byte) for each byte of the words of a piece, at the place of each in the piece.
template <class Visit>
__device__ __forceinline__ void visit_bytes(const uint4& piece, Visit visit) {
    const uint32_t words[4] = {piece.x, piece.y, piece.z, piece.w};
#pragma unroll
    for (unsigned i = 0; i < piece_bytes; ++i) visit(i, signed_byte(words[i / 4], i % 4));
}

}  // namespace network

extern "C" __global__ void __launch_bounds__(network::threads)
assay_convolution(const uint8_t* slot, uint8_t* out, uint32_t n, uint32_t width) {
    namespace w = network;
    const uint32_t piece = blockIdx.x * w::threads + threadIdx.x, channels = n / 16, height = 16 * n / width;
    // A row has as many pieces as a pixel has channels.
    const uint32_t r = piece / channels, k = piece % channels * w::piece_bytes, place = k / channels;
    const uint32_t y = (2 * (r / (width / 4)) + place / 4) % (height / 2), x = (2 * (r % (width / 4)) + place % 4) % (width / 2);
    const uint8_t* first = slot + (uint64_t{2 * y} * width + 2 * x) * channels + k % channels;
    const uint64_t down = uint64_t{width} * channels;
    const uint4 a = ptx::load_global_16(first), b = ptx::load_global_16(first + channels);
    const uint4 c = ptx::load_global_16(first + down), d = ptx::load_global_16(first + down + channels);
    ptx::store_global_16(out + uint64_t{piece} * w::piece_bytes, {w::pooled(a.x, b.x, c.x, d.x), w::pooled(a.y, b.y, c.y, d.y),
                                                                  w::pooled(a.z, b.z, c.z, d.z), w::pooled(a.w, b.w, c.w, d.w)});
}

extern "C" __global__ void __launch_bounds__(network::threads)
assay_attention(const uint8_t* slot, uint8_t* out, uint32_t n) {
    namespace w = network;
    ASSAY_SHARED(uint32_t, weight, w::weights);
    ASSAY_SHARED(uint32_t, operands, w::rows * w::weights);
    ptx::store_shared(weight + threadIdx.x, uint32_t{w::weight_of[threadIdx.x]});
    __syncthreads();
    const unsigned lane = threadIdx.x % w::warp_threads, warp = threadIdx.x / w::warp_threads;
    const uint64_t row = uint64_t{blockIdx.x * w::rows + warp} * n;
    const uint32_t first = lane * w::piece_bytes;  // of a run of the warp's pieces
    constexpr uint32_t run_bytes = w::warp_threads * w::piece_bytes;

    int32_t largest = -128;
    for (uint32_t at = first; at < n; at += run_bytes)
        w::visit_bytes(ptx::load_global_16(slot + row + at), [&](unsigned, int32_t s) { largest = w::larger(largest, s); });
#pragma unroll
    for (unsigned apart = w::warp_threads / 2; apart > 0; apart /= 2)
        largest = w::larger(largest, static_cast<int32_t>(__shfl_xor_sync(0xFFFFFFFF, static_cast<uint32_t>(largest), apart)));
    uint32_t sum = 0;
    for (uint32_t at = first; at < n; at += run_bytes)
        w::visit_bytes(ptx::load_global_16(slot + row + at), [&](unsigned, int32_t s) { sum += ptx::load_shared(weight + (largest - s)); });
#pragma unroll
    for (unsigned apart = w::warp_threads / 2; apart > 0; apart /= 2) sum += __shfl_xor_sync(0xFFFFFFFF, sum, apart);

    uint32_t* mine = operands + warp * w::weights;
    for (unsigned d = lane; d < w::weights; d += w::warp_threads) {
        const uint32_t scaled = ptx::load_shared(weight + d) * 32 * n / sum;
        ptx::store_shared(mine + d, scaled < 127 ? scaled : 127);
    }
    __syncwarp();
    for (uint32_t at = first; at < n; at += run_bytes) {
        uint32_t words[4] = {};
        w::visit_bytes(ptx::load_global_16(slot + row + at),
                       [&](unsigned i, int32_t s) { words[i / 4] |= ptx::load_shared(mine + (largest - s)) << 8 * (i % 4); });
        ptx::store_global_16(out + row + at, {words[0], words[1], words[2], words[3]});
    }
}

extern "C" __global__ void __launch_bounds__(network::threads)
assay_noise(const uint8_t* slot, uint8_t* out, Words8 key) {
    namespace w = network;
    ASSAY_SHARED(uint32_t, table, w::places);
    if (threadIdx.x < w::places)
        ptx::store_shared(table + threadIdx.x, threadIdx.x < w::thresholds ? uint32_t{w::threshold_of[threadIdx.x]} : 1u << 15);
    __syncthreads();
    // A row of the slot draws from as many whole blocks as it has times 32 bytes.
    const uint32_t block = blockIdx.x * w::threads + threadIdx.x;
    uint32_t draws[16];
    assay::chacha8(key, block, 0, draws);
#pragma unroll
    for (unsigned i = 0; i < 2; ++i) {
        const uint64_t at = uint64_t{block} * 32 + i * w::piece_bytes;
        const uint4 from = ptx::load_global_16(slot + at);
        const uint32_t* of = draws + 8 * i;
        ptx::store_global_16(out + at, {w::noisy(from.x, of[0], of[1], table), w::noisy(from.y, of[2], of[3], table),
                                        w::noisy(from.z, of[4], of[5], table), w::noisy(from.w, of[6], of[7], table)});
    }
}

ASSAY_KERNEL(assay_convolution, network::threads, 0);
ASSAY_KERNEL(assay_attention, network::threads, 0);
ASSAY_KERNEL(assay_noise, network::threads, 0);
