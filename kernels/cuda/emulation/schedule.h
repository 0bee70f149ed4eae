// In which order the warps of a block, their lanes, and the blocks of a grid run. A kernel must give the
// same bits in all of them: a missing barrier shows when a reader runs before its writer.
#pragma once
#include <cstdint>

namespace emulation {

enum class Order {
    forward,    // each warp as far as it gets, from the first on
    reverse,    // the same from the last warp, lane and block backwards
    shuffled,   // a seeded choice at every step
};

struct Schedule {
    Order order = Order::forward;
    std::uint64_t seed = 0;
};

/// A small generator (SplitMix64): the schedule only has to vary and to be repeatable.
class Draw {
public:
    explicit Draw(std::uint64_t seed) : state_(seed) {}
    std::uint64_t next() {
        std::uint64_t z = state_ += 0x9E3779B97F4A7C15;
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
        return z ^ (z >> 31);
    }
    unsigned below(unsigned bound) { return static_cast<unsigned>(next() % bound); }

private:
    std::uint64_t state_;
};

}  // namespace emulation
