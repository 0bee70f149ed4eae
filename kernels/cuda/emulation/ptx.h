// Twins of ptx.cuh: each PTX primitive as the PTX ISA describes it, with the checks that a GPU does not make.
// They check the kernels against this reading of the ISA, not against silicon.
#pragma once
#include <cstdint>
#include <cstring>

#include "cuda.h"
#include "int8.h"

namespace emulation {

// A warp's fragments, gathered: the arithmetic's operands of each lane.
struct MmaSm80 {
    std::int32_t* sums;        // 4
    const std::uint32_t* left; // 4
    const std::uint32_t* right;// 2
};
struct MmaSm75 {
    std::int32_t* sums;        // 2
    std::uint32_t left, right;
};
struct MmaFloat {
    float* sums;               // 4
    const std::uint32_t* left; // 4; of m16n8k8 2
    const std::uint32_t* right;// 2; of m16n8k8 1
    std::uint32_t scales = 0;  // of m16n8k64
};
struct LoadMatrices {
    std::uint32_t* result;     // 4
    std::uint32_t address;
};

void mma_m16n8k32(void* const* lanes);
void mma_m8n8k16(void* const* lanes);
void mma_m16n8k16_bf16(void* const* lanes);
void mma_m16n8k64_e2m1(void* const* lanes);
void mma_m16n8k8_f16(void* const* lanes);
void load_matrices(void* const* lanes);

void copy_issue(std::uint32_t to, const void* from);
void copy_commit();
void copy_wait(unsigned groups_left);

/// Checks an access of this thread to shared memory and notes it; a race ends the launch.
void note_read(std::uint32_t address, unsigned bytes);
void note_write(std::uint32_t address, unsigned bytes);

inline void check_global(const void* pointer, unsigned alignment) {
    if (reinterpret_cast<std::uintptr_t>(pointer) % alignment != 0)
        block().fail(Code::misaligned, "global address %p, not a multiple of %u", pointer, alignment);
}

}  // namespace emulation

