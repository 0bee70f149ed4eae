// Operands of a kind of work from the bytes of a slot, in the encoding that a matrix unit takes (WORK.md, Operands;
// docs/gpus.md, Kinds of work). Every operand is exact in its encoding.
//
// shapes   slot: n² bytes; out: `pieces` pieces of 16 bytes, which are n², or 2n² where an operand takes more than it is made
//          of: 16-bit encodings, and precision 6, whose bytes are two operands each, the low nibble first
// grid     ⌈pieces / 256⌉; block 256 threads, one piece each, so that all accesses are to whole runs
// bounds   pieces ≤ 2^27
#include "device.cuh"

namespace expand {

constexpr unsigned threads = 256;
constexpr uint32_t each_byte = 0x01010101;

/// The precisions of WORK.md.
enum Precision : uint32_t { int8_work = 1, f16_work = 2, fp8_work = 5, fp4_work = 6 };
/// Encodings, as the backend numbers them.
enum Encoding : uint32_t { as_int8 = 0, as_bf16 = 1, as_f16 = 2, as_e4m3 = 3 };

/// Bytes of all ones where a byte of `bits` is 1.
__device__ __forceinline__ uint32_t spread(uint32_t bits) { return bits * 0xFF; }

/// Four operands of precision 5 as INT8: ±(8 + b mod 8) · 2^(b / 8 mod 4). At most 120: no byte carries into the next,
/// and none is 0, so that none does where it is negated.
__device__ __forceinline__ uint32_t fp8_to_int8(uint32_t word) {
    uint32_t value = (word & 7 * each_byte) | 8 * each_byte;
    value += value & spread(word >> 3 & each_byte);
    const uint32_t twice_more = spread(word >> 4 & each_byte), negative = spread(word >> 7 & each_byte);
    value = (value & ~twice_more) | (value << 2 & twice_more);
    return (value ^ negative) + (negative & each_byte);
}

/// Four nibbles, the lowest first, looked up in eight bytes; those with their sign set in `negative`'s eight.
struct Table {
    uint32_t low, high, negative_low, negative_high;
};
__device__ __forceinline__ uint32_t look_up(uint32_t nibbles, const Table& table) {
    const uint32_t signs = __byte_perm(0, 0xFFFFFFFF, (nibbles & 0x8888) >> 1), at = nibbles & 0x7777;
    return (__byte_perm(table.low, table.high, at) & ~signs) | (__byte_perm(table.negative_low, table.negative_high, at) & signs);
}
/// 0, 1, 2, 3, 4, 6, 8, 12 and their negatives.
__device__ __forceinline__ Table fp4_table(uint32_t encoding) {
    if (encoding == as_e4m3) return {0x44403800, 0x54504C48, 0xC4C0B880, 0xD4D0CCC8};
    return {0x03020100, 0x0C080604, 0xFDFEFF00, 0xF4F8FAFC};
}

/// A small integer as a float: in the last bits of 1.5 · 2^23, then without it.
__device__ __forceinline__ uint32_t float_bits(int32_t value) {
    return __float_as_uint(__int_as_float(0x4B400000 + value) - 12582912.0f);
}
__device__ __forceinline__ uint32_t bf16_bits(int32_t value) { return float_bits(value) >> 16; }
/// FP16 has five bits of exponent, biased by 15 and not by 127, and 13 bits of fraction less.
__device__ __forceinline__ uint32_t f16_bits(int32_t value) {
    const uint32_t bits = float_bits(value), magnitude = ((bits & 0x7FFFFFFF) - (112u << 23)) >> 13;
    return value == 0 ? 0 : magnitude | (bits >> 16 & 0x8000);
}

/// Byte i of a word of INT8, as the operand of a precision whose operands are made of INT8.
__device__ __forceinline__ int32_t operand(uint32_t word, unsigned i, uint32_t precision) {
    const auto value = static_cast<int32_t>(static_cast<int8_t>(word >> 8 * i));
    return precision == f16_work ? value + (value >> 1) : value;
}

/// Two operands of 16 bits from bytes i and i + 1.
template <uint32_t encoding>
__device__ __forceinline__ uint32_t two(uint32_t word, unsigned i, uint32_t precision) {
    const int32_t first = operand(word, i, precision), second = operand(word, i + 1, precision);
    if (encoding == as_bf16) return bf16_bits(first) | bf16_bits(second) << 16;
    return f16_bits(first) | f16_bits(second) << 16;
}

/// A piece of 16-bit operands from eight bytes.
template <uint32_t encoding>
__device__ __forceinline__ uint4 sixteen_bits(uint32_t low, uint32_t high, uint32_t precision) {
    if (precision == fp8_work) {
        low = fp8_to_int8(low);
        high = fp8_to_int8(high);
    }
    return {two<encoding>(low, 0, precision), two<encoding>(low, 2, precision), two<encoding>(high, 0, precision),
            two<encoding>(high, 2, precision)};
}

/// A piece of precision 6 in bytes from eight bytes.
__device__ __forceinline__ uint4 nibbles(uint32_t low, uint32_t high, const Table& table) {
    return {look_up(low & 0xFFFF, table), look_up(low >> 16, table), look_up(high & 0xFFFF, table), look_up(high >> 16, table)};
}

__device__ __forceinline__ uint32_t fp8_to_e4m3(uint32_t word) { return (word & 0x80 * each_byte) | ((word & 0x1F * each_byte) + 0x50 * each_byte); }

}  // namespace expand

extern "C" __global__ void __launch_bounds__(expand::threads)
assay_expand(const uint8_t* slot, uint8_t* out, uint32_t pieces, uint32_t precision, uint32_t encoding) {
    namespace e = expand;
    const uint32_t piece = blockIdx.x * e::threads + threadIdx.x;
    if (piece >= pieces) return;
    uint4 result;
    if (precision == e::fp8_work && (encoding == e::as_int8 || encoding == e::as_e4m3)) {
        const uint4 from = ptx::load_global_16(slot + uint64_t{piece} * 16);
        if (encoding == e::as_int8) result = {e::fp8_to_int8(from.x), e::fp8_to_int8(from.y), e::fp8_to_int8(from.z), e::fp8_to_int8(from.w)};
        else result = {e::fp8_to_e4m3(from.x), e::fp8_to_e4m3(from.y), e::fp8_to_e4m3(from.z), e::fp8_to_e4m3(from.w)};
    } else {
        const uint2 from = ptx::load_global_8(slot + uint64_t{piece} * 8);
        if (precision == e::fp4_work) result = e::nibbles(from.x, from.y, e::fp4_table(encoding));
        else if (encoding == e::as_bf16) result = e::sixteen_bits<e::as_bf16>(from.x, from.y, precision);
        else result = e::sixteen_bits<e::as_f16>(from.x, from.y, precision);
    }
    ptx::store_global_16(out + uint64_t{piece} * 16, result);
}

ASSAY_KERNEL(assay_expand, expand::threads, 0);
