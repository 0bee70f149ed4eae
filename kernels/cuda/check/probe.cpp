// assay_probe: walks over slots, a round cut into launches or not. assay_step: one step over a share of all slots.
// assay_linked_probe: walks over the slots of all devices, each in memory of its own.
#include "check.h"
#include "sparse.h"

#include <algorithm>

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

/// Which slots of all a device holds.
struct Share {
    std::uint32_t first, count, total, n;

    std::uint32_t lines() const { return n * n / 64; }
    bool holds(const std::uint32_t* state) const {
        const auto slot = reference::probe_line(state, total, lines()) / lines();
        return slot >= first && slot < std::uint64_t{first} + count;
    }
};

/// A state whose line the device holds, or one whose line it does not.
void draw_state(check::Case& c, const Share& share, bool held, std::uint32_t* state) {
    do
        for (int k = 0; k < 16; ++k) state[k] = static_cast<std::uint32_t>(c.random().next());
    while (share.holds(state) != held);
}

/// Launches the step of `walks` states, of which those for which `foreign` says so name another device's line.
void step(check::Case& c, const Share& share, std::uint32_t walks, const std::function<bool(std::uint32_t)>& foreign) {
    const std::size_t slot_bytes = std::size_t{share.lines()} * 64;
    const check::Buffer all(share.total * slot_bytes), slots(share.count * slot_bytes);
    const check::Buffer states(std::size_t{walks} * 64), refused(4);
    c.fill(all);
    std::copy_n(all.data() + share.first * slot_bytes, slots.size(), slots.data());
    *refused.words() = 0;
    std::vector<std::uint32_t> expected;
    bool any_foreign = false;
    for (std::uint32_t walk = 0; walk < walks; ++walk) {
        std::vector<std::uint32_t> state(16);
        const bool held = !foreign(walk);
        draw_state(c, share, held, state.data());
        std::copy(state.begin(), state.end(), states.words() + 16 * walk);
        if (held) reference::probe(all.data(), share.total, share.lines(), 1, state);
        expected.insert(expected.end(), state.begin(), state.end());
        any_foreign |= !held;
    }
    c.at(std::to_string(walks) + " states over " + std::to_string(share.count) + " slots from " + std::to_string(share.first) +
         " on of " + std::to_string(share.total) + ", n = " + std::to_string(share.n) + (any_foreign ? ", some foreign" : ""));
    c.launch(grid_for(c, walks), static_cast<const std::uint8_t*>(slots.data()), share.first, share.count, share.total,
             share.lines(), walks, states.words(), refused.words());
    c.expect_same(states.data(), reinterpret_cast<const std::uint8_t*>(expected.data()), states.size(), "the states");
    c.expect(*refused.words() == std::uint32_t{any_foreign}, "a foreign line is refused, and no other");
    c.expect_same(slots.data(), all.data() + share.first * slot_bytes, slots.size(), "the slots, which a step only reads");
    states.expect_guards("states");
    refused.expect_guards("refused");
}

void step_all(check::Case& c) {
    for (const Share& share : {Share{4, 5, 12, 256}, Share{0, 3, 3, 256}, Share{0, 3, 8, 512}, Share{9, 3, 12, 256}})
        for (const std::uint32_t walks : {1u, 2u, 7u, 8u, 64u, 127u, 130u, 513u})
            step(c, share, walks, [](std::uint32_t) { return false; });
    for (const Share& share : {Share{4, 5, 12, 256}, Share{0, 3, 8, 512}, Share{9, 3, 12, 256}}) {
        step(c, share, 1, [](std::uint32_t) { return true; });
        step(c, share, 130, [](std::uint32_t walk) { return walk == 129; });
        step(c, share, 130, [](std::uint32_t walk) { return walk == 0; });
        step(c, share, 77, [](std::uint32_t walk) { return walk % 3 == 1; });
    }
}

