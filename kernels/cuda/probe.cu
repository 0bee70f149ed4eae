// Steps of a residency probe: each walk reads a 64-byte line that its state names, and mixes it into the
// state (WORK.md, Residency probe). The walks of a linked probe are over the slots of all devices (WORK.md, Linked
// probe): assay_linked_probe reads the lines of other devices itself, assay_step makes one step over lines of its own.
//
// shapes   slots: count · lines lines of 64 bytes; states: [walks][16] words, read and written back
// grid     ceil(walks · LANES / 256); block 256 threads, LANES for each walk
// shared   none
// bounds   count up to 2^20, lines = n²/64 up to 2^24; walks of assay_probe a power of two from 64: warps
//          are whole; any number of assay_step: the threads beyond them step with no state and store nothing
// exact    32-bit words mod 2^32 and the upper halves of 64-bit products; XOR and addition are
//          associative, so that the lanes' order does not show
//
// The lanes of a walk hold 16 / LANES neighbouring words each, so that with four lanes one 16-byte load
// of each reads the line whole. Fewer lanes mean more lines under way for the same threads, and more
// registers; which is best no GPU has told yet.
#include "chacha.cuh"

namespace probe {

constexpr unsigned threads = 256;
#ifdef ASSAY_PROBE_LANES
constexpr unsigned lanes = ASSAY_PROBE_LANES;
#else
constexpr unsigned lanes = 4;
#endif
constexpr unsigned all_lanes = 0xFFFFFFFF;
constexpr uint32_t first_factor = 0x9E3779B1, second_factor = 0x85EBCA6B;

/// A place among slots, and a line there.
struct Position {
    uint32_t slot, line;
};

__device__ __forceinline__ const uint8_t* line_at(const uint8_t* slots, Position at, uint32_t lines) {
    return slots + (uint64_t{at.slot} * lines + at.line) * 64;
}

template <unsigned LANES>
struct Walk {
    static_assert(LANES == 1 || LANES == 2 || LANES == 4, "a lane loads 16 bytes or more");
    static constexpr unsigned words = 16 / LANES;
    uint32_t s[words];

    __device__ __forceinline__ void load(const uint8_t* line, unsigned lane) {
#pragma unroll
        for (unsigned i = 0; i < words; i += 4) {
            const uint4 v = ptx::load_global_16(line + (lane * words + i) * 4);
            s[i] = v.x; s[i + 1] = v.y; s[i + 2] = v.z; s[i + 3] = v.w;
        }
    }

    __device__ __forceinline__ void store(uint8_t* line, unsigned lane) const {
#pragma unroll
        for (unsigned i = 0; i < words; i += 4)
            ptx::store_global_16(line + (lane * words + i) * 4, uint4{s[i], s[i + 1], s[i + 2], s[i + 3]});
    }

    /// The line that is read next, among those of `count` slots.
    __device__ __forceinline__ Position choose(unsigned lane, uint32_t count, uint32_t lines) const {
        uint32_t a = 0, b = 0;
#pragma unroll
        for (unsigned i = 0; i < words; ++i) {
            a ^= i == 0 ? s[0] : assay::rotate_left(s[i], 2 * i);
            b += s[i];
        }
        // Word k = lane · words + i turns by 2k: by 2i above, by the rest here.
        const unsigned turn = 2 * words * lane;
        a = turn == 0 ? a : assay::rotate_left(a, turn);
#pragma unroll
        for (unsigned bit = 1; bit < LANES; bit *= 2) {
            a ^= __shfl_xor_sync(all_lanes, a, bit);
            b += __shfl_xor_sync(all_lanes, b, bit);
        }
        return {__umulhi(a, count), __umulhi(b, lines)};
    }

    __device__ __forceinline__ void step(const uint8_t* line, unsigned lane) {
        uint32_t t[words];
#pragma unroll
        for (unsigned i = 0; i < words; i += 4) {
            const uint4 w = ptx::load_line_16(line + (lane * words + i) * 4);
            t[i] = w.x; t[i + 1] = w.y; t[i + 2] = w.z; t[i + 3] = w.w;
        }
#pragma unroll
        for (unsigned i = 0; i < words; ++i) {
            t[i] = (s[i] ^ t[i]) * first_factor;
            t[i] ^= t[i] >> 15;
        }
        // The word after this lane's last one is the next lane's first.
        const uint32_t after = LANES == 1 ? t[0] : __shfl_sync(all_lanes, t[0], lane + 1, LANES);
#pragma unroll
        for (unsigned i = 0; i < words; ++i)
            s[i] = t[i] * second_factor + assay::rotate_left(i + 1 < words ? t[i + 1] : after, 7);
    }
};

}  // namespace probe

