// Signed bytes out of 32-bit registers, as the arithmetic primitives need them: with SSE2, which every
// x86-64 has, or plainly.
#pragma once
#include <cstdint>
#include <cstring>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace emulation {

#ifdef __SSE2__

/// The four bytes of a word, in 16 bits each, in the lower half.
inline __m128i widened(std::uint32_t word) {
    const __m128i bytes = _mm_cvtsi32_si128(static_cast<int>(word));
    return _mm_srai_epi16(_mm_unpacklo_epi8(bytes, bytes), 8);
}

inline void widen(std::uint32_t word, std::int16_t* to) { _mm_storel_epi64(reinterpret_cast<__m128i*>(to), widened(word)); }

inline std::int32_t dot_of_bytes(std::uint32_t left, std::uint32_t right) {
    const __m128i pairs = _mm_madd_epi16(widened(left), widened(right));
    return _mm_cvtsi128_si32(_mm_add_epi32(pairs, _mm_srli_si128(pairs, 4)));
}

#else

inline void widen(std::uint32_t word, std::int16_t* to) {
    for (int i = 0; i < 4; ++i) to[i] = static_cast<std::int8_t>(word >> (8 * i));
}

inline std::int32_t dot_of_bytes(std::uint32_t left, std::uint32_t right) {
    std::int32_t sum = 0;
    for (int i = 0; i < 32; i += 8) sum += static_cast<std::int8_t>(left >> i) * static_cast<std::int8_t>(right >> i);
    return sum;
}

#endif

}  // namespace emulation
