// How matrix units sum floats: models by the figures of docs/gpus.md, in integer arithmetic alone, so that nothing
// of the host's floats enters them. A kernel is exact on a unit when its sums are; a model shows where it is not.
//
// A model follows the figures and adds nothing. The behaviour of a unit with infinities, NaN and sums beyond the
// range of FP32 is left out: no operand of ours leads there.
#pragma once
#include <cstdint>
#include <cstring>
#include <vector>

namespace emulation {

/// The format of an operand's code.
enum class Format { int8, f16, bf16, e4m3, e2m1 };
constexpr unsigned formats = 5;

/// significand · 2^scale. A unit that aligns terms looks at `exponent`, which is not that of the value: of a product it is
/// the sum of its factors', though the significands' product may carry into the next.
struct Term {
    std::int64_t significand;
    int scale;
    int exponent;
    bool zero_partner = false;  // a product of zero and something else
};

Term decoded(Format format, std::uint32_t code);
/// For each code the 16-bit integer that it is in units of 2^-`steps_of`, or `no_integer`.
constexpr std::int32_t no_integer = INT32_MIN;
const std::int32_t* integers_of(Format format);
/// E2M1 has halves.
constexpr int steps_of(Format format) { return format == Format::e2m1 ? 1 : 0; }
Term product(const Term& left, const Term& right);

/// One matrix unit.
struct Unit {
    enum class Rounding { truncate, floor, nearest };
    /// How a group of products meets the accumulator.
    enum class Order {
        together,   // all aligned at once
        groups,     // the group exactly, rounded to FP32, then added in FP32
        pairs,      // pairs, then pairs of them, each rounded to FP32, then added in FP32; subnormals are 0
        odd_even,   // the products of even and odd places each aligned among themselves, then with the accumulator
    };
    /// A fault beyond rounding.
    enum class Defect {
        none,
        negation,       // a term of another sign than the largest one's is inverted without the +1
        zero_partners,  // the same, in groups that hold a product of zero and something else
    };

    const char* name;
    unsigned group;         // products that are summed at once
    unsigned exact_within;  // of them, so many at a time are summed exactly first
    int kept_bits;          // fraction bits below the largest exponent
    int out_bits;           // significant bits of a result
    Rounding align, result;
    Order order = Order::together;
    Defect defect = Defect::none;

    /// Whether integers are summed exactly as long as all sums stay below 2^24.
    bool is_exact() const { return kept_bits >= 23 && out_bits >= 24 && defect == Defect::none; }
};

const std::vector<Unit>& all_units();
/// Null when no unit has that name.
const Unit* find_unit(const char* name);

/// accumulator + the terms, group by group.
float sum(const Unit& unit, float accumulator, const Term* terms, unsigned count);

/// The unit of each kind of instruction; null for the one that its first architecture has.
struct Units {
    const Unit* of[formats] = {};
    const Unit* get(Format format) const { return of[static_cast<unsigned>(format)]; }
};
/// "FORMAT:UNIT" with commas between, FORMAT one of int8, f16, bf16, e4m3, e2m1. False for any other text.
bool parse_units(const char* text, Units& units);

/// Rows of operands of one instruction, by their codes.
template <unsigned ROWS, unsigned INNER>
struct Rows {
    std::uint16_t codes[ROWS][INNER];
    std::int16_t integers[ROWS][INNER];
    bool are_integers = true;
    std::int32_t largest = 0;

    void decode(Format format) {
        const std::int32_t* table = integers_of(format);
        for (unsigned r = 0; r < ROWS; ++r)
            for (unsigned k = 0; k < INNER; ++k) {
                const std::int32_t value = table[codes[r][k]];
                are_integers = are_integers && value != no_integer;
                integers[r][k] = static_cast<std::int16_t>(value);
                const std::int32_t magnitude = value < 0 ? -value : value;
                if (value != no_integer && magnitude > largest) largest = magnitude;
            }
    }
};

/// The sums of an instruction: exactly, where the unit is known to be exact for all of them, else through the model.
template <unsigned ROWS, unsigned COLUMNS, unsigned INNER>
class Products {
public:
    Products(const Unit& unit, Format format, const Rows<ROWS, INNER>& left, const Rows<COLUMNS, INNER>& right)
        : unit_(unit), format_(format), left_(left), right_(right) {
        bound_ = std::int64_t{left.largest} * right.largest * INNER;
        is_exact_ = unit.is_exact() && left.are_integers && right.are_integers && bound_ < safe;
        if (is_exact_ && bound_ != 0) multiply_integers();
    }

    /// Nothing but zeros: no sum changes.
    bool are_zero() const { return is_exact_ && bound_ == 0; }

    float sum(float before, unsigned row, unsigned column) const {
        const auto units = static_cast<float>(1 << (2 * steps_of(format_)));
        const float scaled = before * units;
        if (is_exact_ && scaled > -static_cast<float>(safe) && scaled < static_cast<float>(safe)) {
            const auto integer = static_cast<std::int32_t>(scaled);
            if (bound_ + (integer < 0 ? -integer : integer) < safe && static_cast<float>(integer) == scaled)
                return static_cast<float>(integer + (bound_ == 0 ? 0 : integers_[row][column])) / units;
        }
        Term terms[INNER];
        for (unsigned k = 0; k < INNER; ++k) terms[k] = product(decoded(format_, left_.codes[row][k]), decoded(format_, right_.codes[column][k]));
        return emulation::sum(unit_, before, terms, INNER);
    }

private:
    static constexpr std::int64_t safe = 1 << 23;

    /// In pairs, where the processor multiplies 16 bits so.
    __attribute__((optimize("O3"), noinline)) void multiply_integers() {
        for (unsigned r = 0; r < ROWS; ++r)
            for (unsigned c = 0; c < COLUMNS; ++c) {
                std::int32_t total = 0;
                for (unsigned k = 0; k < INNER; ++k) total += left_.integers[r][k] * right_.integers[c][k];
                integers_[r][c] = total;
            }
    }

    const Unit& unit_;
    const Format format_;
    const Rows<ROWS, INNER>& left_;
    const Rows<COLUMNS, INNER>& right_;
    std::int64_t bound_;
    bool is_exact_;
    std::int32_t integers_[ROWS][COLUMNS];
};

}  // namespace emulation
