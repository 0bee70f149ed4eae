// The rule of precision 7: y[32 j … 32 j + 31] of row c is v after 64 times v = (v² + k) mod Q, where k = 1 + j + c · 2^16 +
// u · 2^32 and v starts as the 32 bytes in the same place of the previous slot (WORK.md, Rules).
//
// shapes   slot, out: n² bytes, of which groups first … first + 128 · grid - 1 of 32 bytes are read and written
// grid     groups / 128; block 128 threads, one group each
// bounds   256 ≤ n ≤ 32768 and a multiple of 32: c < 2^15, j < 2^10
// exact    integers: Montgomery's form v · R mod Q, R = 2^256, in eight limbs of 32 bits, below 2 Q between steps, since
//          4 Q < R; below Q at the end. Products of two limbs are summed as pairs of limbs: those that start at an even limb
//          in one array, those at an odd limb in another, so that each row of a product is one carry chain
#include "device.cuh"

namespace field {

constexpr unsigned threads = 128;
constexpr unsigned group_bytes = 32;
constexpr unsigned limbs = 8;
constexpr unsigned steps = 64;

/// Numbers of the field, the lowest limb first: Q, and -1 / Q mod 2^32.
#define FIELD_ORDER {0xF0000001, 0x43E1F593, 0x79B97091, 0x2833E848, 0x8181585D, 0xB85045B6, 0xE131A029, 0x30644E72}
constexpr uint32_t negated_inverse = 0xEFFFFFFF;
/// R² and R³ mod Q.
#define FIELD_R2 {0xAE216DA7, 0x1BB8E645, 0xE35C59E3, 0x53FE3AB1, 0x53BB8085, 0x8C49833D, 0x7F4E44A5, 0x0216D0B1}
#define FIELD_R3 {0xB4BF0040, 0x5E94D8E1, 0x1CFBB6B8, 0x2A489CBE, 0xA19FCFED, 0x893CC664, 0x7FCC657C, 0x0CF8594B}

/// sums += (factors[0] + factors[2] · 2^64 + …) · factor over `pairs` pairs of limbs. The carry stays in the flag.
__device__ __forceinline__ void add_products(uint32_t* sums, const uint32_t* factors, uint32_t factor, unsigned pairs) {
    sums[0] = ptx::mad_lo_cc(factors[0], factor, sums[0]);
    sums[1] = ptx::madc_hi_cc(factors[0], factor, sums[1]);
#pragma unroll
    for (unsigned i = 2; i < 2 * pairs; i += 2) {
        sums[i] = ptx::madc_lo_cc(factors[i], factor, sums[i]);
        sums[i + 1] = ptx::madc_hi_cc(factors[i], factor, sums[i + 1]);
    }
}

/// wide / R mod Q, below 2 Q where `wide` is below R · Q.
__device__ __forceinline__ void reduce(const uint32_t (&wide)[2 * limbs], uint32_t (&v)[limbs]) {
    constexpr uint32_t order[limbs] = FIELD_ORDER;
    // Pairs of limbs that start at limb i, in round i, and pairs that start at limb i + 1.
    uint32_t sums[2][limbs];
#pragma unroll
    for (unsigned i = 0; i < limbs; ++i) {
        sums[0][i] = wide[i];
        sums[1][i] = 0;
    }
#pragma unroll
    for (unsigned i = 0; i < limbs; ++i) {
        uint32_t(&here)[limbs] = sums[i % 2], (&next)[limbs] = sums[1 - i % 2];
        here[0] = ptx::add_cc(here[0], next[1]);
        const uint32_t factor = here[0] * negated_inverse;
        // Two limbs on, so that the upper limbs of `wide` come in, with the carry of the sum above.
#pragma unroll
        for (unsigned j = 0; j < limbs; j += 2) {
            const bool last = j + 2 == limbs;
            next[j] = ptx::madc_lo_cc(order[j + 1], factor, last ? (i == 0 ? 0 : wide[limbs - 1 + i]) : next[j + 2]);
            next[j + 1] = ptx::madc_hi_cc(order[j + 1], factor, last ? (i == limbs - 1 ? wide[2 * limbs - 1] : 0) : next[j + 3]);
        }
        add_products(here, order, factor, limbs / 2);  // makes here[0] 0
        next[limbs - 1] = ptx::addc(next[limbs - 1], 0);
    }
    v[0] = ptx::add_cc(sums[0][0], sums[1][1]);
#pragma unroll
    for (unsigned i = 1; i < limbs - 1; ++i) v[i] = ptx::addc_cc(sums[0][i], sums[1][i + 1]);
    v[limbs - 1] = ptx::addc(sums[0][limbs - 1], 0);
}

/// v = (v² + added) / R mod Q: each product of two different limbs once, by twice the second one.
__device__ __forceinline__ void step(uint32_t (&v)[limbs], const uint32_t (&added)[limbs]) {
    uint32_t even[2 * limbs], odd[2 * limbs];  // odd[i] is at limb i + 1
#pragma unroll
    for (unsigned i = 0; i < 2 * limbs; ++i) {
        even[i] = i < limbs ? added[i] : 0;
        odd[i] = 0;
    }
#pragma unroll
    for (unsigned i = 0; i < limbs; ++i) {
        uint32_t factors[limbs];
#pragma unroll
        for (unsigned j = i; j < limbs; ++j) factors[j] = j == i ? v[j] : v[j] << 1 | (j == i + 1 ? 0 : v[j - 1] >> 31);
        const unsigned even_pairs = (limbs + 1 - i) / 2, odd_pairs = (limbs - i) / 2;
        add_products(even + 2 * i, factors + i, v[i], even_pairs);
        if (i % 2 == 0) even[2 * (i + even_pairs)] = ptx::addc(0, 0);
        if (odd_pairs == 0) continue;
        add_products(odd + 2 * i, factors + i + 1, v[i], odd_pairs);
        if (i % 2 == 1) odd[2 * (i + odd_pairs)] = ptx::addc(0, 0);
    }
    even[1] = ptx::add_cc(even[1], odd[0]);
#pragma unroll
    for (unsigned i = 2; i < 2 * limbs; ++i) even[i] = ptx::addc_cc(even[i], odd[i - 1]);
    reduce(even, v);
}

/// a · b / R mod Q, a of `a_limbs` limbs: twice a group, so in plain words.
template <unsigned a_limbs>
__device__ __forceinline__ void multiply(const uint32_t (&a)[a_limbs], const uint32_t (&b)[limbs], uint32_t (&result)[limbs]) {
    uint32_t wide[2 * limbs] = {};
#pragma unroll
    for (unsigned i = 0; i < a_limbs; ++i) {
        uint64_t sum = 0;
#pragma unroll
        for (unsigned j = 0; j < limbs; ++j) {
            sum = uint64_t{a[i]} * b[j] + wide[i + j] + (sum >> 32);
            wide[i + j] = static_cast<uint32_t>(sum);
        }
        wide[i + limbs] = static_cast<uint32_t>(sum >> 32);
    }
    reduce(wide, result);
}

/// v or v - Q, whichever is below Q.
__device__ __forceinline__ void bring_below_order(uint32_t (&v)[limbs]) {
    constexpr uint32_t order[limbs] = FIELD_ORDER;
    uint32_t less[limbs];
    less[0] = ptx::sub_cc(v[0], order[0]);
#pragma unroll
    for (unsigned i = 1; i < limbs; ++i) less[i] = ptx::subc_cc(v[i], order[i]);
    const uint32_t borrowed = ptx::subc(0, 0);  // all bits or none
#pragma unroll
    for (unsigned i = 0; i < limbs; ++i) v[i] = (v[i] & borrowed) | (less[i] & ~borrowed);
}

}  // namespace field

