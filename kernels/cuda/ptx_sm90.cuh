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
/// What this thread did before is seen by whoever waits for the phase.
__device__ __forceinline__ void barrier_arrive(uint32_t barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
/// Arrives, and the phase ends only when `bytes` have been copied too.
__device__ __forceinline__ void barrier_arrive_expect(uint32_t barrier, uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
/// Waits until a phase of this parity has ended: the first phase is 0, and before it lies an ended one of
/// parity 1. Sees what was done before the arrivals, and the bytes copied.
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

// The 128 accumulators of a thread as operands that an asm statement reads and writes.
#define ASSAY_WGMMA_SUMS(sums) \
    "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3]), "+r"(sums[4]), "+r"(sums[5]), "+r"(sums[6]), "+r"(sums[7]), \
    "+r"(sums[8]), "+r"(sums[9]), "+r"(sums[10]), "+r"(sums[11]), "+r"(sums[12]), "+r"(sums[13]), "+r"(sums[14]), "+r"(sums[15]), \
    "+r"(sums[16]), "+r"(sums[17]), "+r"(sums[18]), "+r"(sums[19]), "+r"(sums[20]), "+r"(sums[21]), "+r"(sums[22]), "+r"(sums[23]), \
    "+r"(sums[24]), "+r"(sums[25]), "+r"(sums[26]), "+r"(sums[27]), "+r"(sums[28]), "+r"(sums[29]), "+r"(sums[30]), "+r"(sums[31]), \
    "+r"(sums[32]), "+r"(sums[33]), "+r"(sums[34]), "+r"(sums[35]), "+r"(sums[36]), "+r"(sums[37]), "+r"(sums[38]), "+r"(sums[39]), \
    "+r"(sums[40]), "+r"(sums[41]), "+r"(sums[42]), "+r"(sums[43]), "+r"(sums[44]), "+r"(sums[45]), "+r"(sums[46]), "+r"(sums[47]), \
    "+r"(sums[48]), "+r"(sums[49]), "+r"(sums[50]), "+r"(sums[51]), "+r"(sums[52]), "+r"(sums[53]), "+r"(sums[54]), "+r"(sums[55]), \
    "+r"(sums[56]), "+r"(sums[57]), "+r"(sums[58]), "+r"(sums[59]), "+r"(sums[60]), "+r"(sums[61]), "+r"(sums[62]), "+r"(sums[63]), \
    "+r"(sums[64]), "+r"(sums[65]), "+r"(sums[66]), "+r"(sums[67]), "+r"(sums[68]), "+r"(sums[69]), "+r"(sums[70]), "+r"(sums[71]), \
    "+r"(sums[72]), "+r"(sums[73]), "+r"(sums[74]), "+r"(sums[75]), "+r"(sums[76]), "+r"(sums[77]), "+r"(sums[78]), "+r"(sums[79]), \
    "+r"(sums[80]), "+r"(sums[81]), "+r"(sums[82]), "+r"(sums[83]), "+r"(sums[84]), "+r"(sums[85]), "+r"(sums[86]), "+r"(sums[87]), \
    "+r"(sums[88]), "+r"(sums[89]), "+r"(sums[90]), "+r"(sums[91]), "+r"(sums[92]), "+r"(sums[93]), "+r"(sums[94]), "+r"(sums[95]), \
    "+r"(sums[96]), "+r"(sums[97]), "+r"(sums[98]), "+r"(sums[99]), "+r"(sums[100]), "+r"(sums[101]), "+r"(sums[102]), "+r"(sums[103]), \
    "+r"(sums[104]), "+r"(sums[105]), "+r"(sums[106]), "+r"(sums[107]), "+r"(sums[108]), "+r"(sums[109]), "+r"(sums[110]), "+r"(sums[111]), \
    "+r"(sums[112]), "+r"(sums[113]), "+r"(sums[114]), "+r"(sums[115]), "+r"(sums[116]), "+r"(sums[117]), "+r"(sums[118]), "+r"(sums[119]), \
    "+r"(sums[120]), "+r"(sums[121]), "+r"(sums[122]), "+r"(sums[123]), "+r"(sums[124]), "+r"(sums[125]), "+r"(sums[126]), "+r"(sums[127])

/// Before the first wgmma after its accumulators were read or written: those accesses come first. That is the
/// hardware's order; the operands are the compiler's: it moves no access to the accumulators over this statement.
__device__ __forceinline__ void wgmma_fence(int32_t (&sums)[128]) {
    asm volatile("wgmma.fence.sync.aligned;" : ASSAY_WGMMA_SUMS(sums) : : "memory");
}
/// The wgmma since the last commit become a group.
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
/// Waits until at most `groups_left` of the youngest groups are pending. Accumulators of a pending group must not
/// be accessed, nor what it reads in shared memory be overwritten. Says nothing to the compiler about accumulators:
/// before they are read, wgmma_wait_all.
template <int groups_left>
__device__ __forceinline__ void wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(groups_left) : "memory");
}
/// Waits for all groups. The accumulators are operands, so that the compiler cannot move a read of them over the
/// wait: without that it may, since wgmma gives its results, as far as the compiler can see, when it is issued.
__device__ __forceinline__ void wgmma_wait_all(int32_t (&sums)[128]) {
    asm volatile("wgmma.wait_group.sync.aligned 0;" : ASSAY_WGMMA_SUMS(sums) : : "memory");
}
/// sums (64 x 256) = left (64 x 32) . right (256 x 32)ᵀ + (accumulate ? sums : 0), operands in shared memory as
/// their descriptors say. With w the warp's number in its group, sums[4 j + 2 h + e] of lane l is row
/// 16 w + 8 h + l / 4, column 8 j + 2 (l % 4) + e.
__device__ __forceinline__ void wgmma_m64n256k32(int32_t (&sums)[128], uint64_t left, uint64_t right, bool accumulate) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %130, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n256k32.s32.s8.s8 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
        "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
        "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
        "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
        "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127}, "
        "%128, %129, p;\n}"
        : ASSAY_WGMMA_SUMS(sums)
        : "l"(left), "l"(right), "r"(static_cast<int>(accumulate)));
}

// ---- registers, moved between the warpgroups of a block; all threads of a warpgroup call these

/// Gives back what is above `count` registers a thread.
template <int count>
__device__ __forceinline__ void registers_release() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(count));
}
/// Waits until others have given back enough, and takes up to `count` registers a thread.
template <int count>
__device__ __forceinline__ void registers_take() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(count));
}

}  // namespace ptx

#undef ASSAY_WGMMA_SUMS
