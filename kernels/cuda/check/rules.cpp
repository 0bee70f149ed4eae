// assay_field, assay_convolution, assay_attention, assay_noise: the rules of precisions 7 and 8.
#include <algorithm>
#include <cstring>

#include "check.h"

namespace check {

namespace {

/// Groups that the rule for slot 2 takes to 0, in place 6 of row 6, and to Q - 1, in place 5 of row 4: only there does the
/// last subtraction, and each of its borrows, show.
constexpr std::uint8_t ends_at_0[32] = {0xFB, 0x22, 0x01, 0xCE, 0x88, 0x0D, 0xFC, 0xF8, 0x82, 0x84, 0x0F, 0xB6, 0x63, 0xD6, 0x51, 0x6B,
                                        0x4C, 0xF6, 0x89, 0x9E, 0x37, 0xE4, 0x60, 0x9E, 0x46, 0x95, 0xB8, 0x31, 0x9A, 0x2A, 0x71, 0x19};
constexpr std::uint8_t ends_at_most[32] = {0x92, 0x5F, 0x29, 0xD0, 0x65, 0xEB, 0x5C, 0x37, 0x35, 0xFC, 0xF3, 0xFD, 0xB4, 0x7F, 0x53, 0x11,
                                           0x90, 0x7B, 0x7A, 0x97, 0xD9, 0x5E, 0xF6, 0xA7, 0xEF, 0x7C, 0x10, 0x11, 0xBF, 0xFB, 0xEC, 0x0D};
constexpr std::uint8_t field_order[32] = {0x01, 0x00, 0x00, 0xF0, 0x93, 0xF5, 0xE1, 0x43, 0x91, 0x70, 0xB9, 0x79, 0x48, 0xE8, 0x33, 0x28,
                                          0x5D, 0x58, 0x81, 0x81, 0xB6, 0x45, 0x50, 0xB8, 0x29, 0xA0, 0x31, 0xE1, 0x72, 0x4E, 0x64, 0x30};

std::string size(std::uint32_t n) { return "n = " + std::to_string(n); }

/// Whole matrices, and a launch of the groups behind the first ones: all others stay.
void field(Case& c) {
    const struct {
        std::uint32_t n, u, first, grid;
    } cases[] = {{256, 2, 0, 16}, {512, 0xFFFFF, 128 * 60, 4}, {2048, 77777, 2048 * 64 - 128, 1}};
    for (const auto& [n, u, first, grid] : cases) {
        c.at(size(n) + ", u = " + std::to_string(u));
        const std::size_t bytes = std::size_t{n} * n, from = std::size_t{first} * 32, to = from + std::size_t{grid} * 128 * 32;
        const Buffer slot(bytes), out(bytes);
        c.fill(slot);
        std::memset(out.data(), 0xEE, bytes);
        // Numbers at the borders of what 32 bytes hold and of what the field has.
        std::memset(slot.data() + from, 0, 64);
        slot.data()[from + 32] = 1;
        std::memset(slot.data() + from + 64, 0xFF, 32);
        for (unsigned i = 0; i < 3; ++i) std::memcpy(slot.data() + from + 96 + 32 * i, field_order, 32);
        slot.data()[from + 96] -= 1;
        slot.data()[from + 160] += 1;
        if (first == 0) {
            std::memcpy(slot.data() + 6 * n + 6 * 32, ends_at_0, 32);
            std::memcpy(slot.data() + 4 * n + 5 * 32, ends_at_most, 32);
        }
        c.launch(grid, static_cast<const std::uint8_t*>(slot.data()), out.data(), n, u, first);
        for (std::size_t i = 0; i < bytes; ++i)
            if (i < from || i >= to) c.expect(out.data()[i] == 0xEE, "wrote beside its groups");
        for (auto row = static_cast<std::uint32_t>(from / n); std::size_t{row} * n < to; ++row) {
            const auto expected = reference::field_row(slot.data() + std::size_t{row} * n, n, u, row);
            const std::size_t begin = std::max(from, std::size_t{row} * n), end = std::min(to, std::size_t{row + 1} * n);
            c.expect_same(out.data() + begin, expected.data() + begin - std::size_t{row} * n, end - begin, "y");
        }
        const std::uint8_t zeros[32] = {};
        if (first == 0) {
            c.expect(std::memcmp(out.data() + 6 * n + 6 * 32, zeros, 32) == 0, "the group is not one that ends at 0");
            c.expect(std::memcmp(out.data() + 4 * n + 5 * 32 + 1, field_order + 1, 31) == 0, "the group is not one that ends at Q - 1");
        }
        out.expect_guards("y");
    }
}

void convolution(Case& c) {
    for (const std::uint32_t n : {256u, 512u, 1024u}) {
        c.at(size(n));
        const Buffer slot(std::size_t{n} * n), out(slot.size());
        c.fill(slot);
        c.launch(n * n / 4096, static_cast<const std::uint8_t*>(slot.data()), out.data(), n, n < 1024 ? 64u : 128u);
        c.expect_same(out.data(), reference::convolution(slot.data(), n).data(), out.size(), "x");
        out.expect_guards("x");
    }
}

void attention(Case& c) {
    for (const std::uint32_t n : {256u, 512u, 1024u, 2048u}) {
        c.at(size(n));
        const Buffer slot(std::size_t{n} * n), out(slot.size());
        c.fill(slot);
        // Rows of one value, of one value larger than all others, and of two thirds of the largest distance.
        for (std::uint32_t k = 0; k < n; ++k) {
            slot.data()[k] = 0x80;
            slot.data()[n + k] = k == n - 1 ? 0x7F : 0x80;
            slot.data()[2 * n + k] = k % 3 == 0 ? 0x7F : 0x80;
            slot.data()[3 * n + k] = static_cast<std::uint8_t>(k);
        }
        c.launch(n / 8, static_cast<const std::uint8_t*>(slot.data()), out.data(), n);
        for (std::uint32_t r = 0; r < n; ++r) {
            const std::size_t row = std::size_t{r} * n;
            c.expect_same(out.data() + row, reference::attention_row(slot.data() + row, n).data(), n, "x");
        }
        out.expect_guards("x");
    }
}

void noise(Case& c) {
    for (const std::uint32_t n : {256u, 512u, 1024u}) {
        c.at(size(n));
        const Buffer slot(std::size_t{n} * n), out(slot.size());
        c.fill(slot);
        const auto key = c.random_words();
        c.launch(n * n / 8192, static_cast<const std::uint8_t*>(slot.data()), out.data(), key);
        c.expect_same(out.data(), reference::noise(slot.data(), n, key).data(), out.size(), "x");
        out.expect_guards("x");
    }
}

const Registration cases[] = {
    Registration({"assay_field", "3 sizes, numbers at the field's borders", field}),
    Registration({"assay_convolution", "3 sizes", convolution}),
    Registration({"assay_attention", "4 sizes, rows of extremes", attention}),
    Registration({"assay_noise", "3 sizes", noise}),
};

}  // namespace

}  // namespace check
