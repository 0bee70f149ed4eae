// PTX primitives of sm_100f, which runs on sm_100 and sm_103, and one of sm_100a alone: tensor memory and tcgen05, each behind a small function.
// emulation/blackwell.h has their twins.
//
// Tensor memory has 128 lanes and 512 columns of 32-bit words for each multiprocessor. An address is the lane in the upper
// 16 bits and the column in the lower. Warp w of a block reaches lanes 32 (w mod 4) to 32 (w mod 4) + 31 only.
#pragma once
#include "ptx.cuh"

namespace ptx {

// ---- tensor memory

/// One warp, all lanes: takes `columns` columns, a power of two from 32 to 512, all lanes of them, and stores the address of
/// the first to shared memory at `to`. Waits until there are as many.
template <uint32_t columns>
__device__ __forceinline__ void tensor_allocate(uint32_t to) {
    static_assert(columns >= 32 && columns <= 512 && (columns & (columns - 1)) == 0);
    asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(to), "n"(columns) : "memory");
}
/// The warp that allocated, once it will allocate no more: other blocks of the multiprocessor may.
__device__ __forceinline__ void tensor_allocate_no_more() {
    asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;" ::: "memory");
}
/// The warp that allocated. Every allocation is freed before its block ends.
template <uint32_t columns>
__device__ __forceinline__ void tensor_free(uint32_t address) {
    asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" ::"r"(address), "n"(columns) : "memory");
}

/// This thread's earlier accesses to tensor memory come before those that others make after a memory barrier's signal ...
__device__ __forceinline__ void tensor_fence_before() { asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory"); }
/// ... and its later accesses come after those that a memory barrier signalled.
__device__ __forceinline__ void tensor_fence_after() { asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory"); }

/// Starts to read 32 columns from `address` on, whose lane is the warp's first: lane l of the warp gets those of lane l. All
/// lanes of the warp call it. The words are there after tensor_load_wait.
__device__ __forceinline__ void tensor_load(uint32_t (&words)[32], uint32_t address) {
    asm volatile(
        "tcgen05.ld.sync.aligned.32x32b.x32.b32 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, [%32];"
        : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3]), "=r"(words[4]), "=r"(words[5]), "=r"(words[6]),
          "=r"(words[7]), "=r"(words[8]), "=r"(words[9]), "=r"(words[10]), "=r"(words[11]), "=r"(words[12]), "=r"(words[13]),
          "=r"(words[14]), "=r"(words[15]), "=r"(words[16]), "=r"(words[17]), "=r"(words[18]), "=r"(words[19]),
          "=r"(words[20]), "=r"(words[21]), "=r"(words[22]), "=r"(words[23]), "=r"(words[24]), "=r"(words[25]),
          "=r"(words[26]), "=r"(words[27]), "=r"(words[28]), "=r"(words[29]), "=r"(words[30]), "=r"(words[31])
        : "r"(address)
        : "memory");
}
/// Waits for this warp's loads. The words are operands, so that the compiler moves no use of them over the wait.
__device__ __forceinline__ void tensor_load_wait(uint32_t (&words)[32]) {
    asm volatile("tcgen05.wait::ld.sync.aligned;"
                 : "+r"(words[0]), "+r"(words[1]), "+r"(words[2]), "+r"(words[3]), "+r"(words[4]), "+r"(words[5]),
                   "+r"(words[6]), "+r"(words[7]), "+r"(words[8]), "+r"(words[9]), "+r"(words[10]), "+r"(words[11]),
                   "+r"(words[12]), "+r"(words[13]), "+r"(words[14]), "+r"(words[15]), "+r"(words[16]), "+r"(words[17]),
                   "+r"(words[18]), "+r"(words[19]), "+r"(words[20]), "+r"(words[21]), "+r"(words[22]), "+r"(words[23]),
                   "+r"(words[24]), "+r"(words[25]), "+r"(words[26]), "+r"(words[27]), "+r"(words[28]), "+r"(words[29]),
                   "+r"(words[30]), "+r"(words[31])
                 :
                 : "memory");
}
/// Stores one word to 16 columns from `address` on of the warp's 32 lanes, whose first the address names, and waits until it
/// is there. All lanes of the warp call it.
__device__ __forceinline__ void tensor_fill_16(uint32_t address, uint32_t word) {
    asm volatile("tcgen05.st.sync.aligned.32x32b.x16.b32 [%0], {%1, %1, %1, %1, %1, %1, %1, %1, %1, %1, %1, %1, %1, %1, %1, %1};" ::"r"(
                     address),
                 "r"(word)
                 : "memory");
    asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory");
}

// ---- tcgen05.mma: one thread issues it for the block; it reads shared memory as its descriptors say

// `tail` stands behind the instruction descriptor, its operands from %5 on.
#define ASSAY_TENSOR_MULTIPLY(kind, tail, ...) \
    asm volatile( \
        "{\n.reg .pred p;\nsetp.ne.b32 p, %4, 0;\n" \
        "tcgen05.mma.cta_group::1.kind::" kind " [%0], %1, %2, %3, " tail "p;\n}" ::"r"(sums), \
        "l"(left), "l"(right), "r"(instruction), "r"(static_cast<int>(accumulate)) __VA_ARGS__ \
        : "memory")

/// The FP32 words from `sums` on = left · rightᵀ + (accumulate ? them : 0), of 16 BF16 operands a row. Row r is lane r, column
/// c is column c from `sums` on.
__device__ __forceinline__ void tensor_multiply_bf16(uint32_t sums, uint64_t left, uint64_t right, uint32_t instruction, bool accumulate) {
    ASSAY_TENSOR_MULTIPLY("f16", "");
}
/// The same of 32 E4M3 operands a row.
__device__ __forceinline__ void tensor_multiply_e4m3(uint32_t sums, uint64_t left, uint64_t right, uint32_t instruction, bool accumulate) {
    ASSAY_TENSOR_MULTIPLY("f8f6f4", "");
}
/// The same of 64 E2M1 operands a row, each 32 of them scaled by a UE8M0 byte in tensor memory: row r's are bytes 0 and 1 of
/// column r / 32 from its operand's address on, lane r mod 32 and the same lane of the three other quarters.
__device__ __forceinline__ void tensor_multiply_mxf4(uint32_t sums, uint64_t left, uint64_t right, uint32_t instruction, bool accumulate,
                                                     uint32_t left_scales, uint32_t right_scales) {
    ASSAY_TENSOR_MULTIPLY("mxf4.block_scale.block32", "[%5], [%6], ", , "r"(left_scales), "r"(right_scales));
}
#if defined(__CUDA_ARCH_FEAT_SM100_ALL)

/// The same of 32 signed bytes a row; the sums are INT32. sm_100a: sm_103 has it not.
__device__ __forceinline__ void tensor_multiply_int8(uint32_t sums, uint64_t left, uint64_t right, uint32_t instruction, bool accumulate) {
    ASSAY_TENSOR_MULTIPLY("i8", "");
}

#endif

/// The thread that issued them: arrives at the memory barrier once all its tcgen05.mma so far have ended.
__device__ __forceinline__ void tensor_commit(uint32_t barrier) {
    asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(barrier) : "memory");
}

}  // namespace ptx

#undef ASSAY_TENSOR_MULTIPLY
