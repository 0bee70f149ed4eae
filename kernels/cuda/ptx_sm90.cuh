// PTX primitives of sm_90a: the bulk tensor copy (TMA), memory barriers, wgmma and register reallocation, each
// behind a small function. emulation/hopper.h has their twins.
#pragma once
#include "ptx.cuh"

/// The driver's CUtensorMap, passed to a kernel by value. Its bits are the driver's business.
struct alignas(64) TensorMap {
    uint64_t opaque[16];
};
static_assert(sizeof(TensorMap) == 128);

namespace ptx {

/// True in one lane, the same one at every call. All lanes of the warp call it.
__device__ __forceinline__ bool elect_one() {
    uint32_t elected;
    asm volatile(
        "{\n.reg .pred p;\nelect.sync _|p, 0xFFFFFFFF;\nselp.u32 %0, 1, 0, p;\n}" : "=r"(elected));
    return elected != 0;
}

/// Ends the launch with an error where a shared-memory address is no multiple of `bytes`, a power of two. The copy of
/// the address is opaque to the compiler, which otherwise trusts the alignment that was asked for and drops the test.
template <uint32_t bytes>
__device__ __forceinline__ void require_alignment(uint32_t address) {
    static_assert((bytes & (bytes - 1)) == 0);
    uint32_t actual;
    asm volatile("mov.u32 %0, %1;" : "=r"(actual) : "r"(address));
    if (actual & (bytes - 1)) asm volatile("trap;");
}

// ---- memory barriers: 8 bytes of shared memory each, by address

/// One thread, before anything else touches the barrier. A phase then takes `arrivals` arrivals.
__device__ __forceinline__ void barrier_init(uint32_t barrier, uint32_t arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
/// After this thread's barrier_init and before __syncthreads: threads see the barriers by that, but copies
/// complete on them through another path into shared memory, the asynchronous proxy, which needs this fence.
__device__ __forceinline__ void barrier_init_fence() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
/// Each thread that waits for the phase sees this thread's earlier writes.
__device__ __forceinline__ void barrier_arrive(uint32_t barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
/// Arrives, and the phase ends only when `bytes` have been copied too.
__device__ __forceinline__ void barrier_arrive_expect(uint32_t barrier, uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
/// Waits until a phase of this parity has ended: the first phase is 0, and before it lies an ended one of
/// parity 1. Sees the writes before the arrivals, and the bytes copied.
__device__ __forceinline__ void barrier_wait(uint32_t barrier, uint32_t parity) {
    uint32_t ended;
    do {
        // It sleeps in hardware until the phase ends or a time limit of the system's is over.
        asm volatile(
            "{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
            : "=r"(ended)
            : "r"(barrier), "r"(parity)
            : "memory");
    } while (!ended);
}

// ---- TMA

/// Brings the map into the cache that copies read it from. One thread.
__device__ __forceinline__ void prefetch_map(const TensorMap& map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}
/// Starts the copy of one box of the map, from column `column` and row `row` on, to shared memory at `to`,
/// swizzled as the map says; its bytes count towards the current phase of `barrier`. One thread.
__device__ __forceinline__ void copy_box(uint32_t to, const TensorMap& map, uint32_t barrier, uint32_t column, uint32_t row) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(to),
        "l"(&map), "r"(barrier), "r"(column), "r"(row)
        : "memory");
}

// ---- wgmma: a warpgroup is four warps, the first one's number a multiple of four; all threads call these

// The 128 accumulators of a thread as operands that an asm statement reads and writes: "+r" or "+f".
#define ASSAY_WGMMA_SUMS(kind, sums) \
    kind(sums[0]), kind(sums[1]), kind(sums[2]), kind(sums[3]), kind(sums[4]), kind(sums[5]), kind(sums[6]), kind(sums[7]), \
    kind(sums[8]), kind(sums[9]), kind(sums[10]), kind(sums[11]), kind(sums[12]), kind(sums[13]), kind(sums[14]), kind(sums[15]), \
    kind(sums[16]), kind(sums[17]), kind(sums[18]), kind(sums[19]), kind(sums[20]), kind(sums[21]), kind(sums[22]), kind(sums[23]), \
    kind(sums[24]), kind(sums[25]), kind(sums[26]), kind(sums[27]), kind(sums[28]), kind(sums[29]), kind(sums[30]), kind(sums[31]), \
    kind(sums[32]), kind(sums[33]), kind(sums[34]), kind(sums[35]), kind(sums[36]), kind(sums[37]), kind(sums[38]), kind(sums[39]), \
    kind(sums[40]), kind(sums[41]), kind(sums[42]), kind(sums[43]), kind(sums[44]), kind(sums[45]), kind(sums[46]), kind(sums[47]), \
    kind(sums[48]), kind(sums[49]), kind(sums[50]), kind(sums[51]), kind(sums[52]), kind(sums[53]), kind(sums[54]), kind(sums[55]), \
    kind(sums[56]), kind(sums[57]), kind(sums[58]), kind(sums[59]), kind(sums[60]), kind(sums[61]), kind(sums[62]), kind(sums[63]), \
    kind(sums[64]), kind(sums[65]), kind(sums[66]), kind(sums[67]), kind(sums[68]), kind(sums[69]), kind(sums[70]), kind(sums[71]), \
    kind(sums[72]), kind(sums[73]), kind(sums[74]), kind(sums[75]), kind(sums[76]), kind(sums[77]), kind(sums[78]), kind(sums[79]), \
    kind(sums[80]), kind(sums[81]), kind(sums[82]), kind(sums[83]), kind(sums[84]), kind(sums[85]), kind(sums[86]), kind(sums[87]), \
    kind(sums[88]), kind(sums[89]), kind(sums[90]), kind(sums[91]), kind(sums[92]), kind(sums[93]), kind(sums[94]), kind(sums[95]), \
    kind(sums[96]), kind(sums[97]), kind(sums[98]), kind(sums[99]), kind(sums[100]), kind(sums[101]), kind(sums[102]), kind(sums[103]), \
    kind(sums[104]), kind(sums[105]), kind(sums[106]), kind(sums[107]), kind(sums[108]), kind(sums[109]), kind(sums[110]), kind(sums[111]), \
    kind(sums[112]), kind(sums[113]), kind(sums[114]), kind(sums[115]), kind(sums[116]), kind(sums[117]), kind(sums[118]), kind(sums[119]), \
    kind(sums[120]), kind(sums[121]), kind(sums[122]), kind(sums[123]), kind(sums[124]), kind(sums[125]), kind(sums[126]), kind(sums[127])
// wgmma.mma_async of the whole tile; `last` are the operands behind the descriptors.
#define ASSAY_WGMMA(kind, shape, last) \
    asm volatile( \
        "{\n.reg .pred p;\nsetp.ne.b32 p, %130, 0;\n" \
        "wgmma.mma_async.sync.aligned." shape " " \
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, " \
        "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, " \
        "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, " \
        "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
        "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127}, " \
        "%128, %129, p" last ";\n}" \
        : ASSAY_WGMMA_SUMS(kind, sums) \
        : "l"(left), "l"(right), "r"(static_cast<int>(accumulate)))

/// Before the first wgmma after its accumulators were read or written: those accesses come first. That is the
/// hardware's order; the operands are the compiler's: it moves no access to the accumulators over this statement.
__device__ __forceinline__ void wgmma_fence(int32_t (&sums)[128]) {
    asm volatile("wgmma.fence.sync.aligned;" : ASSAY_WGMMA_SUMS("+r", sums) : : "memory");
}
__device__ __forceinline__ void wgmma_fence(float (&sums)[128]) {
    asm volatile("wgmma.fence.sync.aligned;" : ASSAY_WGMMA_SUMS("+f", sums) : : "memory");
}
/// The wgmma since the last commit become a group.
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
/// Waits until at most `groups_left` of the youngest groups are pending. Accumulators of a pending group must not
/// be accessed, nor its operands in shared memory be overwritten. Says nothing to the compiler about accumulators:
/// before they are read, wgmma_wait_all.
template <int groups_left>
__device__ __forceinline__ void wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(groups_left) : "memory");
}
/// Waits for all groups. The accumulators are operands, so that the compiler cannot move a read of them over the
/// wait: without that it may, since wgmma gives its results, as far as the compiler can see, when it is issued.
__device__ __forceinline__ void wgmma_wait_all(int32_t (&sums)[128]) {
    asm volatile("wgmma.wait_group.sync.aligned 0;" : ASSAY_WGMMA_SUMS("+r", sums) : : "memory");
}
__device__ __forceinline__ void wgmma_wait_all(float (&sums)[128]) {
    asm volatile("wgmma.wait_group.sync.aligned 0;" : ASSAY_WGMMA_SUMS("+f", sums) : : "memory");
}
/// sums (64 x 256) = left (64 x 32) . right (256 x 32)ᵀ + (accumulate ? sums : 0), operands in shared memory as
/// their descriptors say. With w the warp's number in its group, sums[4 j + 2 h + e] of lane l is row
/// 16 w + 8 h + l / 4, column 8 j + 2 (l % 4) + e.
__device__ __forceinline__ void wgmma_m64n256k32(int32_t (&sums)[128], uint64_t left, uint64_t right, bool accumulate) {
    ASSAY_WGMMA("+r", "m64n256k32.s32.s8.s8", "");
}
/// The same of 16 BF16 operands a row, also 32 bytes: neither operand is negated, both are K-major.
__device__ __forceinline__ void wgmma_m64n256k16_bf16(float (&sums)[128], uint64_t left, uint64_t right, bool accumulate) {
    ASSAY_WGMMA("+f", "m64n256k16.f32.bf16.bf16", ", 1, 1, 0, 0");
}

}  // namespace ptx

#undef ASSAY_WGMMA
#undef ASSAY_WGMMA_SUMS
