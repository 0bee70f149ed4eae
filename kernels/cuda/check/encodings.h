// The encodings of operands, by the values of their codes.
#pragma once
#include <cmath>
#include <cstdint>

namespace check {

/// The value of a code of E exponent and F fraction bits.
inline double value_of(std::uint32_t code, int exponent_bits, int fraction_bits) {
    const int field = static_cast<int>(code >> fraction_bits) & ((1 << exponent_bits) - 1), bias = (1 << (exponent_bits - 1)) - 1;
    const double fraction = std::ldexp(code & ((1u << fraction_bits) - 1), -fraction_bits);
    const double magnitude = field == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, field - bias);
    return code >> (exponent_bits + fraction_bits) & 1 ? -magnitude : magnitude;
}

struct Encoding {
    const char* name;
    std::uint32_t number;  // in assay_expand; E2M1 is the format of a slot's bytes
    unsigned bits;
    /// The operand of a kind of work that a code stands for.
    double (*value)(std::uint32_t code);
};

inline const Encoding encodings[] = {
    {"int8", 0, 8, [](std::uint32_t code) { return static_cast<double>(static_cast<std::int8_t>(code)); }},
    {"bf16", 1, 16, [](std::uint32_t code) { return value_of(code, 8, 7); }},
    {"f16", 2, 16, [](std::uint32_t code) { return value_of(code, 5, 10); }},
    {"e4m3", 3, 8, [](std::uint32_t code) { return value_of(code, 4, 3); }},
    // Half the operand.
    {"e2m1", 4, 4, [](std::uint32_t code) { return 2 * value_of(code, 2, 1); }},
};

}  // namespace check
