// assay_probe: walks over slots, a round cut into launches or not.
#include "check.h"

#include <cstring>

namespace {

struct Shape {
    std::uint32_t count, n, walks, steps;
};

void walk(check::Case& c, const Shape& shape, std::uint32_t cut) {
    c.at(std::to_string(shape.count) + " slots of n = " + std::to_string(shape.n) + ", " + std::to_string(shape.walks) +
         " walks, " + std::to_string(shape.steps) + " steps, " + std::to_string(cut) + " at a time");
    const std::uint32_t lines = shape.n * shape.n / 64;
    const check::Buffer slots(std::size_t{shape.count} * lines * 64), states(std::size_t{shape.walks} * 64);
    c.fill(slots);
    c.fill(states);
    const reference::Bytes memory(slots.data(), slots.data() + slots.size());
    std::vector<std::uint32_t> expected(states.words(), states.words() + 16 * shape.walks);
    reference::probe(memory, shape.count, lines, shape.steps, expected);

    const unsigned lanes = 4, threads = c.kernel().threads;
    const unsigned grid = (shape.walks * lanes + threads - 1) / threads;
    for (std::uint32_t left = shape.steps; left > 0;) {
        const std::uint32_t steps = left < cut ? left : cut;
        c.launch(grid, static_cast<const std::uint8_t*>(slots.data()), shape.count, lines, shape.walks, steps, states.words());
        left -= steps;
    }
    c.expect_same(states.data(), reinterpret_cast<const std::uint8_t*>(expected.data()), states.size(), "the states");
    c.expect_same(slots.data(), memory.data(), memory.size(), "the slots, which a probe only reads");
    states.expect_guards("states");
}

void run(check::Case& c) {
    for (const std::uint32_t count : {3u, 4u, 7u, 33u})
        for (const std::uint32_t walks : {64u, 128u, 512u}) walk(c, {count, 256, walks, 5}, 5);
    walk(c, {5, 512, 64, 40}, 40);
    walk(c, {5, 512, 64, 40}, 7);
    walk(c, {3, 256, 256, 6}, 1);
}

const check::Registration cases({"assay_probe", "3 to 33 slots, 64 to 512 walks, cut or not", run});

}  // namespace
