#include "unit.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <string>

namespace emulation {

namespace {

using Wide = __int128;
using Rounding = Unit::Rounding;
using Order = Unit::Order;
using Defect = Unit::Defect;

constexpr int fp32_bits = 24;
/// "Exact": no two terms of ours are further apart.
constexpr int exact_bits = 90;
/// Products that a unit sums at once, at most.
constexpr unsigned largest_group = 64;

/// significand · 2^scale, its exponent as an alignment sees it.
struct Value {
    Wide significand = 0;
    int scale = 0, exponent = 0;
    bool zero_partner = false;
};

int bit_length(Wide magnitude) {
    const auto high = static_cast<std::uint64_t>(magnitude >> 64), low = static_cast<std::uint64_t>(magnitude);
    return high != 0 ? 64 + static_cast<int>(std::bit_width(high)) : static_cast<int>(std::bit_width(low));
}

Wide magnitude(Wide x) { return x < 0 ? -x : x; }

/// x / 2^bits.
Wide shifted(Wide x, int bits, Rounding rounding) {
    if (bits <= 0) return x << -bits;
    if (bits > 120) return rounding == Rounding::floor && x < 0 ? -1 : 0;
    const Wide low = x >> bits, rest = x - (low << bits), half = Wide{1} << (bits - 1);
    switch (rounding) {
        case Rounding::floor: return low;
        case Rounding::truncate: return x < 0 && rest != 0 ? low + 1 : low;
        case Rounding::nearest: return rest > half || (rest == half && (low & 1)) ? low + 1 : low;
    }
    return low;
}

/// Every term brought to `kept` bits below the largest exponent, and added up.
Value aligned_sum(const Value* values, unsigned count, int kept, Rounding rounding, Defect defect) {
    int largest = 0;
    bool any = false, negates_wrongly = defect == Defect::negation;
    bool negative = false;  // the largest term's sign
    for (unsigned i = 0; i < count; ++i) {
        if (defect == Defect::zero_partners && values[i].zero_partner) negates_wrongly = true;
        if (values[i].significand == 0 || (any && values[i].exponent <= largest)) continue;
        largest = values[i].exponent;
        negative = values[i].significand < 0;
        any = true;
    }
    if (!any) return {};
    const int scale = largest - kept;
    Wide total = 0;
    for (unsigned i = 0; i < count; ++i) {
        if (values[i].significand == 0) continue;
        total += shifted(values[i].significand, scale - values[i].scale, rounding);
        // Inverted, and no 1 added: one unit of the last place less, as the other terms count.
        if (negates_wrongly && (values[i].significand < 0) != negative) total += negative ? 1 : -1;
    }
    return {total, scale, scale + bit_length(magnitude(total)) - 1};
}

/// To so many significant bits, and to what FP32 can hold.
Value rounded(const Value& value, int bits, Rounding rounding) {
    if (value.significand == 0) return {};
    constexpr int least_scale = -149;
    int drop = bit_length(magnitude(value.significand)) - bits;
    if (value.scale + drop < least_scale) drop = least_scale - value.scale;
    if (drop <= 0) return value;
    const Wide kept = shifted(value.significand, drop, rounding);
    return {kept, value.scale + drop, value.scale + drop + bit_length(magnitude(kept)) - 1};
}

/// Exact: of at most 24 significant bits.
float to_float(const Value& value) { return std::ldexp(static_cast<float>(static_cast<std::int64_t>(value.significand)), value.scale); }

Value from_float(float number) {
    std::uint32_t bits;
    std::memcpy(&bits, &number, sizeof bits);
    const int field = static_cast<int>(bits >> 23 & 0xFF);
    const std::int64_t fraction = bits & 0x7FFFFF, significand = field == 0 ? fraction : fraction | 0x800000;
    const int exponent = (field == 0 ? 1 : field) - 127;
    return {bits >> 31 ? -significand : significand, exponent - 23, exponent};
}

Value plus(const Value& a, const Value& b) {
    const Value both[] = {a, b};
    return rounded(aligned_sum(both, 2, exact_bits, Rounding::nearest, Defect::none), fp32_bits, Rounding::nearest);
}

Value flushed(const Value& value) { return value.exponent < -126 ? Value{} : value; }

/// One group and the accumulator.
Value step(const Unit& unit, const Value& accumulator, const Value* values, unsigned count) {
    if (unit.order == Order::groups) {
        const Value group = aligned_sum(values, count, exact_bits, Rounding::nearest, Defect::none);
        return plus(accumulator, rounded(group, fp32_bits, Rounding::nearest));
    }
    if (unit.order == Order::pairs) {
        Value total;
        for (unsigned i = 0; i < count; i += 2)
            total = flushed(plus(total, flushed(i + 1 < count ? plus(flushed(values[i]), flushed(values[i + 1])) : flushed(values[i]))));
        return flushed(plus(accumulator, total));
    }
    Value terms[largest_group + 1];
    unsigned used = 0;
    if (unit.order == Order::odd_even) {
        for (unsigned odd = 0; odd < 2; ++odd) {
            Value half[largest_group];
            unsigned in_half = 0;
            for (unsigned i = odd; i < count; i += 2) half[in_half++] = values[i];
            terms[used++] = aligned_sum(half, in_half, unit.kept_bits, unit.align, unit.defect);
        }
    } else {
        for (unsigned i = 0; i < count; i += unit.exact_within) {
            const unsigned within = unit.exact_within < count - i ? unit.exact_within : count - i;
            if (within == 1) terms[used++] = values[i];
            else terms[used++] = aligned_sum(values + i, within, exact_bits, Rounding::truncate, Defect::none);
        }
    }
    terms[used++] = accumulator;
    const Value total = aligned_sum(terms, used, unit.kept_bits, unit.align, unit.defect);
    return rounded(total, unit.out_bits, unit.result);
}

Term float_term(std::uint32_t code, unsigned exponent_bits, unsigned fraction_bits) {
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const auto field = static_cast<int>(code >> fraction_bits & ((1u << exponent_bits) - 1));
    const std::int64_t fraction = code & ((1u << fraction_bits) - 1);
    const std::int64_t significand = field == 0 ? fraction : fraction | std::int64_t{1} << fraction_bits;
    const int exponent = (field == 0 ? 1 : field) - bias;
    const bool negative = code >> (exponent_bits + fraction_bits) & 1;
    return {negative ? -significand : significand, exponent - static_cast<int>(fraction_bits), exponent};
}

}  // namespace

Term decoded(Format format, std::uint32_t code) {
    switch (format) {
        case Format::int8: {
            const std::int64_t value = static_cast<std::int8_t>(code);
            const int exponent = value == 0 ? 0 : bit_length(magnitude(value)) - 1;
            return {value, 0, exponent};
        }
        case Format::f16: return float_term(code, 5, 10);
        case Format::bf16: return float_term(code, 8, 7);
        case Format::e4m3: return float_term(code, 4, 3);
        case Format::e2m1: return float_term(code, 2, 1);
    }
    return {};
}

const std::int32_t* integers_of(Format format) {
    const auto integer = [](const Term& term) {
        if (term.significand == 0) return 0;
        if (term.scale >= 16 || term.scale <= -40) return no_integer;
        const Wide value = shifted(term.significand, -term.scale, Rounding::truncate);
        const bool is_whole = term.scale >= 0 || value << -term.scale == term.significand;
        return is_whole && magnitude(value) <= 32767 ? static_cast<std::int32_t>(value) : no_integer;
    };
    const auto make = [&](Format of, std::uint32_t codes) {
        std::vector<std::int32_t> table(codes);
        for (std::uint32_t code = 0; code < codes; ++code) {
            Term term = decoded(of, code);
            term.scale += steps_of(of);
            table[code] = integer(term);
        }
        return table;
    };
    static const std::vector<std::int32_t> tables[] = {make(Format::int8, 256), make(Format::f16, 65536), make(Format::bf16, 65536),
                                                       make(Format::e4m3, 256), make(Format::e2m1, 16)};
    return tables[static_cast<unsigned>(format)].data();
}

Term product(const Term& left, const Term& right) {
    return {left.significand * right.significand, left.scale + right.scale, left.exponent + right.exponent,
            (left.significand == 0) != (right.significand == 0)};
}

// docs/gpus.md, "Float units". Where it says less than a model needs, the comment names the assumption.
const std::vector<Unit>& all_units() {
    constexpr auto truncate = Rounding::truncate, floor = Rounding::floor, nearest = Rounding::nearest;
    static const std::vector<Unit> units = {
        {"v100", 4, 1, 23, 24, truncate, truncate},
        {"t4", 8, 1, 24, 24, truncate, truncate},
        {"a100", 8, 1, 24, 24, truncate, truncate},
        {"hopper", 16, 1, 25, 24, truncate, truncate},
        {"ada-fp8", 16, 1, 13, 14, truncate, truncate},
        {"hopper-fp8", 32, 1, 13, 14, truncate, truncate},
        {"b200", 16, 1, 25, 24, truncate, truncate},
        {"b200-fp8", 32, 1, 25, 24, truncate, truncate},
        {"b200-mxf4", 64, 16, 35, 24, truncate, truncate},
        // BF16 pairs; FP16 in fours, which exact sums do not tell apart.
        {"mi100", 2, 1, exact_bits, 24, nearest, nearest, Order::groups},
        {"mi200", 4, 1, exact_bits, 24, nearest, nearest, Order::pairs},
        // Assumed: the accumulator is aligned with the products.
        {"mi300", 8, 1, 24, 24, floor, nearest},
        {"mi300-fp8", 16, 1, 24, 24, floor, nearest, Order::odd_even},
        // Assumed: 23 bits kept, and that the largest term decides which sign is the other one.
        {"rdna35", 2, 1, 23, 24, truncate, truncate, Order::together, Defect::negation},
        // A conjecture: all that is known is that "rounding depends on values paired with zero".
        {"rdna3", 2, 1, 23, 24, truncate, truncate, Order::together, Defect::zero_partners},
        {"fp32-fma", 1, 1, exact_bits, 24, nearest, nearest},
    };
    return units;
}

const Unit* find_unit(const char* name) {
    for (const auto& unit : all_units())
        if (std::strcmp(unit.name, name) == 0) return &unit;
    return nullptr;
}

float sum(const Unit& unit, float accumulator, const Term* terms, unsigned count) {
    if (unit.group > largest_group) std::abort();
    Value total = from_float(accumulator);
    Value values[largest_group];
    for (unsigned first = 0; first < count; first += unit.group) {
        unsigned used = 0;
        for (unsigned i = first; i < first + unit.group && i < count; ++i)
            values[used++] = {terms[i].significand, terms[i].scale, terms[i].exponent, terms[i].zero_partner};
        total = step(unit, total, values, used);
    }
    return to_float(total);
}

bool parse_units(const char* text, Units& units) {
    static const char* const names[] = {"int8", "f16", "bf16", "e4m3", "e2m1"};
    const std::string all = text;
    for (std::size_t at = 0; at < all.size();) {
        const std::size_t end = std::min(all.find(',', at), all.size()), colon = all.find(':', at);
        if (colon == std::string::npos || colon > end) return false;
        const std::string format = all.substr(at, colon - at), name = all.substr(colon + 1, end - colon - 1);
        bool known = false;
        for (unsigned i = 0; i < formats; ++i)
            if (format == names[i]) {
                units.of[i] = find_unit(name.c_str());
                known = units.of[i] != nullptr;
            }
        if (!known) return false;
        at = end + 1;
    }
    return true;
}

}  // namespace emulation
