// The cases of products whose sums are floats: every kind of work that their operands hold, drained and not, raw sums by
// their bits, sums that climb to the limit, units that are exact and units that are not. That the last are seen to fail
// shows that the cases reach the limit.
#include <cstring>
#include <tuple>

#include "encodings.h"
#include "product.h"

namespace check {

namespace {

using Integers = std::vector<std::int16_t>;

struct Family {
    const char* kernel;
    const Encoding& encoding;
    const char* format;  // of the emulation's setting
    std::vector<unsigned> precisions;
    Launcher launch;
};

/// Codes of integers: the one whose value it is.
class Codes {
public:
    explicit Codes(const Encoding& encoding) : encoding_(encoding) {
        for (std::uint32_t code = 0; code < 1u << encoding.bits; ++code) {
            const double value = encoding.value(code);
            if (value != std::floor(value) || std::fabs(value) > most) continue;
            std::uint32_t& known = codes_[static_cast<std::size_t>(value + most)];
            if (known == none) known = code;
        }
    }

    std::uint32_t terms(std::uint32_t depth) const { return depth * 8 / encoding_.bits; }

    void write(const Integers& integers, std::uint8_t* to) const {
        for (std::size_t i = 0; i < integers.size(); ++i) {
            const std::uint32_t code = code_of(integers[i]);
            if (encoding_.bits >= 8) {
                std::memcpy(to, &code, encoding_.bits / 8);
                to += encoding_.bits / 8;
            } else if (i % 2 == 0) {
                *to = static_cast<std::uint8_t>(code);
            } else {
                *to = static_cast<std::uint8_t>(*to | code << 4);
                ++to;
            }
        }
    }

private:
    static constexpr int most = 4096;
    static constexpr std::uint32_t none = ~0u;

    std::uint32_t code_of(int integer) const {
        const std::uint32_t code = codes_.at(static_cast<std::size_t>(integer + most));
        if (code == none) throw Failure{"an operand that the format does not hold"};
        return code;
    }

    const Encoding& encoding_;
    std::vector<std::uint32_t> codes_ = std::vector<std::uint32_t>(2 * most + 1, none);
};

/// Two operands, and the slot and sums of their product.
struct Operands {
    Operands(const Family& family, std::uint32_t n, std::uint32_t depth)
        : units(family.encoding.bits == 4 ? 4 : 1), codes(family.encoding), n(n), depth(depth), terms(codes.terms(depth)), x(std::size_t{n} * terms), y(x), left(std::size_t{n} * depth),
          right(left.size()), slot(std::size_t{n} * n), sums(std::size_t{4} * n * n) {}

    /// Random bytes as operands of a kind; precision 6 gives two for each.
    void draw(Case& c, unsigned precision) {
        for (Integers* to : {&x, &y})
            for (std::size_t i = 0; i < to->size();)
                for (const int operand : reference::operands(precision, static_cast<std::uint8_t>(c.random().next())))
                    if (i < to->size()) (*to)[i++] = static_cast<std::int16_t>(operand);
    }

    void launch(Case& c, const Family& family, std::uint32_t chunk, std::uint32_t raw, unsigned launches = 1) {
        codes.write(x, left.data());
        codes.write(y, right.data());
        std::memset(slot.data(), 0xEE, slot.size());
        std::memset(sums.data(), 0xEE, sums.size());
        const std::uint32_t tiles = one_tile ? 1 : n / c.kernel().tile_rows * (n / c.kernel().tile_columns), tile = c.kernel().tile_rows * c.kernel().tile_columns;
        for (unsigned i = 0; i < launches; ++i) {
            const std::uint32_t first = tiles * i / launches, end = tiles * (i + 1) / launches;
            if (end == first) continue;
            family.launch(c, {left.data(), right.data(), slot.data(), sums.words() + (raw ? first * tile : 0), n, depth, chunk, raw, 5, first, end - first});
        }
        slot.expect_guards("the slot");
        sums.expect_guards("the sums");
    }

    reference::Bytes expected() const { return reference::mixed_rows(x.data(), y.data(), terms, n, n, n, 5, 0, 0); }

    void expect_slot(Case& c) const { c.expect_same(slot.data(), expected().data(), slot.size(), "the slot"); }

    /// Elements of the slot that are wrong.
    std::size_t wrong() const {
        const auto right_ones = expected();
        std::size_t count = 0;
        for (std::size_t i = 0; i < slot.size(); ++i) count += slot.data()[i] != right_ones[i];
        return count;
    }

    /// The raw sum of element (0, 0), which the first tile of every family begins with.
    float first_sum() const {
        float sum;
        std::memcpy(&sum, sums.data(), sizeof sum);
        return sum * units;
    }