/// Lines beyond 2^32 bytes, as in `far`, of a device in the middle.
void step_far(check::Case& c) {
    constexpr Share share{400'000, 50'000, 500'000, 2048};
    constexpr std::uint32_t walks = 100;
    const check::Sparse slots(std::size_t{share.count} * share.lines() * 64);
    const check::Buffer states(std::size_t{walks} * 64), refused(4);
    *refused.words() = 0;
    c.at("50000 of 500000 slots of n = 2048");
    std::vector<std::uint32_t> expected;
    for (std::uint32_t walk = 0; walk < walks; ++walk) {
        std::vector<std::uint32_t> state(16);
        draw_state(c, share, true, state.data());
        std::copy(state.begin(), state.end(), states.words() + 16 * walk);
        // The reference has one slot of one line: this one, whose bytes are its own.
        const auto line = reference::probe_line(state.data(), share.total, share.lines()) - std::uint64_t{share.first} * share.lines();
        for (int i = 0; i < 64; ++i) slots.data()[line * 64 + i] = static_cast<std::uint8_t>(c.random().next());
        reference::probe(slots.data() + line * 64, 1, 1, 1, state);
        expected.insert(expected.end(), state.begin(), state.end());
    }
    c.launch(grid_for(c, walks), static_cast<const std::uint8_t*>(slots.data()), share.first, share.count, share.total,
             share.lines(), walks, states.words(), refused.words());
    c.expect_same(states.data(), reinterpret_cast<const std::uint8_t*>(expected.data()), states.size(), "the states");
    c.expect(*refused.words() == 0, "no line is refused");
}

/// As probe.cu has it.
struct Peers {
    std::uint64_t bases[64];
    std::uint32_t first[64];
    std::uint32_t devices;
};

/// Walks over devices with so many slots each, a round cut into launches or not.
void linked(check::Case& c, const std::vector<std::uint32_t>& counts, const Shape& shape, std::uint32_t cut) {
    const std::uint32_t lines = shape.n * shape.n / 64;
    const std::size_t slot_bytes = std::size_t{lines} * 64;
    std::vector<std::unique_ptr<check::Buffer>> devices;
    reference::Bytes all;
    Peers peers{};
    std::uint32_t total = 0;
    for (const std::uint32_t count : counts) {
        devices.push_back(std::make_unique<check::Buffer>(count * slot_bytes));
        c.fill(*devices.back());
        all.insert(all.end(), devices.back()->data(), devices.back()->data() + count * slot_bytes);
        peers.bases[peers.devices] = reinterpret_cast<std::uint64_t>(devices.back()->data());
        peers.first[peers.devices++] = total;
        total += count;
    }
    c.at(std::to_string(counts.size()) + " devices of " + std::to_string(total) + " slots, " + std::to_string(shape.walks) +
         " walks, " + std::to_string(shape.steps) + " steps, " + std::to_string(cut) + " at a time");
    const check::Buffer states(std::size_t{shape.walks} * 64);
    c.fill(states);
    std::vector<std::uint32_t> expected(states.words(), states.words() + 16 * shape.walks);
    reference::probe(all.data(), total, lines, shape.steps, expected);
    for (std::uint32_t left = shape.steps; left > 0;) {
        const std::uint32_t steps = left < cut ? left : cut;
        c.launch(grid_for(c, shape.walks), peers, total, lines, shape.walks, steps, states.words());
        left -= steps;
    }
    c.expect_same(states.data(), reinterpret_cast<const std::uint8_t*>(expected.data()), states.size(), "the states");
    states.expect_guards("states");
}

void linked_all(check::Case& c) {
    linked(c, {3, 3}, {0, 256, 64, 9}, 9);
    linked(c, {17, 3, 7}, {0, 256, 128, 8}, 3);
    linked(c, {3, 4, 5, 6, 3, 4, 5, 3}, {0, 256, 512, 6}, 6);
    linked(c, {3, 9}, {0, 512, 64, 20}, 7);
    linked(c, std::vector<std::uint32_t>(64, 3), {0, 256, 256, 4}, 4);
}

const check::Registration cases[] = {
    check::Registration({"assay_probe", "3 to 33 slots, 64 to 512 walks, cut or not", run}),
    check::Registration({"assay_probe", "lines spread over 200 GB", far}),
    check::Registration({"assay_step", "shares of 3 to 12 slots, 1 to 513 states, foreign ones among them", step_all}),
    check::Registration({"assay_step", "lines spread over 200 GB", step_far}),
    check::Registration({"assay_linked_probe", "2 to 64 devices, 64 to 512 walks, cut or not", linked_all}),
};

}  // namespace
