// The work of a Blackwell block under way: tensor memory, multiplications, commits. Inside of blackwell.cpp and tensor.cpp.
#pragma once
#include <cstdint>
#include <deque>
#include <vector>

#include "blackwell.h"
#include "hopper_state.h"

namespace emulation {

constexpr unsigned tensor_lanes = 128, tensor_columns = 512, quarter_lanes = 32, allocation_unit = 32;

/// Columns from one on, in all lanes.
struct Columns {
    std::uint32_t begin, end;
    bool meets(const Columns& other) const { return begin < other.end && other.begin < end; }
};

/// A tcgen05.mma as its descriptors say.
struct Multiplication {
    TensorProduct product;
    unsigned rows, columns;  // of the sums
    Columns sums, left_scales, right_scales;
};

/// A request of the multiplying thread: a multiplication, or an arrival once those before it have ended.
struct Request {
    bool is_commit;
    Multiplication multiplication;
    std::size_t barrier;
};

/// A multiplication that has ended, and when by the clock of multiplications.
struct PastMultiplication {
    Multiplication multiplication;
    std::uint32_t time;
};

/// A warp's load that it has not waited for.
struct PendingLoad {
    std::uint32_t* words[warp_threads];
    std::uint32_t column;
};

/// A warp's access to columns: not told to others before all its lanes have passed a fence, then at that time of its clock.
struct Access {
    unsigned warp;
    Columns columns;
    bool is_store, is_fenced;
    std::uint32_t time;
};

struct TensorWarp {
    std::vector<PendingLoad> loads;
    std::uint32_t fenced_lanes = 0;  // since the last access
    Clock heard;                     // the clock as of the last fence behind a wait
};

struct Tensor {
    void begin();
    std::uint32_t& word(std::uint32_t lane, std::uint32_t column) { return words[lane * tensor_columns + column]; }
    bool is_allocated(const Columns& columns) const;

    std::vector<std::uint32_t> words;
    std::vector<Columns> allocated;
    unsigned allocator = 0;  // the warp that allocates
    bool may_allocate = true, has_allocated = false;
    bool has_issuer = false;
    unsigned issuer = 0;     // the thread that multiplies
    std::deque<Request> requests;
    std::vector<PastMultiplication> past;  // the last one with each pair of operands and sums
    std::vector<Access> accesses;          // the last one of each warp at each place
    std::vector<TensorWarp> warps;
    std::uint32_t time = 1;
};

Tensor& tensor();

/// Decodes and checks the descriptors; ends the launch where the emulation does not know their values.
Multiplication decoded(const TensorProduct& product);
/// Whether it reads any of these addresses of shared memory.
bool reads(const Multiplication& multiplication, std::uint32_t begin, std::uint32_t end);
/// Why it cannot be done, or null: then it is.
const char* multiply(Tensor& state, const std::uint8_t* shared, const Units& units, const Multiplication& multiplication);

}  // namespace emulation
