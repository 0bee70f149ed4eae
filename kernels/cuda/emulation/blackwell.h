// Twins of ptx_sm100.cuh: tensor memory and tcgen05 as the PTX ISA describes them, with the checks that a GPU does not
// make. They check the kernel against this reading of the ISA, not against silicon.
//
// Asynchronous work happens late: multiplications and the arrivals of commits are done in order, some at random moments,
// the rest when nothing but them is missing for a phase to end. Loaded words are poison until the wait that names them. Who
// may touch data ordered by memory barriers (hopper_state.h), and for tensor memory only through the two fences: an access
// that they do not order ends the launch as a race, whether or not the bits come out wrong in this schedule. So do columns
// that were not allocated, another warp's lanes, and a block that ends before it has given everything back.
#pragma once
#include <cstdint>

#include "hopper.h"

namespace emulation {

constexpr unsigned words_of_load = 32, columns_of_fill = 16;

void tensor_allocate(std::uint32_t to, std::uint32_t columns);
void tensor_allocate_no_more();
void tensor_free(std::uint32_t address, std::uint32_t columns);
void tensor_fence_before();
void tensor_fence_after();
void tensor_load(std::uint32_t* words, std::uint32_t address);
void tensor_load_wait(std::uint32_t* words);
void tensor_fill(std::uint32_t address, std::uint32_t word);
void tensor_commit(std::uint32_t barrier);

/// One tcgen05.mma of 32 bytes of the inner dimension.
struct TensorProduct {
    Format format;  // of its kind: INT8 of i8, BF16 of f16, E4M3 of f8f6f4, E2M1 of mxf4
    std::uint32_t sums;
    std::uint64_t left, right;
    std::uint32_t instruction;
    bool accumulate;
    std::uint32_t left_scales, right_scales;  // of mxf4
};
void tensor_multiply(const TensorProduct& product);

}  // namespace emulation

namespace ptx {

template <std::uint32_t columns>
void tensor_allocate(std::uint32_t to) {
    emulation::tensor_allocate(to, columns);
}
inline void tensor_allocate_no_more() { emulation::tensor_allocate_no_more(); }
template <std::uint32_t columns>
void tensor_free(std::uint32_t address) {
    emulation::tensor_free(address, columns);
}
inline void tensor_fence_before() { emulation::tensor_fence_before(); }
inline void tensor_fence_after() { emulation::tensor_fence_after(); }
inline void tensor_load(std::uint32_t (&words)[32], std::uint32_t address) { emulation::tensor_load(words, address); }
inline void tensor_load_wait(std::uint32_t (&words)[32]) { emulation::tensor_load_wait(words); }
inline void tensor_fill_16(std::uint32_t address, std::uint32_t word) { emulation::tensor_fill(address, word); }
inline void tensor_multiply_bf16(std::uint32_t sums, std::uint64_t left, std::uint64_t right, std::uint32_t instruction, bool accumulate) {
    emulation::tensor_multiply({emulation::Format::bf16, sums, left, right, instruction, accumulate, 0, 0});
}
inline void tensor_multiply_e4m3(std::uint32_t sums, std::uint64_t left, std::uint64_t right, std::uint32_t instruction, bool accumulate) {
    emulation::tensor_multiply({emulation::Format::e4m3, sums, left, right, instruction, accumulate, 0, 0});
}
inline void tensor_multiply_int8(std::uint32_t sums, std::uint64_t left, std::uint64_t right, std::uint32_t instruction, bool accumulate) {
    emulation::tensor_multiply({emulation::Format::int8, sums, left, right, instruction, accumulate, 0, 0});
}
inline void tensor_multiply_mxf4(std::uint32_t sums, std::uint64_t left, std::uint64_t right, std::uint32_t instruction, bool accumulate,
                                 std::uint32_t left_scales, std::uint32_t right_scales) {
    emulation::tensor_multiply({emulation::Format::e2m1, sums, left, right, instruction, accumulate, left_scales, right_scales});
}
inline void tensor_commit(std::uint32_t barrier) { emulation::tensor_commit(barrier); }

}  // namespace ptx
