// The PTX primitives that the kernels use, each behind a small function. emulation/ptx.h has their twins.
// Those for sm_80 and up are missing on older targets: a kernel that uses them is not compiled for those.
#pragma once
#include <stdint.h>

#define ASSAY_SHARED(type, name, count) __shared__ __align__(16) type name[count]
#define ASSAY_DYNAMIC_SHARED(name) extern __shared__ __align__(1024) uint8_t name[]

// On the processor these put a kernel into the registry.
#define ASSAY_KERNEL(kernel, threads, shared_bytes) static_assert(true)
#define ASSAY_PRODUCT(kernel, threads, shared_bytes, tile_rows, tile_columns) static_assert(true)

namespace ptx {

/// A pointer to shared memory as the 32-bit address that ldmatrix and cp.async take.
__device__ __forceinline__ uint32_t shared_address(const void* pointer) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// Reads and writes of shared memory go through these two, so that the emulation sees them.
template <class T>
__device__ __forceinline__ T load_shared(const T* pointer) {
    return *pointer;
}
template <class T>
__device__ __forceinline__ void store_shared(T* pointer, T value) {
    *pointer = value;
}

__device__ __forceinline__ uint4 load_global_16(const void* pointer) { return *static_cast<const uint4*>(pointer); }

__device__ __forceinline__ uint2 load_global_8(const void* pointer) { return *static_cast<const uint2*>(pointer); }

__device__ __forceinline__ void store_global_16(void* pointer, uint4 value) { *static_cast<uint4*>(pointer) = value; }

/// 16 bytes of a 64-byte line that is read once: past the L1 cache, and no more than the line into the L2.
__device__ __forceinline__ uint4 load_line_16(const void* pointer) {
    uint4 value;
    asm volatile("ld.global.nc.L1::no_allocate.L2::64B.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
                 : "l"(__cvta_generic_to_global(pointer)));
    return value;
}

/// A store that another block reads in this launch: after the storing thread's __threadfence, by
/// `load_published`. The storing thread does not read it back.
__device__ __forceinline__ void publish(uint32_t* where, uint32_t value) { *where = value; }
/// Past the L1 cache, which other blocks' stores do not reach.
__device__ __forceinline__ uint32_t load_published(const uint32_t* where) { return __ldcg(where); }

/// sum + the inner product of four signed bytes each.
__device__ __forceinline__ int32_t dot4(uint32_t left, uint32_t right, int32_t sum) {
    return __dp4a(static_cast<int>(left), static_cast<int>(right), sum);
}

/// sums (8 x 8) += left (8 x 16, row-major) . right (16 x 8, column-major); sm_75 and up.
__device__ __forceinline__ void mma_m8n8k16(int32_t (&sums)[2], uint32_t left, uint32_t right) {
    asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0, %1}, {%2}, {%3}, {%0, %1};"
                 : "+r"(sums[0]), "+r"(sums[1])
                 : "r"(left), "r"(right));
}

/// sums (16 x 8) += left (16 x 8, row-major) . right (8 x 8, column-major), FP16 operands; rows 8 to 15 in the lower sums
/// and in `left_lower`. sm_75 and up.
__device__ __forceinline__ void mma_m16n8k8_f16(float (&upper)[2], float (&lower)[2], uint32_t left_upper, uint32_t left_lower, uint32_t right) {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
                 : "+f"(upper[0]), "+f"(upper[1]), "+f"(lower[0]), "+f"(lower[1])
                 : "r"(left_upper), "r"(left_lower), "r"(right));
}

/// Four 8 x 16-byte matrices; lane 8m + r gives the address of row r of matrix m. sm_75 and up.
__device__ __forceinline__ void load_matrices(uint32_t (&result)[4], uint32_t address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(result[0]), "=r"(result[1]), "=r"(result[2]), "=r"(result[3])
                 : "r"(address)
                 : "memory");
}

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800

/// sums (16 x 8) += left (16 x 32, row-major) . right (32 x 8, column-major).
__device__ __forceinline__ void mma_m16n8k32(int32_t (&sums)[4], const uint32_t (&left)[4], const uint32_t (&right)[2]) {
    asm volatile(
        "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3])
        : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right[0]), "r"(right[1]));
}

