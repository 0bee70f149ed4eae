// The rules of precisions 7 and 8, once more from docs/WORK.md: bit by bit, pixel by pixel, tables by their formulas.
#include <algorithm>
#include <cmath>

#include "reference.h"

namespace reference {

namespace {

/// A number below 2^256, the lowest word first.
using Number = std::array<std::uint64_t, 4>;

constexpr Number order = {0x43E1F593F0000001, 0x2833E84879B97091, 0xB85045B68181585D, 0x30644E72E131A029};

bool is_below(const Number& a, const Number& b) {
    return std::lexicographical_compare(a.rbegin(), a.rend(), b.rbegin(), b.rend());
}

Number less_order(const Number& a) {
    Number out;
    std::uint64_t borrow = 0;
    for (int i = 0; i < 4; ++i) {
        out[i] = a[i] - order[i] - borrow;
        borrow = a[i] < order[i] || (a[i] == order[i] && borrow);
    }
    return out;
}

/// a + b mod Q of numbers below Q, which is below 2^255.
Number sum(const Number& a, const Number& b) {
    Number out;
    unsigned __int128 wide = 0;
    for (int i = 0; i < 4; ++i) {
        wide = (wide >> 64) + a[i] + b[i];
        out[i] = static_cast<std::uint64_t>(wide);
    }
    return is_below(out, order) ? out : less_order(out);
}

Number product(const Number& a, const Number& b) {
    Number out{};
    for (int bit = 255; bit >= 0; --bit) {
        out = sum(out, out);
        if (b[bit / 64] >> bit % 64 & 1) out = sum(out, a);
    }
    return out;
}

int as_signed(std::uint8_t byte) { return byte < 128 ? byte : byte - 256; }

/// The chances of |G| ≤ i, times 2^15, rounded: of all integers, those too that no draw reaches.
std::vector<long> noise_thresholds() {
    const auto weight = [](int g) { return std::exp(-g * g / 128.0); };
    double all = 0, up_to = 0;
    for (int g = -200; g <= 200; ++g) all += weight(g);
    std::vector<long> out;
    for (int i = 0; i < 34; ++i) {
        up_to += i == 0 ? weight(0) : 2 * weight(i);
        out.push_back(std::lround(up_to / all * 32768));
    }
    return out;
}

}  // namespace

Bytes field_row(const std::uint8_t* row, std::uint32_t n, std::uint32_t u, std::uint32_t c) {
    Bytes out;
    for (std::uint32_t j = 0; j < n / 32; ++j) {
        const Number k = {1 + j + (std::uint64_t{c} << 16) + (std::uint64_t{u} << 32)};
        Number v{};
        for (unsigned i = 0; i < 32; ++i) v[i / 8] |= std::uint64_t{row[32 * j + i]} << 8 * (i % 8);
        while (!is_below(v, order)) v = less_order(v);
        for (int i = 0; i < 64; ++i) v = sum(product(v, v), k);
        for (unsigned i = 0; i < 32; ++i) out.push_back(static_cast<std::uint8_t>(v[i / 8] >> 8 * (i % 8)));
    }
    return out;
}

Bytes convolution(const std::uint8_t* slot, std::uint32_t n) {
    const auto m = static_cast<std::uint32_t>(std::log2(n)), h = n / 16;
    const std::uint32_t height = 1u << (m + 5) / 2, width = 1u << (m + 4) / 2;
    const auto a = [&](std::uint32_t y, std::uint32_t x, std::uint32_t channel) {
        const int s = as_signed(slot[(std::size_t{y} * width + x) * h + channel]);
        return s >= 0 ? s : static_cast<int>(std::floor(s / 8.0));
    };
    const auto b = [&](std::uint32_t y, std::uint32_t x, std::uint32_t channel) {
        return std::max({a(2 * y, 2 * x, channel), a(2 * y, 2 * x + 1, channel), a(2 * y + 1, 2 * x, channel), a(2 * y + 1, 2 * x + 1, channel)});
    };
    Bytes out;
    for (std::uint32_t r = 0; r < n; ++r)
        for (std::uint32_t i = 0; i < 4; ++i)
            for (std::uint32_t j = 0; j < 4; ++j)
                for (std::uint32_t channel = 0; channel < h; ++channel)
                    out.push_back(static_cast<std::uint8_t>(
                        b((2 * (r / (width / 4)) + i) % (height / 2), (2 * (r % (width / 4)) + j) % (width / 2), channel)));
    return out;
}

Bytes attention_row(const std::uint8_t* row, std::uint32_t n) {
    int largest = -128;
    for (std::uint32_t k = 0; k < n; ++k) largest = std::max(largest, as_signed(row[k]));
    std::vector<long> p;
    long all = 0;
    for (std::uint32_t k = 0; k < n; ++k) {
        p.push_back(std::lround(127 * std::exp2((as_signed(row[k]) - largest) / 64.0)));
        all += p.back();
    }
    Bytes out;
    for (const long weight : p) out.push_back(static_cast<std::uint8_t>(std::min(127L, weight * 32 * n / all)));
    return out;
}

Bytes noise(const std::uint8_t* slot, std::uint32_t n, const Words8& key) {
    static const std::vector<long> thresholds = noise_thresholds();
    const Bytes draws = keystream(key, 0, n * n / 32);
    Bytes out;
    for (std::size_t at = 0; at < std::size_t{n} * n; ++at) {
        const int w = draws[2 * at] + 256 * draws[2 * at + 1];
        const auto a = static_cast<int>(std::count_if(thresholds.begin(), thresholds.end(), [&](long t) { return t <= w / 2; }));
        out.push_back(static_cast<std::uint8_t>(std::min(std::max(as_signed(slot[at]), -64), 63) + (w % 2 ? -a : a)));
    }
    return out;
}

}  // namespace reference
