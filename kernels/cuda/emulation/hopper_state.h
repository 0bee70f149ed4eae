// What a block of Hopper has under way: barriers, copies and wgmma. Inside of hopper.cpp and wgmma.cpp.
#pragma once
#include <cstdint>
#include <deque>
#include <vector>

#include "hopper.h"

namespace emulation {

constexpr unsigned register_file = 65536, register_unit = 8;

/// How far a warp knows each warp of its block to have come, by what memory barriers told it: a vector clock. A
/// warp's own clock steps at each of its arrivals.
class Clock {
public:
    static constexpr unsigned warps = 32;
    std::uint32_t of(unsigned warp) const { return times_[warp]; }
    void step(unsigned warp) { ++times_[warp]; }
    void hear(const Clock& other) {
        for (unsigned i = 0; i < warps; ++i)
            if (other.times_[i] > times_[i]) times_[i] = other.times_[i];
    }

private:
    std::uint32_t times_[warps] = {};
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

/// One wgmma of a warp.
struct Product {
    std::uint64_t left, right;
    bool accumulate;
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
    std::vector<std::int32_t> sums;           // what they hold in truth
    bool fenced = false;
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
    /// Whether a wgmma may still be reading there, as far as warp `by` can know: it is under way, or it has ended
    /// and its warp has arrived nowhere since that `by` has waited for.
    bool may_be_read(std::uint32_t begin, std::uint32_t end, unsigned by) const;

    std::uint8_t* shared = nullptr;
    Draw draw{0};
    std::vector<Barrier> barriers;
    std::vector<Piece> pieces;
    std::vector<WarpProducts> warps;
    std::vector<Warpgroup> warpgroups;
    std::vector<unsigned> registers;  // of each thread
    unsigned registers_left = 0;
    const char* late_fault = nullptr;  // found where no thread could be stopped
};

Hopper& hopper();

/// Where the 16-byte piece at an address lies under a swizzle of 0, 32, 64 or 128 bytes.
std::uint32_t swizzled(std::uint32_t address, std::uint32_t swizzle_bytes);

}  // namespace emulation
