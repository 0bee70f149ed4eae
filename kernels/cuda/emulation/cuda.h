// The CUDA C++ that the kernels use, for g++: keywords, built-in variables and intrinsics.
#pragma once
#include <cstdint>
#include <cstring>

#include "block.h"

#define __device__
#define __global__
#define __constant__
#define __host__
#define __forceinline__ inline
#define __restrict__ __restrict
#define __launch_bounds__(...)
#define __grid_constant__

struct uint4 {
    std::uint32_t x, y, z, w;
};
static_assert(sizeof(uint4) == 16);
struct uint2 {
    std::uint32_t x, y;
};

// Macros: a kernel's names are global, and these must read this OS thread's own.
#define threadIdx (::emulation::thread_index)
#define blockIdx (::emulation::block_index)
#define blockDim (::emulation::block_size)
#define gridDim (::emulation::grid_size)

inline void __syncthreads() { emulation::block().barrier(0, emulation::block().threads()); }
inline void __threadfence() { emulation::block().fence(); }

inline std::uint32_t atomicAdd(std::uint32_t* where, std::uint32_t value) {
    emulation::block().step();
    return __atomic_fetch_add(where, value, __ATOMIC_SEQ_CST);
}

inline std::uint32_t __umulhi(std::uint32_t a, std::uint32_t b) {
    return static_cast<std::uint32_t>((std::uint64_t{a} * b) >> 32);
}

inline std::uint32_t __float_as_uint(float value) {
    std::uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}

inline float __int_as_float(std::int32_t bits) {
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

/// To the nearest integer, a half to the even one. Values that are too large saturate, NaN gives 0, as on the GPU.
inline std::int32_t __float2int_rn(float value) {
    if (!(value == value)) return 0;
    if (value >= 2147483648.0f) return INT32_MAX;
    if (value <= -2147483648.0f) return INT32_MIN;
    return static_cast<std::int32_t>(__builtin_rintf(value));
}

/// Bytes of y ‖ x (x the lower four) chosen by the low four nibbles of `selector`.
inline std::uint32_t __byte_perm(std::uint32_t x, std::uint32_t y, std::uint32_t selector) {
    const std::uint64_t both = (std::uint64_t{y} << 32) | x;
    std::uint32_t result = 0;
    for (int i = 0; i < 4; ++i) {
        const unsigned byte = selector >> (4 * i) & 7;
        result |= static_cast<std::uint32_t>(both >> (8 * byte) & 0xFF) << (8 * i);
    }
    return result;
}

namespace emulation {

inline void expect_full_warp(unsigned mask) {
    if (mask != full_warp) block().fail(Code::unsupported, "a collective of part of a warp (mask %08x)", mask);
}

struct Shuffle {
    std::uint32_t value;
    unsigned source;  // lane
    std::uint32_t result;
};

inline void shuffle_all(void* const* arguments) {
    for (unsigned lane = 0; lane < warp_threads; ++lane) {
        auto& mine = *static_cast<Shuffle*>(arguments[lane]);
        mine.result = static_cast<const Shuffle*>(arguments[mine.source])->value;
    }
}

/// This lane gives `value` and gets lane `source`'s.
inline std::uint32_t shuffle(unsigned mask, std::uint32_t value, unsigned source) {
    expect_full_warp(mask);
    Shuffle mine{value, source, 0};
    block().collective(shuffle_all, &mine);
    return mine.result;
}

inline unsigned lane() { return block().thread() % warp_threads; }

inline void sync_all(void* const*) { block().tracker().warp_barrier(block().thread() / warp_threads); }

}  // namespace emulation

inline void __syncwarp(unsigned mask = emulation::full_warp) {
    emulation::expect_full_warp(mask);
    emulation::block().collective(emulation::sync_all, nullptr);
}

// Shuffles: groups of `width` lanes, a power of two. As on the GPU they order no memory.
inline std::uint32_t __shfl_sync(unsigned mask, std::uint32_t value, unsigned source, unsigned width = 32) {
    const unsigned lane = emulation::lane();
    return emulation::shuffle(mask, value, (lane & ~(width - 1)) | (source & (width - 1)));
}

inline std::uint32_t __shfl_xor_sync(unsigned mask, std::uint32_t value, unsigned bits, unsigned width = 32) {
    const unsigned lane = emulation::lane(), source = lane ^ bits;
    const bool inside = (source & ~(width - 1)) <= (lane & ~(width - 1));
    return emulation::shuffle(mask, value, inside ? source : lane);
}

inline std::uint32_t __shfl_down_sync(unsigned mask, std::uint32_t value, unsigned by, unsigned width = 32) {
    const unsigned lane = emulation::lane();
    const bool inside = (lane & (width - 1)) + by < width;
    return emulation::shuffle(mask, value, inside ? lane + by : lane);
}
