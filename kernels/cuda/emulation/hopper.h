// Twins of ptx_sm90.cuh: TMA, memory barriers, wgmma and register reallocation as the PTX ISA describes them,
// with the checks that a GPU does not make. They check the kernel against this reading of the ISA, not
// against silicon.
//
// Asynchronous work of the GPU happens late here, and not in order: a copied box lands in pieces, some at
// random moments, the rest only when nothing but them is missing for a phase to end; a wgmma reads shared memory
// when its warp waits for it. Its accumulators hold poison until wgmma_wait_all names them: after a plain
// wgmma_wait the hardware has the sums, but the compiler may have moved the read of them before the wait. A copy to
// bytes that a pending wgmma may still read, as far as memory barriers tell its thread, and a wgmma on bytes that
// a pending copy may still write end the launch as races, whether or not the bits come out wrong in this schedule.
#pragma once
#include <cstdint>

#include "cuda.h"

/// Stands for the driver's CUtensorMap: as large and aligned alike, filled in by `emulation::encode_map`.
struct alignas(64) TensorMap {
    std::uint64_t mark;
    const std::uint8_t* base;
    std::uint64_t columns, rows, pitch_bytes;
    std::uint32_t box_columns, box_rows;
    std::uint32_t swizzle_bytes;  // 0, 32, 64 or 128
    std::uint32_t unused[19];
};
static_assert(sizeof(TensorMap) == 128 && alignof(TensorMap) == 64);

namespace emulation {

/// What cuTensorMapEncodeTiled is asked for, its enumerations as the numbers of cuda.h.
struct MapRequest {
    int data_type;
    std::uint32_t rank;
    const void* address;
    const std::uint64_t* sizes;           // columns, rows
    const std::uint64_t* strides_bytes;   // the pitch
    const std::uint32_t* box;             // columns, rows
    const std::uint32_t* element_strides;
    int interleave, swizzle;
};

/// Fills in a map of bytes in two dimensions. False where the driver refuses (its documented rules), or where
/// the emulation does not know the request.
bool encode_map(TensorMap& map, const MapRequest& request);

void require_alignment(std::uint32_t address, std::uint32_t bytes);
void barrier_init(std::uint32_t barrier, std::uint32_t arrivals);
void barrier_init_fence();
void barrier_arrive(std::uint32_t barrier, std::uint32_t expected_bytes);
void barrier_wait(std::uint32_t barrier, std::uint32_t parity);
bool elect_one();
void check_map(const TensorMap& map);
void copy_box(std::uint32_t to, const TensorMap& map, std::uint32_t barrier, std::uint32_t column, std::uint32_t row);
void wgmma_fence(std::int32_t* sums);
void wgmma_commit();
void wgmma_wait(unsigned groups_left);
void wgmma_wait_all(std::int32_t* sums);
void wgmma(std::int32_t* sums, std::uint64_t left, std::uint64_t right, bool accumulate, bool bf16);

/// Accumulators by their bits, as all but the arithmetic has them.
inline std::int32_t* bits(std::int32_t* sums) { return sums; }
inline std::int32_t* bits(float* sums) { return reinterpret_cast<std::int32_t*>(sums); }

}  // namespace emulation

namespace ptx {

inline bool elect_one() { return emulation::elect_one(); }
template <std::uint32_t bytes>
void require_alignment(std::uint32_t address) {
    emulation::require_alignment(address, bytes);
}
inline void barrier_init(std::uint32_t barrier, std::uint32_t arrivals) { emulation::barrier_init(barrier, arrivals); }
inline void barrier_init_fence() { emulation::barrier_init_fence(); }
inline void barrier_arrive(std::uint32_t barrier) { emulation::barrier_arrive(barrier, 0); }
inline void barrier_arrive_expect(std::uint32_t barrier, std::uint32_t bytes) { emulation::barrier_arrive(barrier, bytes); }
inline void barrier_wait(std::uint32_t barrier, std::uint32_t parity) { emulation::barrier_wait(barrier, parity); }
inline void prefetch_map(const TensorMap& map) { emulation::check_map(map); }
inline void copy_box(std::uint32_t to, const TensorMap& map, std::uint32_t barrier, std::uint32_t column, std::uint32_t row) {
    emulation::copy_box(to, map, barrier, column, row);
}
template <class Sum>
void wgmma_fence(Sum (&sums)[128]) {
    emulation::wgmma_fence(emulation::bits(sums));
}
inline void wgmma_commit() { emulation::wgmma_commit(); }
template <int groups_left>
void wgmma_wait() {
    emulation::wgmma_wait(groups_left);
}
template <class Sum>
void wgmma_wait_all(Sum (&sums)[128]) {
    emulation::wgmma_wait_all(emulation::bits(sums));
}
inline void wgmma_m64n256k32(std::int32_t (&sums)[128], std::uint64_t left, std::uint64_t right, bool accumulate) {
    emulation::wgmma(sums, left, right, accumulate, false);
}
inline void wgmma_m64n256k16_bf16(float (&sums)[128], std::uint64_t left, std::uint64_t right, bool accumulate) {
    emulation::wgmma(emulation::bits(sums), left, right, accumulate, true);
}

}  // namespace ptx