    bool one_tile = false;
    float units;  // integers of a kind of work in a sum of 1
    Codes codes;
    std::uint32_t n, depth, terms;
    Integers x, y;
    Buffer left, right, slot, sums;
};

void set_unit(Case& c, const Family& family, const char* unit) {
    c.settings().units = {};
    c.expect(emulation::parse_units((std::string(family.format) + ":" + unit).c_str(), c.settings().units), "no such unit");
}

void every_kind(Case& c, const Family& family) {
    for (const unsigned precision : family.precisions) {
        for (const auto& [n, depth, chunk, launches] :
             {std::tuple{256u, 512u, 512u, 1u}, {512u, 1024u, 512u, 2u}, {256u, 2048u, 256u, 1u}, {512u, 1024u, 256u, 3u}}) {
            c.at("precision " + std::to_string(precision) + ", n = " + std::to_string(n) + ", depth " + std::to_string(depth) + ", drained every " +
                 std::to_string(chunk));
            Operands operands(family, n, depth);
            operands.draw(c, precision);
            operands.launch(c, family, chunk, 0, launches);
            operands.expect_slot(c);
        }
    }
}

/// FP32 bits of every sum, in the place of its tile; nothing mixed.
void raw_sums(Case& c, const Family& family) {
    for (const unsigned precision : family.precisions) {
        c.at("raw sums of precision " + std::to_string(precision));
        Operands operands(family, 512, 512);
        operands.draw(c, precision);
        operands.launch(c, family, 512, 1, 2);
        std::size_t at = 0;
        const std::uint32_t rows = c.kernel().tile_rows, columns = c.kernel().tile_columns;
        for (std::uint32_t column = 0; column < 512; column += columns)
            for (std::uint32_t row = 0; row < 512; row += rows)
                for (std::uint32_t r = row; r < row + rows; ++r)
                    for (std::uint32_t k = column; k < column + columns; ++k) {
                        std::int32_t sum = 0;
                        for (std::uint32_t i = 0; i < operands.terms; ++i) sum += operands.x[r * operands.terms + i] * operands.y[k * operands.terms + i];
                        float got;
                        std::memcpy(&got, operands.sums.data() + 4 * at++, sizeof got);
                        c.expect(got * operands.units == static_cast<float>(sum), "another sum");
                    }
        for (std::size_t i = 0; i < operands.slot.size(); ++i) c.expect(operands.slot.data()[i] == 0xEE, "raw sums were mixed as well");
    }
}

/// Sums of 48 million and 1, a drain every 12 million: without it FP32 cannot hold them.
void far_sums(Case& c, const Family& family) {
    const std::uint32_t bytes = family.encoding.bits / 8;
    const int high = bytes == 1 ? 120 : 190;
    const std::uint32_t terms = 4096, chunk = 1024 * bytes;
    Operands operands(family, 256, terms * bytes);
    operands.draw(c, family.precisions[0]);
    for (std::uint32_t k = 0; k < terms; ++k) {
        const bool is_high = k % 1024 < 300;
        operands.x[k] = operands.y[k] = static_cast<std::int16_t>(is_high ? high : k % 1024 == 777 ? 9 : 0);
    }
    c.at("sums beyond 2^24, drained");
    operands.launch(c, family, chunk, 0);
    operands.expect_slot(c);
    c.at("sums beyond 2^24, not drained");
    operands.launch(c, family, operands.depth, 0);
    c.expect(operands.slot.data()[0] != operands.expected()[0], "a sum that FP32 cannot hold came out right");
}

/// A row that climbs to 2^24 - 1, the last that FP32 holds with all below it: exact on every unit that may be used.
void climb(Case& c, const Family& family) {
    const bool is_e2m1 = family.encoding.bits == 4;
    const int high = is_e2m1 ? 12 : family.encoding.bits == 8 ? 120 : 192;
    const int steps = ((1 << 24) - 1) / (high * high);
    const auto rest = (1 << 24) - 1 - steps * high * high;
    Operands operands(family, 256, is_e2m1 ? 65536 : 2048);
    std::uint32_t k = 0;
    std::int64_t exact = 0;
    const auto term = [&](int a, int b) {
        operands.x[k] = static_cast<std::int16_t>(a);
        operands.y[k++] = static_cast<std::int16_t>(b);
        exact += a * b;
    };
    for (int i = 0; i < steps; ++i) term(high, high);
    // The rest, by squares of numbers that every format holds.
    int left = rest;
    for (const int square : is_e2m1 ? std::vector<int>{6, 4, 3, 1} : std::vector<int>{15, 9, 3, 1})
        for (; left >= square * square; left -= square * square) term(square, square);
    c.at("sums that climb to 2^24 - 1");
    operands.one_tile = true;
    const std::vector<const char*> all = {"v100", "a100", "hopper", "b200", "b200-fp8", "mi100", "mi200", "mi300", "mi300-fp8", "fp32-fma"};
    for (const char* unit : is_e2m1 ? std::vector<const char*>{"b200-mxf4", "hopper"} : all) {
        set_unit(c, family, unit);
        const std::uint32_t top = k;
        operands.launch(c, family, operands.depth, 1);
        c.expect(operands.first_sum() == 16777215.0f && exact == 16777215, (std::string("another sum on ") + unit).c_str());
        // The limit is there: 2^24 + 1.
        term(1, 1);
        term(1, 1);
        operands.launch(c, family, operands.depth, 1);
        // FP32 has its neighbours alone.
        c.expect(exact == 16777217 && (operands.first_sum() == 16777216.0f || operands.first_sum() == 16777218.0f), "another sum of 2^24 + 1");
        while (k > top) {
            operands.x[--k] = 0;
            operands.y[k] = 0;
            exact -= 1;
        }
    }
    c.settings().units = {};
}

/// The fault that the self-test detects: -1 + 3 · 8 + 8 · 4 on an adder that negates wrongly is not 55, but converts to 55.
void wrong_adder(Case& c, const Family& family) {
    Operands operands(family, 256, 512);
    const int left[] = {-1, 3, 8}, right[] = {1, 8, 4};
    for (unsigned i = 0; i < 3; ++i) {
        operands.x[i] = static_cast<std::int16_t>(left[i]);
        operands.y[i] = static_cast<std::int16_t>(right[i]);
    }
    c.at("mixed signs");
    set_unit(c, family, "rdna35");
    operands.launch(c, family, operands.depth, 1);
    c.expect(operands.first_sum() != 55.0f && std::fabs(operands.first_sum() - 55.0f) < 0.5f, "the adder of RDNA 3.5 is right");
    operands.launch(c, family, operands.depth, 0);
    c.expect(operands.slot.data()[0] == operands.expected()[0], "the conversion repairs it no more");
    c.settings().units = {};
    operands.launch(c, family, operands.depth, 1);
    c.expect(operands.first_sum() == 55.0f, "another sum");
}

const Family families[] = {
    {"assay_product_mma_f16_sm75", encodings[2], "f16", {1, 2, 5, 6}, launch_tiles},
    {"assay_product_mma_bf16_sm80", encodings[1], "bf16", {1, 2, 5, 6}, launch_tiles},
    {"assay_product_mma_fp4_sm120f", encodings[4], "e2m1", {6}, launch_tiles},
    {"assay_product_wgmma_bf16_sm90a", encodings[1], "bf16", {1, 2, 5, 6}, launch_mapped},
    {"assay_product_tcgen05_bf16_sm100f", encodings[1], "bf16", {1, 2, 5, 6}, launch_mapped},
    {"assay_product_tcgen05_fp8_sm100f", encodings[3], "e4m3", {5, 6}, launch_mapped},
    {"assay_product_tcgen05_fp4_sm100f", encodings[4], "e2m1", {6}, launch_mapped},
};

/// Ten bits, which FP16 holds: beyond what 4096 of them may sum up to, unless drained every 64.
void ten_bits(Case& c) {
    const Family& family = families[0];
    Operands operands(family, 256, 4096 * 2);
    for (Integers* to : {&operands.x, &operands.y})
        for (auto& value : *to) value = static_cast<std::int16_t>(static_cast<int>(c.random().below(1023)) - 511);
    set_unit(c, family, "a100");
    c.at("operands of ten bits, K = 4096");
    operands.launch(c, family, operands.depth, 0);
    c.expect(operands.wrong() > 0, "all sums of ten bits came out right");
    c.at("operands of ten bits, drained every 128");
    operands.launch(c, family, 256, 0);
    operands.expect_slot(c);
}

/// Kind 5 on the FP8 units of Hopper: wrong in a quarter of all elements after 64 terms.
void hopper_fp8(Case& c, const Family& family) {
    Operands operands(family, 256, 256);
    operands.draw(c, 5);
    for (std::uint32_t i = 0; i < operands.x.size(); ++i)
        if (i % 256 >= 64) operands.x[i] = operands.y[i] = 0;
    for (const char* unit : {"hopper-fp8", "ada-fp8"}) {
        set_unit(c, family, unit);
        c.at("precision 5 on " + std::string(unit));
        operands.launch(c, family, operands.depth, 0);
        const std::size_t wrong = operands.wrong() * 100 / operands.slot.size();
        c.expect(wrong >= 15 && wrong <= 50, ("wrong elements: " + std::to_string(wrong) + " %").c_str());
    }
    set_unit(c, family, "b200-fp8");
    operands.launch(c, family, operands.depth, 0);
    operands.expect_slot(c);
}

struct FloatCases {
    FloatCases() {
        for (const auto& family : families) {
            const auto add = [&](const char* title, void (*run)(Case&, const Family&)) {
                Registration({family.kernel, title, [&family, run](Case& c) { run(c, family); }});
            };
            add("every kind of work, drained and not", every_kind);
            add("raw sums of floats", raw_sums);
            // E2M1: no row of a slot has so large a sum.
            if (family.encoding.bits >= 8) add("sums that only drains can hold", far_sums);
            add("sums at the limit, on every exact unit", climb);
            add("an adder that is wrong before conversion", wrong_adder);
        }
        Registration({families[0].kernel, "operands of ten bits do not fit", ten_bits});
        Registration({families[5].kernel, "14 bits do not fit", [](Case& c) { hopper_fp8(c, families[5]); }});
    }
} const cases;

}  // namespace

}  // namespace check