#define ASSAY_SHARED(type, name, count) \
    static char name##_key;             \
    type* const name =                  \
        reinterpret_cast<type*>(::emulation::block().static_shared(&name##_key, sizeof(type) * (count), 16))
#define ASSAY_DYNAMIC_SHARED(name) std::uint8_t* const name = ::emulation::block().dynamic_shared()

namespace ptx {

inline std::uint32_t shared_address(const void* pointer) { return emulation::block().address_of(pointer); }

template <class T>
T load_shared(const T* pointer) {
    const std::uint32_t address = emulation::block().address_of(pointer);
    T value;
    std::memcpy(&value, emulation::block().shared(address, sizeof(T), sizeof(T)), sizeof(T));
    emulation::note_read(address, sizeof(T));
    return value;
}

template <class T>
void store_shared(T* pointer, T value) {
    const std::uint32_t address = emulation::block().address_of(pointer);
    std::uint8_t* where = emulation::block().shared(address, sizeof(T), sizeof(T));
    emulation::note_write(address, sizeof(T));
    std::memcpy(where, &value, sizeof(T));
}

inline uint4 load_global_16(const void* pointer) {
    emulation::check_global(pointer, 16);
    uint4 value;
    std::memcpy(&value, pointer, sizeof value);
    return value;
}

inline uint2 load_global_8(const void* pointer) {
    emulation::check_global(pointer, 8);
    uint2 value;
    std::memcpy(&value, pointer, sizeof value);
    return value;
}

inline uint4 load_line_16(const void* pointer) { return load_global_16(pointer); }

inline void store_global_16(void* pointer, uint4 value) {
    emulation::check_global(pointer, 16);
    std::memcpy(pointer, &value, sizeof value);
}

inline void publish(std::uint32_t* where, std::uint32_t value) {
    emulation::check_global(where, 4);
    emulation::block().unfenced().push_back({emulation::block().thread(), where, value});
}

inline std::uint32_t load_published(const std::uint32_t* where) { return __atomic_load_n(where, __ATOMIC_RELAXED); }

inline std::int32_t dot4(std::uint32_t left, std::uint32_t right, std::int32_t sum) {
    return sum + emulation::dot_of_bytes(left, right);
}

// The carry flag of the thread that runs: no other one runs in the middle of a chain.
inline thread_local bool carry_flag = false;

/// The lower word of a sum, or of a difference, whose upper word is not 0 after a carry or a borrow.
inline std::uint32_t set_carry(std::uint64_t wide) {
    carry_flag = (wide >> 32) != 0;
    return static_cast<std::uint32_t>(wide);
}
inline std::uint64_t product(std::uint32_t a, std::uint32_t b) { return std::uint64_t{a} * b; }

inline std::uint32_t add_cc(std::uint32_t a, std::uint32_t b) { return set_carry(std::uint64_t{a} + b); }
inline std::uint32_t addc_cc(std::uint32_t a, std::uint32_t b) { return set_carry(std::uint64_t{a} + b + carry_flag); }
inline std::uint32_t addc(std::uint32_t a, std::uint32_t b) { return a + b + carry_flag; }
inline std::uint32_t sub_cc(std::uint32_t a, std::uint32_t b) { return set_carry(std::uint64_t{a} - b); }
inline std::uint32_t subc_cc(std::uint32_t a, std::uint32_t b) { return set_carry(std::uint64_t{a} - b - carry_flag); }
inline std::uint32_t subc(std::uint32_t a, std::uint32_t b) { return a - b - carry_flag; }
inline std::uint32_t mad_lo_cc(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
    return set_carry((product(a, b) & 0xFFFFFFFF) + c);
}
inline std::uint32_t madc_lo_cc(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
    return set_carry((product(a, b) & 0xFFFFFFFF) + c + carry_flag);
}
inline std::uint32_t madc_hi_cc(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
    return set_carry((product(a, b) >> 32) + c + carry_flag);
}

inline void mma_m16n8k32(std::int32_t (&sums)[4], const std::uint32_t (&left)[4], const std::uint32_t (&right)[2]) {
    emulation::MmaSm80 mine{sums, left, right};
    emulation::block().collective(emulation::mma_m16n8k32, &mine);
}

inline void mma_m8n8k16(std::int32_t (&sums)[2], std::uint32_t left, std::uint32_t right) {
    emulation::MmaSm75 mine{sums, left, right};
    emulation::block().collective(emulation::mma_m8n8k16, &mine);
}

inline void mma_m16n8k16_bf16(float (&sums)[4], const std::uint32_t (&left)[4], const std::uint32_t (&right)[2]) {
    emulation::MmaFloat mine{sums, left, right};
    emulation::block().collective(emulation::mma_m16n8k16_bf16, &mine);
}

inline void mma_m16n8k64_e2m1(float (&sums)[4], const std::uint32_t (&left)[4], const std::uint32_t (&right)[2], std::uint32_t scales) {
    emulation::MmaFloat mine{sums, left, right, scales};
    emulation::block().collective(emulation::mma_m16n8k64_e2m1, &mine);
}

inline void mma_m16n8k8_f16(float (&upper)[2], float (&lower)[2], std::uint32_t left_upper, std::uint32_t left_lower, std::uint32_t right) {
    float sums[4] = {upper[0], upper[1], lower[0], lower[1]};
    const std::uint32_t left[2] = {left_upper, left_lower};
    emulation::MmaFloat mine{sums, left, &right};
    emulation::block().collective(emulation::mma_m16n8k8_f16, &mine);
    for (unsigned i = 0; i < 2; ++i) {
        upper[i] = sums[i];
        lower[i] = sums[2 + i];
    }
}

inline void load_matrices(std::uint32_t (&result)[4], std::uint32_t address) {
    emulation::LoadMatrices mine{result, address};
    emulation::block().collective(emulation::load_matrices, &mine);
}

inline void copy_async_16(std::uint32_t to, const void* from) { emulation::copy_issue(to, from); }
inline void copy_commit() { emulation::copy_commit(); }
template <int groups_left>
void copy_wait() {
    emulation::copy_wait(groups_left);
}

}  // namespace ptx
