// The pending work of a Hopper block: barriers, copies and wgmma. Inside of hopper.cpp and wgmma.cpp, and of the files that
// Blackwell adds (tensor_state.h).
#pragma once
#include <cstdint>
#include <deque>
#include <vector>

#include "hopper.h"

namespace emulation {

/// Memory barriers of one block.
constexpr unsigned most_barriers = 64;

/// How far a warp knows others to have come, by what memory barriers told it: a vector clock. A warp's own time
/// steps at each of its arrivals, a barrier's when one of its phases ends, that of tcgen05.mma at each commit that arrives.
/// __syncthreads tells nothing here.
class Clock {
public:
    std::uint32_t of_warp(unsigned warp) const { return times_[warp]; }
    std::uint32_t of_barrier(std::size_t barrier) const { return times_[max_warps + barrier]; }
    std::uint32_t of_tensor() const { return times_[max_warps + most_barriers]; }
    void step_warp(unsigned warp) { ++times_[warp]; }
    void step_barrier(std::size_t barrier) { ++times_[max_warps + barrier]; }
    void hear(const Clock& other) {
        for (unsigned i = 0; i < count; ++i)
            if (other.times_[i] > times_[i]) times_[i] = other.times_[i];
    }
    void hear_tensor(std::uint32_t time) { times_[max_warps + most_barriers] = time; }

private:
    static constexpr unsigned count = max_warps + most_barriers + 1;
    std::uint32_t times_[count] = {};
};

/// A memory barrier: a phase ends when as many have arrived as are expected, and its count of bytes is 0.
struct Barrier {
    std::uint32_t address, arrivals, pending, phase;
    std::int64_t bytes;
    unsigned maker;  // thread
    bool seen_by_copies;
    Clock told, telling;  // by the phases that have ended; by the arrivals so far
};

/// Some rows of a box that is being copied.
struct Piece {
    std::uint32_t to, first_row, rows;  // `to` is the box's address
    std::uint32_t column, row;          // and where it begins in the map
    std::size_t barrier;
    TensorMap map;
};

/// The bytes that a copy wrote, or will: to be read by those who know that the barrier has ended its phase of that time.
struct Box {
    std::uint32_t begin, end;
    std::size_t barrier;
    std::uint32_t time;
};

/// One wgmma of a warp.
struct Product {
    std::uint64_t left, right;
    bool accumulate;
    bool bf16;  // else INT8
};

/// A wgmma that has ended, and when that was by its warp's clock.
struct PastProduct {
    Product product;
    std::uint32_t time;
};

/// The wgmma of one warp that are under way, and their accumulators; what those before them have read.
struct WarpProducts {
    static constexpr unsigned sums_of_lane = 128;
    std::vector<Product> open;                // since the last commit
    std::deque<std::vector<Product>> groups;  // oldest first
    std::int32_t* lanes[32] = {};             // the kernel's accumulators; null while nothing is under way
    std::vector<std::int32_t> sums;           // their true values
    const std::int32_t* fenced[32] = {};      // the accumulators that a wgmma_fence has ordered; null without one
    std::size_t issued = 0;
    std::vector<PastProduct> past;            // the last one with each pair of operands
    Clock clock;
};

/// A warpgroup's wgmma, as its first warp issued them: the other three must issue the same.
struct Warpgroup {
    std::vector<Product> issued;
};

/// The state of one block, by Block::state.
struct Hopper {
    void begin();
    /// Whether a copy under way writes to these addresses.
    bool copied(std::uint32_t begin, std::uint32_t end) const;
    void note_box(const Box& box);
    /// Whether a wgmma may still be reading there, as far as warp `by` can know: it is under way, or it has ended
    /// and its warp has arrived nowhere since that `by` has waited for.
    bool may_be_read(std::uint32_t begin, std::uint32_t end, unsigned by) const;

    std::uint8_t* shared = nullptr;
    Draw draw{0};
    std::vector<Barrier> barriers;
    std::vector<Piece> pieces;
    std::vector<Box> boxes;  // the last one at each place
    std::vector<WarpProducts> warps;
    std::vector<Warpgroup> warpgroups;
    const char* late_fault = nullptr;  // found where no thread could be stopped
    Code late_code = Code::barrier;
    bool has_tensor = false;           // tcgen05 is used
};

Hopper& hopper();
/// The barrier at an address, as a thread uses it: seen only after the __syncthreads behind its init.
Barrier& barrier_at(std::uint32_t address);
/// Ends the launch with a fault that was found where no thread could be stopped.
void check_late_fault();
void end_phase_if_complete(Hopper& state, Barrier& barrier);

// blackwell.cpp: what tcgen05 has under way.
/// Some of it is done, in order.
void tensor_some(Hopper& hopper);
/// All of it that a phase of this barrier waits for.
void tensor_all_of(Hopper& hopper, std::size_t barrier);
/// Whether a tcgen05.mma may still be reading there, as far as this clock can know.
bool tensor_may_read(std::uint32_t begin, std::uint32_t end, const Clock& by);

/// Where the 16-byte piece at an address lies under a swizzle of 0, 32, 64 or 128 bytes.
std::uint32_t swizzled(std::uint32_t address, std::uint32_t swizzle_bytes);

}  // namespace emulation
