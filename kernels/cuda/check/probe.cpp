// assay_probe: walks over slots, a round cut into launches or not.
#include "check.h"
#include "sparse.h"

namespace {

// As probe.cu has it: other numbers of lanes are tried by compiling both files with this set.
#ifdef ASSAY_PROBE_LANES
constexpr unsigned probe_lanes = ASSAY_PROBE_LANES;
#else
constexpr unsigned probe_lanes = 4;
#endif

struct Shape {
    std::uint32_t count, n, walks, steps;
};

unsigned grid_for(const check::Case& c, std::uint32_t walks) {
    return (walks * probe_lanes + c.kernel().threads - 1) / c.kernel().threads;
}

void walk(check::Case& c, const Shape& shape, std::uint32_t cut) {
    c.at(std::to_string(shape.count) + " slots of n = " + std::to_string(shape.n) + ", " + std::to_string(shape.walks) +
         " walks, " + std::to_string(shape.steps) + " steps, " + std::to_string(cut) + " at a time");
    const std::uint32_t lines = shape.n * shape.n / 64;
    const check::Buffer slots(std::size_t{shape.count} * lines * 64), states(std::size_t{shape.walks} * 64);
    c.fill(slots);
    c.fill(states);
    const reference::Bytes memory(slots.data(), slots.data() + slots.size());
    std::vector<std::uint32_t> expected(states.words(), states.words() + 16 * shape.walks);
    reference::probe(memory.data(), shape.count, lines, shape.steps, expected);

    const unsigned grid = grid_for(c, shape.walks);
    for (std::uint32_t left = shape.steps; left > 0;) {
        const std::uint32_t steps = left < cut ? left : cut;
        c.launch(grid, static_cast<const std::uint8_t*>(slots.data()), shape.count, lines, shape.walks, steps, states.words());
        left -= steps;
    }
    c.expect_same(states.data(), reinterpret_cast<const std::uint8_t*>(expected.data()), states.size(), "the states");
    c.expect_same(slots.data(), memory.data(), memory.size(), "the slots, which a probe only reads");
    states.expect_guards("states");
}

/// Lines beyond 2^32 bytes, in memory that is zero elsewhere.
void far(check::Case& c) {
    constexpr std::uint32_t count = 50'000, lines = 2048 * 2048 / 64, walks = 128, steps = 3;
    const check::Sparse slots(std::size_t{count} * lines * 64);
    const check::Buffer states(std::size_t{walks} * 64);
    c.fill(states);
    c.at("50000 slots of n = 2048");
    // The line that each walk reads first gets bytes of its own: a walk that reads another one shows.
    std::vector<std::uint32_t> expected(states.words(), states.words() + 16 * walks);
    for (std::uint32_t walk = 0; walk < walks; ++walk) {
        const auto line = reference::probe_line(expected.data() + 16 * walk, count, lines);
        for (int i = 0; i < 64; ++i) slots.data()[line * 64 + i] = static_cast<std::uint8_t>(c.random().next());
    }
    reference::probe(slots.data(), count, lines, steps, expected);
    c.launch(grid_for(c, walks), static_cast<const std::uint8_t*>(slots.data()), count, lines, walks, steps, states.words());
    c.expect_same(states.data(), reinterpret_cast<const std::uint8_t*>(expected.data()), states.size(), "the states");
}

void run(check::Case& c) {
    for (const std::uint32_t count : {3u, 4u, 7u, 33u})
        for (const std::uint32_t walks : {64u, 128u, 512u}) walk(c, {count, 256, walks, 5}, 5);
    walk(c, {5, 512, 64, 40}, 40);
    walk(c, {5, 512, 64, 40}, 7);
    walk(c, {3, 256, 256, 6}, 1);
}

const check::Registration cases[] = {
    check::Registration({"assay_probe", "3 to 33 slots, 64 to 512 walks, cut or not", run}),
    check::Registration({"assay_probe", "lines spread over 200 GB", far}),
};

}  // namespace