extern "C" __global__ void __launch_bounds__(probe::threads)
assay_probe(const uint8_t* slots, uint32_t count, uint32_t lines, uint32_t walks, uint32_t steps, uint32_t* states) {
    const uint32_t thread = blockIdx.x * probe::threads + threadIdx.x;
    const uint32_t number = thread / probe::lanes;
    const unsigned lane = thread % probe::lanes;
    if (number >= walks) return;  // whole warps, since a warp's walks divide `walks`

    uint8_t* state = reinterpret_cast<uint8_t*>(states) + uint64_t{number} * 64;
    probe::Walk<probe::lanes> walk;
    walk.load(state, lane);
#pragma unroll 1
    for (uint32_t i = 0; i < steps; ++i) walk.step(probe::line_at(slots, walk.choose(lane, count, lines), lines), lane);
    walk.store(state, lane);
}

ASSAY_KERNEL(assay_probe, probe::threads, 0);

extern "C" __global__ void __launch_bounds__(probe::threads)
assay_step(const uint8_t* slots, uint32_t first, uint32_t count, uint32_t total, uint32_t lines, uint32_t walks,
           uint32_t* states, uint32_t* refused) {
    const uint32_t thread = blockIdx.x * probe::threads + threadIdx.x;
    const uint32_t number = thread / probe::lanes;
    const unsigned lane = thread % probe::lanes;
    const bool exists = number < walks;

    uint8_t* state = reinterpret_cast<uint8_t*>(states) + uint64_t{number} * 64;
    probe::Walk<probe::lanes> walk{};
    if (exists) walk.load(state, lane);
    probe::Position at = walk.choose(lane, total, lines);
    at.slot -= first;  // wraps for a slot before the first one, to more than `count`
    const bool here = exists && at.slot < count;
    // All lanes of the warp exchange words, so those without a line here read the first one.
    walk.step(here ? probe::line_at(slots, at, lines) : slots, lane);
    if (here) walk.store(state, lane);
    // All that find such a state store the same.
    if (exists && !here && lane == 0) ptx::publish(refused, 1);
}

ASSAY_KERNEL(assay_step, probe::threads, 0);

namespace probe {

/// The slots of all devices, in the order of the shares: device d holds slots first[d] … first[d + 1] - 1 from bases[d] on.
struct Peers {
    static constexpr unsigned most = 64;
    uint64_t bases[most];
    uint32_t first[most];
    uint32_t devices;
};

__device__ __forceinline__ const uint8_t* line_of(const Peers& peers, Position at, uint32_t lines) {
    unsigned device = 0;
    while (device + 1 < peers.devices && peers.first[device + 1] <= at.slot) ++device;
    at.slot -= peers.first[device];
    return line_at(reinterpret_cast<const uint8_t*>(peers.bases[device]), at, lines);
}

}  // namespace probe

extern "C" __global__ void __launch_bounds__(probe::threads)
assay_linked_probe(const __grid_constant__ probe::Peers peers, uint32_t total, uint32_t lines, uint32_t walks, uint32_t steps,
                   uint32_t* states) {
    const uint32_t thread = blockIdx.x * probe::threads + threadIdx.x;
    const uint32_t number = thread / probe::lanes;
    const unsigned lane = thread % probe::lanes;
    if (number >= walks) return;  // whole warps, as in assay_probe

    uint8_t* state = reinterpret_cast<uint8_t*>(states) + uint64_t{number} * 64;
    probe::Walk<probe::lanes> walk;
    walk.load(state, lane);
#pragma unroll 1
    for (uint32_t i = 0; i < steps; ++i) walk.step(probe::line_of(peers, walk.choose(lane, total, lines), lines), lane);
    walk.store(state, lane);
}

ASSAY_KERNEL(assay_linked_probe, probe::threads, 0);
