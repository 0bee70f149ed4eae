// The check of the models of matrix units: sums worked out by hand from each unit's figures (docs/gpus.md), the
// shortcut for exact sums against the model, and that a launch multiplies with the unit that it is given.
#include <cmath>

#include "../device.cuh"
#include "check.h"

/// One mma of BF16, all of whose rows and columns are the same 16 operands: so are all sums.
extern "C" __global__ void check_units(const std::uint16_t* left, const std::uint16_t* right, float before, float* out) {
    const auto pair = [](const std::uint16_t* codes, unsigned k) { return codes[k] | std::uint32_t{codes[k + 1]} << 16; };
    const unsigned t = threadIdx.x % 4;
    const std::uint32_t low = pair(left, 2 * t), high = pair(left, 2 * t + 8);
    const std::uint32_t rows[4] = {low, low, high, high}, columns[2] = {pair(right, 2 * t), pair(right, 2 * t + 8)};
    float sums[4] = {before, before, before, before};
    ptx::mma_m16n8k16_bf16(sums, rows, columns);
    for (unsigned e = 0; e < 4; ++e) out[threadIdx.x * 4 + e] = sums[e];
}

ASSAY_KERNEL(check_units, 32, 0);

namespace {

using emulation::Format;
using emulation::Term;
using emulation::Unit;

/// An integer as a term: its exponent is that of its leading bit.
Term whole(std::int64_t value) {
    int exponent = 0;
    for (std::int64_t rest = value < 0 ? -value : value; rest > 1; rest /= 2) ++exponent;
    return {value, 0, exponent};
}

constexpr std::int64_t two(int power) { return std::int64_t{1} << power; }

struct Worked {
    const char* unit;
    float before;
    std::vector<std::int64_t> terms;
    float expected;
};

/// Zeros up to a place.
std::vector<std::int64_t> placed(std::initializer_list<std::pair<unsigned, std::int64_t>> terms) {
    std::vector<std::int64_t> all;
    for (const auto& [place, value] : terms) {
        all.resize(place + 1);
        all[place] = value;
    }
    return all;
}

const Worked by_hand[] = {
    // 24 bits out, truncated: 2^24 + 1 needs 25, 2^24 + 3 falls to + 2, towards zero on both sides.
    {"v100", 0, {two(23), 1}, 8388609.0f},
    {"v100", 0, {two(24), 1}, 16777216.0f},
    {"a100", 0, {two(24), 3}, 16777218.0f},
    {"a100", 0, {-two(24), -3}, -16777218.0f},
    {"a100", 16777216.0f, {-1}, 16777215.0f},
    // Fraction bits kept: 1 beside 2^24 needs 24 of them, beside 2^25 25.
    {"v100", 0, {two(23), 1, -two(23)}, 1},
    {"v100", 0, {two(24), 1, -two(24)}, 0},
    {"t4", 0, {two(24), 1, -two(24)}, 1},
    {"a100", 0, {two(24), 1, -two(24)}, 1},
    {"a100", 0, {two(25), 1, -two(25)}, 0},
    {"hopper", 0, {two(25), 1, -two(25)}, 1},
    {"hopper", 0, {two(26), 1, -two(26)}, 0},
    {"b200", 0, {two(25), 1, -two(25)}, 1},
    {"b200", 0, {two(26), 1, -two(26)}, 0},
    {"b200-fp8", 0, {two(25), 1, -two(25)}, 1},
    {"b200-fp8", 0, {two(26), 1, -two(26)}, 0},
    // Groups: bits that a group's end rounds away do not come back in the next one.
    {"v100", 0, placed({{0, two(23)}, {1, 1}, {3, -two(23)}}), 1},
    {"v100", 0, placed({{0, two(23)}, {1, two(23)}, {2, 1}, {4, -two(24)}}), 0},
    {"a100", 0, placed({{0, two(24)}, {1, 1}, {7, -two(24)}}), 1},
    {"a100", 0, placed({{0, two(24)}, {1, 1}, {8, -two(24)}}), 0},
    {"hopper", 0, placed({{0, two(24)}, {1, 1}, {15, -two(24)}}), 1},
    {"hopper", 0, placed({{0, two(24)}, {1, 1}, {16, -two(24)}}), 0},
    {"b200", 0, placed({{0, two(24)}, {1, 1}, {16, -two(24)}}), 0},
    {"b200-fp8", 0, placed({{0, two(24)}, {1, 1}, {31, -two(24)}}), 1},
    {"b200-fp8", 0, placed({{0, two(24)}, {1, 1}, {32, -two(24)}}), 0},
    // The FP8 units of Hopper and Ada: 13 bits kept, 14 out.
    {"hopper-fp8", 0, {two(13), 1, -two(13)}, 1},
    {"hopper-fp8", 0, {two(14), 1, -two(14)}, 0},
    {"hopper-fp8", 0, {two(13), 1}, 8193.0f},
    {"hopper-fp8", 0, {two(14), 1}, 16384.0f},
    {"ada-fp8", 0, {two(14), 1, -two(14)}, 0},
    {"ada-fp8", 0, {two(13), 1}, 8193.0f},
    {"ada-fp8", 0, placed({{0, two(13)}, {1, two(13)}, {2, 1}, {16, -two(14)}}), 0},
    // mxf4: exact within 16 of 64, 35 bits kept between them.
    {"b200-mxf4", 0, placed({{0, two(40)}, {1, 1}, {15, -two(40)}}), 1},
    {"b200-mxf4", 0, placed({{0, two(40)}, {16, 1}, {32, -two(40)}}), 0},
    {"b200-mxf4", 0, placed({{0, two(35)}, {16, 1}, {32, -two(35)}}), 1},
    {"b200-mxf4", 0, placed({{0, two(36)}, {16, 1}, {32, -two(36)}}), 0},
    // MI100: pairs exact, FP32 to nearest between them.
    {"mi100", 0, {two(24), 3}, 16777220.0f},
    {"mi100", 0, {two(30), -two(30), 1}, 1},
    {"mi100", 0, {two(30), 1, -two(30)}, 0},
    {"mi100", std::ldexp(1.0f, -140), {0}, std::ldexp(1.0f, -140)},
    // MI200: every pair rounded to FP32, subnormals 0.
    {"mi200", 0, {two(24), 3}, 16777220.0f},
    {"mi200", 0, {two(24), 1, 1, 0}, 16777216.0f},
    {"mi200", std::ldexp(1.0f, -140), {0}, 0},
    // MI300: rounded down where it aligns, to nearest at the end.
    {"mi300", 0, {two(25), -1}, 33554430.0f},
    {"mi300", 0, {two(25), 1}, 33554432.0f},
    {"mi300", 0, {two(25), 1, -two(25)}, 0},
    {"mi300-fp8", 0, {two(25), 1, -two(25)}, 1},
    {"mi300-fp8", 0, {two(25), 0, 1, 0, -two(25)}, 0},
    // RDNA 3.5: inverted without the 1, one unit of the last of 24 bits: 55 - 2^-18.
    {"rdna35", 0, {-1, 24, 32}, 55 - std::ldexp(1.0f, -18)},
    {"rdna35", 0, {1, 24, 32}, 57},
    {"rdna3", 0, {-1, 24, 32}, 55},
    // One fused multiply-add after the other: to nearest, a tie to even.
    {"fp32-fma", 0, {two(24), 1}, 16777216.0f},
    {"fp32-fma", 0, {two(24), 3}, 16777220.0f},
    {"fp32-fma", 0, {two(30), 1, -two(30)}, 0},
};

const Unit& unit_of(check::Case& c, const char* name) {
    const Unit* unit = emulation::find_unit(name);
    c.expect(unit != nullptr, "no unit of that name");
    return *unit;
}

void worked(check::Case& c) {
    for (const auto& w : by_hand) {
        std::vector<Term> terms;
        std::string text = std::string(w.unit) + ": " + std::to_string(w.before);
        for (const auto value : w.terms) {
            terms.push_back(whole(value));
            text += " + " + std::to_string(value);
        }
        c.at(text);
        const float got = emulation::sum(unit_of(c, w.unit), w.before, terms.data(), static_cast<unsigned>(terms.size()));
        c.expect(got == w.expected, ("gives " + std::to_string(got) + ", not " + std::to_string(w.expected)).c_str());
    }
    c.at("rdna3 with a zero partner");
    const Term partner = emulation::product(whole(0), whole(12)), terms[] = {whole(-1), partner, whole(24), partner, whole(32)};
    c.expect(emulation::sum(unit_of(c, "rdna3"), 0, terms, 5) != 55, "a zero partner changes nothing");
}

/// The codes of every format, by the values that their standards give them.
void codes(check::Case& c) {
    const struct {
        Format format;
        std::uint32_t code;
        double value;
    } known[] = {
        {Format::int8, 0x80, -128},     {Format::int8, 0x7F, 127},       {Format::bf16, 0x3F80, 1},      {Format::bf16, 0xC340, -192},
        {Format::bf16, 0x0001, std::ldexp(1, -133)},                     {Format::f16, 0x3C00, 1},       {Format::f16, 0x7BFF, 65504},
        {Format::f16, 0x0001, std::ldexp(1, -24)},                       {Format::e4m3, 0x38, 1},        {Format::e4m3, 0x7E, 448},
        {Format::e4m3, 0x01, std::ldexp(1, -9)},                         {Format::e4m3, 0xD0, -8},
        {Format::e2m1, 0x1, 0.5},       {Format::e2m1, 0x7, 6},          {Format::e2m1, 0xB, -1.5},
    };
    for (const auto& k : known) {
        c.at("code " + std::to_string(k.code) + " of format " + std::to_string(static_cast<int>(k.format)));
        const Term term = emulation::decoded(k.format, k.code);
        c.expect(std::ldexp(static_cast<double>(term.significand), term.scale) == k.value, "another value");
        const double scaled = std::ldexp(k.value, emulation::steps_of(k.format));
        const bool is_integer = scaled == std::floor(scaled) && std::fabs(scaled) <= 32767;
        const std::int32_t integer = emulation::integers_of(k.format)[k.code];
        c.expect(integer == (is_integer ? static_cast<std::int32_t>(scaled) : emulation::no_integer), "another integer");
    }
}

/// Units that are exact give the integer sum of any small operands, by the shortcut and by the model.
void exact_units(check::Case& c) {
    constexpr unsigned inner = 32;
    emulation::Rows<1, inner> left, right;
    for (const auto& unit : emulation::all_units())
        for (unsigned turn = 0; turn < 200; ++turn) {
            c.at(std::string(unit.name) + ", random operands");
            std::int32_t expected = static_cast<std::int32_t>(c.random().below(1 << 22)) - (1 << 21);
            const auto before = static_cast<float>(expected);
            Term terms[inner];
            for (unsigned k = 0; k < inner; ++k) {
                left.codes[0][k] = static_cast<std::uint16_t>(c.random().below(256));
                right.codes[0][k] = static_cast<std::uint16_t>(c.random().below(256));
                terms[k] = emulation::product(emulation::decoded(Format::int8, left.codes[0][k]), emulation::decoded(Format::int8, right.codes[0][k]));
                expected += static_cast<std::int8_t>(left.codes[0][k]) * static_cast<std::int8_t>(right.codes[0][k]);
            }
            left.decode(Format::int8);
            right.decode(Format::int8);
            const float modelled = emulation::sum(unit, before, terms, inner);
            const float shortcut = emulation::Products(unit, Format::int8, left, right).sum(before, 0, 0);
            c.expect(shortcut == modelled, "the shortcut differs from the model");
            c.expect(!unit.is_exact() || modelled == static_cast<float>(expected), "an exact unit gives another sum");
        }
}

/// The same of E2M1, whose products are quarters.
void exact_quarters(check::Case& c) {
    constexpr unsigned inner = 64;
    const Unit& unit = unit_of(c, "b200-mxf4");
    for (unsigned turn = 0; turn < 200; ++turn) {
        emulation::Rows<1, inner> left, right;
        double expected = (static_cast<std::int32_t>(c.random().below(1 << 20)) - (1 << 19)) / 4.0;
        const auto before = static_cast<float>(expected);
        Term terms[inner];
        for (unsigned k = 0; k < inner; ++k) {
            left.codes[0][k] = static_cast<std::uint16_t>(c.random().below(16));
            right.codes[0][k] = static_cast<std::uint16_t>(c.random().below(16));
            terms[k] = emulation::product(emulation::decoded(Format::e2m1, left.codes[0][k]), emulation::decoded(Format::e2m1, right.codes[0][k]));
            expected += std::ldexp(static_cast<double>(terms[k].significand), terms[k].scale);
        }
        left.decode(Format::e2m1);
        right.decode(Format::e2m1);
        c.expect(emulation::sum(unit, before, terms, inner) == expected, "the model gives another sum");
        c.expect(emulation::Products(unit, Format::e2m1, left, right).sum(before, 0, 0) == expected, "the shortcut gives another sum");
    }
}

/// The unit of an instruction is its architecture's, unless the launch names another.
void chosen(check::Case& c) {
    const check::Buffer left(32), right(32), out(4 * 128);
    const auto fill = [](const check::Buffer& buffer, std::initializer_list<std::uint16_t> codes) {
        std::memset(buffer.data(), 0, buffer.size());
        std::uint16_t* to = reinterpret_cast<std::uint16_t*>(buffer.data());
        for (const auto code : codes) *to++ = code;
    };
    // 128 · 128 + 1 · 1 - 128 · 128: one keeps 24 bits below 2^14, the other 13.
    fill(left, {0x4300, 0x3F80, 0xC300});
    fill(right, {0x4300, 0x3F80, 0x4300});
    const auto sum = [&] {
        c.launch(1, reinterpret_cast<const std::uint16_t*>(left.data()), reinterpret_cast<const std::uint16_t*>(right.data()), 3.0f,
                 reinterpret_cast<float*>(out.data()));
        float sums[128];
        std::memcpy(sums, out.data(), sizeof sums);
        for (const float other : sums) c.expect(other == sums[0], "rows or columns differ");
        return sums[0];
    };
    c.at("the unit of the architecture");
    c.expect(sum() == 4, "another sum");
    c.at("hopper-fp8 in its place");
    c.expect(emulation::parse_units("e4m3:a100,e2m1:hopper,bf16:hopper-fp8", c.settings().units), "the setting is refused");
    // The accumulator's 3 loses its last bit as well.
    c.expect(sum() == 2, "another sum");
    c.at("settings that are none");
    for (const char* wrong : {"bf16", "bf16:", "bf16:a1000", "fp64:a100", "bf16:a100,,"}) {
        emulation::Units units;
        c.expect(!emulation::parse_units(wrong, units), wrong);
    }
}

const check::Registration cases[] = {
    check::Registration({"check_units", "sums worked by hand", worked}),
    check::Registration({"check_units", "codes of every format", codes}),
    check::Registration({"check_units", "exact units, random operands", exact_units}),
    check::Registration({"check_units", "E2M1, random operands", exact_quarters}),
    check::Registration({"check_units", "the unit that a launch names", chosen}),
};

}  // namespace