/// sums (16 x 8) += left (16 x 16, row-major) . right (16 x 8, column-major), BF16 operands.
__device__ __forceinline__ void mma_m16n8k16_bf16(float (&sums)[4], const uint32_t (&left)[4], const uint32_t (&right)[2]) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right[0]), "r"(right[1]));
}

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 1200

/// sums (16 x 8) += left (16 x 64, row-major) . right (64 x 8, column-major), E2M1 operands, two a byte. `scales` are UE8M0,
/// one for each half of a row and of a column, the same for all of them. sm_120f.
__device__ __forceinline__ void mma_m16n8k64_e2m1(float (&sums)[4], const uint32_t (&left)[4], const uint32_t (&right)[2], uint32_t scales) {
    asm volatile(
        "mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3}, {%10}, {0, 0}, {%10}, {0, 0};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right[0]), "r"(right[1]), "r"(scales));
}

#endif

/// Starts the copy of 16 bytes from global to shared memory, past the L1 cache.
__device__ __forceinline__ void copy_async_16(uint32_t to, const void* from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(__cvta_generic_to_global(from)) : "memory");
}
/// This thread's copies since the last commit become a group.
__device__ __forceinline__ void copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// Waits until at most `groups_left` of this thread's youngest groups are still under way.
template <int groups_left>
__device__ __forceinline__ void copy_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(groups_left) : "memory");
}

#endif

// Chains of 32-bit limbs. "_cc" sets the carry flag (of a subtraction the borrow), "addc", "madc" and "subc" add it. The flag
// lives from one of these statements to the next: they stay in order, and nothing else that a kernel compiles to touches it.

__device__ __forceinline__ uint32_t add_cc(uint32_t a, uint32_t b) {
    uint32_t sum;
    asm volatile("add.cc.u32 %0, %1, %2;" : "=r"(sum) : "r"(a), "r"(b));
    return sum;
}
__device__ __forceinline__ uint32_t addc_cc(uint32_t a, uint32_t b) {
    uint32_t sum;
    asm volatile("addc.cc.u32 %0, %1, %2;" : "=r"(sum) : "r"(a), "r"(b));
    return sum;
}
__device__ __forceinline__ uint32_t addc(uint32_t a, uint32_t b) {
    uint32_t sum;
    asm volatile("addc.u32 %0, %1, %2;" : "=r"(sum) : "r"(a), "r"(b));
    return sum;
}
__device__ __forceinline__ uint32_t sub_cc(uint32_t a, uint32_t b) {
    uint32_t difference;
    asm volatile("sub.cc.u32 %0, %1, %2;" : "=r"(difference) : "r"(a), "r"(b));
    return difference;
}
__device__ __forceinline__ uint32_t subc_cc(uint32_t a, uint32_t b) {
    uint32_t difference;
    asm volatile("subc.cc.u32 %0, %1, %2;" : "=r"(difference) : "r"(a), "r"(b));
    return difference;
}
__device__ __forceinline__ uint32_t subc(uint32_t a, uint32_t b) {
    uint32_t difference;
    asm volatile("subc.u32 %0, %1, %2;" : "=r"(difference) : "r"(a), "r"(b));
    return difference;
}
/// The lower half of a · b, plus c.
__device__ __forceinline__ uint32_t mad_lo_cc(uint32_t a, uint32_t b, uint32_t c) {
    uint32_t sum;
    asm volatile("mad.lo.cc.u32 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(b), "r"(c));
    return sum;
}
__device__ __forceinline__ uint32_t madc_lo_cc(uint32_t a, uint32_t b, uint32_t c) {
    uint32_t sum;
    asm volatile("madc.lo.cc.u32 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(b), "r"(c));
    return sum;
}
/// The upper half of a · b, plus c.
__device__ __forceinline__ uint32_t madc_hi_cc(uint32_t a, uint32_t b, uint32_t c) {
    uint32_t sum;
    asm volatile("madc.hi.cc.u32 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(b), "r"(c));
    return sum;
}

}  // namespace ptx
