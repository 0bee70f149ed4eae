// assay_sweep: sums of rows under signed weights, against a sum written byte by byte.
#include "check.h"
#include "sparse.h"

#include <cstring>

namespace check {

namespace {

constexpr std::uint32_t block_rows = 64;

std::int32_t row_sum(const std::uint8_t* row, const std::uint8_t* weights, std::uint32_t n) {
    std::int32_t sum = 0;
    for (std::uint32_t k = 0; k < n; ++k) sum += static_cast<std::int8_t>(row[k]) * static_cast<std::int8_t>(weights[k]);
    return sum;
}

void expect_sums(Case& c, const std::uint8_t* rows, const Buffer& weights, std::uint32_t n, const Buffer& sums) {
    std::vector<std::int32_t> expected;
    for (std::uint32_t row = 0; row < sums.size() / 4; ++row) expected.push_back(row_sum(rows + std::size_t{row} * n, weights.data(), n));
    c.expect_same(sums.data(), reinterpret_cast<const std::uint8_t*>(expected.data()), sums.size(), "the sums");
    sums.expect_guards("sums");
}

/// Rows anywhere, of the lowest and of the highest bytes, and of zeros but for the last byte.
void sums(Case& c) {
    for (const std::uint32_t n : {256u, 512u, 1024u, 2048u, 32768u}) {
        const std::uint32_t grid = n == 256 ? 12 : n == 32768 ? 1 : 3, rows = grid * block_rows;
        c.at("n = " + std::to_string(n));
        const Buffer slots(std::size_t{rows} * n), weights(n), out(std::size_t{4} * rows);
        for (const bool lowest : {false, true}) {
            c.fill(slots);
            c.fill(weights);
            if (lowest) std::memset(weights.data(), 0x80, n);
            std::memset(slots.data(), 0x80, n);
            std::memset(slots.data() + n, 0x7F, n);
            std::memset(slots.data() + 2 * n, 0, n);
            slots.data()[3 * n - 1] = 0xFF;
            const reference::Bytes memory(slots.data(), slots.data() + slots.size());
            c.launch(grid, static_cast<const std::uint8_t*>(slots.data()), static_cast<const std::uint8_t*>(weights.data()), n, out.words());
            expect_sums(c, memory.data(), weights, n, out);
            c.expect_same(slots.data(), memory.data(), memory.size(), "the slots, which a sweep only reads");
        }
    }
}

/// Rows beyond 2^32 bytes, in memory that is zero elsewhere. It is long, and another order of blocks shows nothing more.
void far(Case& c) {
    if (c.settings().schedule.order != emulation::Order::forward) return;
    constexpr std::uint32_t n = 32768, grid = 2049, rows = grid * block_rows;
    c.at("131136 rows of n = 32768");
    const Sparse slots(std::size_t{rows} * n);
    const Buffer weights(n), out(std::size_t{4} * rows);
    c.fill(weights);
    std::vector<std::int32_t> expected(rows);
    for (const std::uint32_t row : {0u, block_rows, rows - block_rows - 1, rows - block_rows, rows - 1}) {
        std::uint8_t* bytes = slots.data() + std::size_t{row} * n;
        for (std::uint32_t k = 0; k < n; ++k) bytes[k] = static_cast<std::uint8_t>(c.random().next());
        expected[row] = row_sum(bytes, weights.data(), n);
    }
    c.launch(grid, static_cast<const std::uint8_t*>(slots.data()), static_cast<const std::uint8_t*>(weights.data()), n, out.words());
    c.expect_same(out.data(), reinterpret_cast<const std::uint8_t*>(expected.data()), out.size(), "the sums");
    out.expect_guards("sums");
}

const Registration cases[] = {
    Registration({"assay_sweep", "5 sizes, rows and weights of extremes", sums}),
    Registration({"assay_sweep", "rows beyond 2^32 bytes", far}),
};

}  // namespace

}  // namespace check