extern "C" __global__ void __launch_bounds__(field::threads)
assay_field(const uint8_t* slot, uint8_t* out, uint32_t n, uint32_t u, uint32_t first) {
    namespace f = field;
    const uint32_t group = first + blockIdx.x * f::threads + threadIdx.x, row_groups = n / f::group_bytes;
    const uint64_t at = uint64_t{group} * f::group_bytes;
    const uint4 low = ptx::load_global_16(slot + at), high = ptx::load_global_16(slot + at + 16);
    uint32_t v[f::limbs] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w}, added[f::limbs];
    const uint32_t k[2] = {1 + group % row_groups + (group / row_groups << 16), u};
    constexpr uint32_t r2[f::limbs] = FIELD_R2, r3[f::limbs] = FIELD_R3;
    f::multiply(k, r3, added);
    f::multiply(v, r2, v);
#pragma unroll 1
    for (unsigned i = 0; i < f::steps; ++i) f::step(v, added);
    // Out of Montgomery's form. The result is 0 … Q, and Q where the last sum was 0.
    const uint32_t wide[2 * f::limbs] = {v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]};
    f::reduce(wide, v);
    f::bring_below_order(v);
    ptx::store_global_16(out + at, {v[0], v[1], v[2], v[3]});
    ptx::store_global_16(out + at + 16, {v[4], v[5], v[6], v[7]});
}

ASSAY_KERNEL(assay_field, field::threads, 0);
