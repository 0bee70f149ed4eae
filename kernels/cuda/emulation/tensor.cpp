// tcgen05.mma of blackwell.h: its descriptors, and its arithmetic.
#include <cstring>
#include <memory>

#include "tensor_state.h"

namespace emulation {

namespace {

constexpr std::uint32_t row_bytes = 32;      // of the inner dimension, in every kind
constexpr unsigned slice_rows = 16;          // multiplied at once
constexpr unsigned most_columns = 256;
constexpr std::uint8_t scale_of_one = 0x7F;  // UE8M0

std::uint32_t field(std::uint64_t bits, unsigned at, unsigned count) {
    return static_cast<std::uint32_t>(bits >> at & ((std::uint64_t{1} << count) - 1));
}

/// PTX ISA, "Shared memory descriptor" of tcgen05, with its meaning here: K-major, rows as wide as the swizzle.
struct SharedDescriptor {
    std::uint32_t start, stride_bytes, swizzle_bytes;

    explicit SharedDescriptor(std::uint64_t bits)
        : start(field(bits, 0, 14) << 4), stride_bytes(field(bits, 32, 14) << 4), swizzle_bytes(swizzle_of(field(bits, 61, 3))) {}

    static std::uint32_t swizzle_of(std::uint32_t mode) { return mode == 2 ? 128 : mode == 4 ? 64 : mode == 6 ? 32 : 0; }

    static void check(std::uint64_t bits) {
        constexpr std::uint64_t unused = 0x1FFF0000C000C000;
        if (bits & unused) block().fail(Code::unsupported, "a shared-memory descriptor with other bits: %016llx", static_cast<unsigned long long>(bits));
        if (field(bits, 46, 2) != 1) block().fail(Code::unsupported, "a shared-memory descriptor of another version than 1");
        if (swizzle_of(field(bits, 61, 3)) == 0) block().fail(Code::unsupported, "swizzle mode %u", field(bits, 61, 3));
    }

    /// The 16 bytes at `piece` (of two) of a row. Rows lie in groups of eight.
    std::uint32_t address(unsigned row, unsigned piece) const {
        return swizzled(start + row / 8 * stride_bytes + row % 8 * swizzle_bytes + piece * 16, swizzle_bytes);
    }

    /// Whether `rows` rows touch these addresses; whole groups count.
    bool touches(unsigned rows, std::uint32_t begin, std::uint32_t end) const {
        const std::uint32_t group_bytes = 8 * swizzle_bytes;
        for (unsigned row = 0; row < rows; row += 8) {
            const std::uint32_t from = (start + row / 8 * stride_bytes) & ~(group_bytes - 1);
            if (from < end && begin < from + group_bytes) return true;
        }
        return false;
    }

    void check_range(unsigned rows) const {
        for (unsigned row = 0; row < rows; ++row)
            for (unsigned piece = 0; piece < row_bytes / 16; ++piece) block().shared(address(row, piece), 16, 16);
    }
};

/// PTX ISA, "Instruction descriptor": what differs between kinds is the formats' numbers and where the sums' are said.
void check_instruction(const TensorProduct& product) {
    const std::uint32_t bits = product.instruction;
    const bool is_scaled = product.format == Format::e2m1;
    const std::uint32_t format = product.format == Format::e4m3 ? 0 : 1;
    if (field(bits, 7, 3) != format || field(bits, 10, 3) != format)
        block().fail(Code::unsupported, "operands of formats %u and %u, not %u", field(bits, 7, 3), field(bits, 10, 3), format);
    // Scales in UE8M0, or sums in INT32 or FP32.
    const std::uint32_t kind = is_scaled ? 1u << 23 : product.format == Format::int8 ? 2u << 4 : 1u << 4;
    // Saturation, sparsity, negation, transposition, shifts, the place of scales: nothing of them.
    constexpr std::uint32_t dimensions = 0x3Fu << 17 | 0x1Fu << 24, formats = 0x3Fu << 7;
    if ((bits & ~(dimensions | formats)) != kind) block().fail(Code::unsupported, "an instruction descriptor with other bits: %08x", bits);
}

/// The columns of scales of so many rows.
Columns scales_of(std::uint32_t address, unsigned rows) {
    if (address >> 16 != 0) block().fail(Code::unsupported, "scales that do not begin in lane 0");
    return {address, address + rows / quarter_lanes};
}

template <unsigned ROWS, unsigned INNER>
void gather(Rows<ROWS, INNER>& to, Format format, const std::uint8_t* shared, const SharedDescriptor& from, unsigned first) {
    constexpr unsigned bits = row_bytes * 8 / INNER, in_piece = 16 * 8 / bits;
    for (unsigned row = 0; row < ROWS; ++row)
        for (unsigned piece = 0; piece < row_bytes / 16; ++piece) {
            const std::uint8_t* bytes = shared + from.address(first + row, piece);
            for (unsigned i = 0; i < in_piece; ++i) {
                std::uint16_t code = bytes[i * bits / 8];
                if (bits == 16) code = static_cast<std::uint16_t>(code | bytes[i * 2 + 1] << 8);
                if (bits == 4) code = code >> (i % 2 * 4) & 0xF;
                to.codes[row][piece * in_piece + i] = code;
            }
        }
    to.decode(format);
}

/// Everything of one instruction: too large for a fiber's stack.
template <unsigned INNER>
struct Work {
    Rows<slice_rows, INNER> left;
    Rows<most_columns, INNER> right;
};

template <unsigned INNER>
void multiply_as(Tensor& state, const std::uint8_t* shared, const Unit& unit, const Multiplication& m) {
    const Format format = m.product.format;
    const auto work = std::make_unique<Work<INNER>>();
    gather(work->right, format, shared, SharedDescriptor(m.product.right), 0);
    for (unsigned first = 0; first < m.rows; first += slice_rows) {
        work->left = {};
        gather(work->left, format, shared, SharedDescriptor(m.product.left), first);
        const auto products = std::make_unique<Products<slice_rows, most_columns, INNER>>(unit, format, work->left, work->right);
        if (products->are_zero() && m.product.accumulate) continue;
        for (unsigned r = 0; r < slice_rows; ++r)
            for (unsigned c = 0; c < m.columns; ++c) {
                std::uint32_t& word = state.word(first + r, m.sums.begin + c);
                float sum = 0;
                if (m.product.accumulate) std::memcpy(&sum, &word, sizeof sum);
                sum = products->sum(sum, r, c);
                std::memcpy(&word, &sum, sizeof sum);
            }
    }
}

__attribute__((optimize("O3"))) std::int32_t dot(const std::int16_t* left, const std::int16_t* right, unsigned count) {
    std::int32_t sum = 0;
    for (unsigned k = 0; k < count; ++k) sum += left[k] * right[k];
    return sum;
}

/// `unit`: one whose sums live in a float, or null.
void multiply_int8(Tensor& state, const std::uint8_t* shared, const Unit* unit, const Multiplication& m) {
    const auto work = std::make_unique<Work<row_bytes>>();
    gather(work->right, Format::int8, shared, SharedDescriptor(m.product.right), 0);
    for (unsigned first = 0; first < m.rows; first += slice_rows) {
        work->left = {};
        gather(work->left, Format::int8, shared, SharedDescriptor(m.product.left), first);
        for (unsigned r = 0; r < slice_rows; ++r)
            for (unsigned c = 0; c < m.columns; ++c) {
                std::uint32_t& word = state.word(first + r, m.sums.begin + c);
                const std::uint32_t before = m.product.accumulate ? word : 0;
                word = before + static_cast<std::uint32_t>(dot(work->left.integers[r], work->right.integers[c], row_bytes));
                if (!unit) continue;
                Term terms[row_bytes];
                for (unsigned k = 0; k < row_bytes; ++k)
                    terms[k] = product(decoded(Format::int8, work->left.codes[r][k]), decoded(Format::int8, work->right.codes[c][k]));
                const float sum = emulation::sum(*unit, static_cast<float>(static_cast<std::int32_t>(before)), terms, row_bytes);
                word = static_cast<std::uint32_t>(static_cast<std::int32_t>(sum));
            }
    }
}

/// Row r's scales are bytes 0 and 1 of column r / 32, lane r mod 32, and all four quarters hold them.
bool are_ones(Tensor& state, const Columns& scales) {
    for (std::uint32_t column = scales.begin; column < scales.end; ++column)
        for (unsigned lane = 0; lane < tensor_lanes; ++lane) {
            const std::uint32_t word = state.word(lane, column);
            if ((word & 0xFF) != scale_of_one || (word >> 8 & 0xFF) != scale_of_one) return false;
        }
    return true;
}

const Unit& unit_of(const Units& units, Format format) {
    if (const Unit* asked = units.get(format)) return *asked;
    return *find_unit(format == Format::bf16 ? "b200" : format == Format::e4m3 ? "b200-fp8" : "b200-mxf4");
}

}  // namespace

Multiplication decoded(const TensorProduct& product) {
    check_instruction(product);
    SharedDescriptor::check(product.left);
    SharedDescriptor::check(product.right);
    const unsigned rows = field(product.instruction, 24, 5) * 16, columns = field(product.instruction, 17, 6) * 8;
    // Sums of 64 rows lie otherwise; none of our kernels has them.
    if (rows != tensor_lanes || columns != most_columns) block().fail(Code::unsupported, "a multiplication of %u x %u", rows, columns);
    SharedDescriptor(product.left).check_range(rows);
    SharedDescriptor(product.right).check_range(columns);
    if (product.sums >> 16 != 0) block().fail(Code::tensor_memory, "sums that do not begin in lane 0");
    Multiplication m{product, rows, columns, {product.sums, product.sums + columns}, {}, {}};
    if (product.format == Format::e2m1) {
        m.left_scales = scales_of(product.left_scales, rows);
        m.right_scales = scales_of(product.right_scales, columns);
    }
    return m;
}

bool reads(const Multiplication& m, std::uint32_t begin, std::uint32_t end) {
    return SharedDescriptor(m.product.left).touches(m.rows, begin, end) || SharedDescriptor(m.product.right).touches(m.columns, begin, end);
}

const char* multiply(Tensor& state, const std::uint8_t* shared, const Units& units, const Multiplication& m) {
    if (m.product.format == Format::int8) {
        multiply_int8(state, shared, units.get(Format::int8), m);
        return nullptr;
    }
    const Unit& unit = unit_of(units, m.product.format);
    switch (m.product.format) {
        case Format::bf16: multiply_as<16>(state, shared, unit, m); break;
        case Format::e4m3: multiply_as<32>(state, shared, unit, m); break;
        default:
            if (!are_ones(state, m.left_scales) || !are_ones(state, m.right_scales)) return "a scale that is not 1";
            multiply_as<64>(state, shared, unit, m);
    }
    return nullptr;
}

}  // namespace emulation
