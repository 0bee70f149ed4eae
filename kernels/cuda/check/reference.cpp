#include "reference.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace reference {

namespace {

std::uint32_t left(std::uint32_t x, unsigned by) { return by % 32 == 0 ? x : (x << by) | (x >> (32 - by)); }
std::uint32_t right(std::uint32_t x, unsigned by) { return left(x, 32 - by); }

std::uint32_t little_endian(const std::uint8_t* p) {
    return p[0] | std::uint32_t{p[1]} << 8 | std::uint32_t{p[2]} << 16 | std::uint32_t{p[3]} << 24;
}

// ---- ChaCha8 (D. J. Bernstein)

void quarter(std::uint32_t* x, int a, int b, int c, int d) {
    x[a] += x[b]; x[d] = left(x[d] ^ x[a], 16);
    x[c] += x[d]; x[b] = left(x[b] ^ x[c], 12);
    x[a] += x[b]; x[d] = left(x[d] ^ x[a], 8);
    x[c] += x[d]; x[b] = left(x[b] ^ x[c], 7);
}

void chacha_block(const std::uint32_t* start, std::uint8_t* out) {
    std::uint32_t x[16];
    std::memcpy(x, start, sizeof x);
    for (int i = 0; i < 4; ++i) {
        quarter(x, 0, 4, 8, 12);
        quarter(x, 1, 5, 9, 13);
        quarter(x, 2, 6, 10, 14);
        quarter(x, 3, 7, 11, 15);
        quarter(x, 0, 5, 10, 15);
        quarter(x, 1, 6, 11, 12);
        quarter(x, 2, 7, 8, 13);
        quarter(x, 3, 4, 9, 14);
    }
    for (int i = 0; i < 16; ++i) {
        const std::uint32_t word = x[i] + start[i];
        for (int b = 0; b < 4; ++b) out[4 * i + b] = static_cast<std::uint8_t>(word >> (8 * b));
    }
}

// ---- BLAKE3 (J. O'Connor, J.-P. Aumasson, S. Neves, Z. Wilcox-O'Hearn)

const Words8 iv = {0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19};
const int permutation[16] = {2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8};
enum : std::uint32_t { chunk_start = 1, chunk_end = 2, parent = 4, root = 8 };

void g(std::uint32_t* v, int a, int b, int c, int d, std::uint32_t x, std::uint32_t y) {
    v[a] = v[a] + v[b] + x;
    v[d] = right(v[d] ^ v[a], 16);
    v[c] = v[c] + v[d];
    v[b] = right(v[b] ^ v[c], 12);
    v[a] = v[a] + v[b] + y;
    v[d] = right(v[d] ^ v[a], 8);
    v[c] = v[c] + v[d];
    v[b] = right(v[b] ^ v[c], 7);
}

Words8 compress(const Words8& h, const std::uint8_t* block, std::uint64_t counter, std::uint32_t flags) {
    std::uint32_t m[16], v[16];
    for (int i = 0; i < 16; ++i) m[i] = little_endian(block + 4 * i);
    for (int i = 0; i < 8; ++i) v[i] = h[i];
    for (int i = 0; i < 4; ++i) v[8 + i] = iv[i];
    v[12] = static_cast<std::uint32_t>(counter);
    v[13] = static_cast<std::uint32_t>(counter >> 32);
    v[14] = 64;
    v[15] = flags;
    for (int round = 0; round < 7; ++round) {
        g(v, 0, 4, 8, 12, m[0], m[1]);
        g(v, 1, 5, 9, 13, m[2], m[3]);
        g(v, 2, 6, 10, 14, m[4], m[5]);
        g(v, 3, 7, 11, 15, m[6], m[7]);
        g(v, 0, 5, 10, 15, m[8], m[9]);
        g(v, 1, 6, 11, 12, m[10], m[11]);
        g(v, 2, 7, 8, 13, m[12], m[13]);
        g(v, 3, 4, 9, 14, m[14], m[15]);
        std::uint32_t permuted[16];
        for (int i = 0; i < 16; ++i) permuted[i] = m[permutation[i]];
        std::memcpy(m, permuted, sizeof m);
    }
    Words8 out;
    for (int i = 0; i < 8; ++i) out[i] = v[i] ^ v[8 + i];
    return out;
}

/// A whole number of chunks, a power of two of them.
Words8 tree(const std::uint8_t* data, std::uint64_t first, std::uint32_t chunks, std::uint32_t flags) {
    if (chunks == 1) {
        Words8 h = iv;
        for (int i = 0; i < 16; ++i)
            h = compress(h, data + first * 1024 + 64 * i, first, (i == 0 ? chunk_start : 0u) | (i == 15 ? chunk_end | flags : 0u));
        return h;
    }
    const Words8 l = tree(data, first, chunks / 2, 0), r = tree(data, first + chunks / 2, chunks / 2, 0);
    std::uint8_t block[64];
    for (int i = 0; i < 32; ++i) {
        block[i] = static_cast<std::uint8_t>(l[i / 4] >> (8 * (i % 4)));
        block[32 + i] = static_cast<std::uint8_t>(r[i / 4] >> (8 * (i % 4)));
    }
    return compress(iv, block, 0, parent | flags);
}

}  // namespace

Bytes keystream(const Words8& key, std::uint64_t stream, std::uint32_t blocks) {
    Bytes out(std::size_t{64} * blocks);
    std::uint32_t start[16] = {0x61707865, 0x3320646E, 0x79622D32, 0x6B206574};
    for (int i = 0; i < 8; ++i) start[4 + i] = key[i];
    start[14] = static_cast<std::uint32_t>(stream);
    start[15] = static_cast<std::uint32_t>(stream >> 32);
    for (std::uint32_t i = 0; i < blocks; ++i) {
        start[12] = i;
        chacha_block(start, out.data() + std::size_t{64} * i);
    }
    return out;
}

Words8 blake3(const std::uint8_t* data, std::size_t bytes) {
    return tree(data, 0, static_cast<std::uint32_t>(bytes / 1024), root);
}

Words8 subtree(const std::uint8_t* data, std::uint32_t first, std::uint32_t chunks) { return tree(data, first, chunks, 0); }

namespace {

/// 16-bit operands, which compilers multiply in pairs where they may vectorise.
__attribute__((optimize("O3"))) std::int32_t dot(const std::int16_t* x, const std::int16_t* y, std::uint32_t n) {
    std::int32_t sum = 0;
    for (std::uint32_t k = 0; k < n; ++k) sum += x[k] * y[k];
    return sum;
}

}  // namespace

Bytes product(const std::uint8_t* earlier, const std::uint8_t* previous, std::uint32_t n, std::uint32_t u) {
    return product_rows(earlier, previous, n, n, n, u, 0, 0);
}

Bytes mixed_rows(const std::int16_t* left, const std::int16_t* right, std::uint32_t terms, std::uint32_t n, std::uint32_t rows,
                 std::uint32_t columns, std::uint32_t u, std::uint32_t first_row, std::uint32_t first_column) {
    Bytes out;
    out.reserve(std::size_t{rows} * columns);
    for (std::uint32_t r = 0; r < rows; ++r)
        for (std::uint32_t c = 0; c < columns; ++c) {
            const std::int32_t sum = dot(&left[std::size_t{r} * terms], &right[std::size_t{c} * terms], terms);
            std::uint32_t mixed = static_cast<std::uint32_t>(sum) + (first_row + r) * n + first_column + c + u * 0xC2B2AE35u;
            mixed *= 0x9E3779B1u;
            mixed ^= mixed >> 16;
            mixed *= 0x85EBCA6Bu;
            out.push_back(static_cast<std::uint8_t>(mixed >> 24));
        }
    return out;
}

Bytes product_rows(const std::uint8_t* left_rows, const std::uint8_t* right_rows, std::uint32_t n, std::uint32_t rows,
                   std::uint32_t columns, std::uint32_t u, std::uint32_t first_row, std::uint32_t first_column) {
    const auto widened = [n](const std::uint8_t* from, std::uint32_t count) {
        std::vector<std::int16_t> to(std::size_t{count} * n);
        for (std::size_t i = 0; i < to.size(); ++i) to[i] = static_cast<std::int8_t>(from[i]);
        return to;
    };
    const auto x = widened(left_rows, rows), y = widened(right_rows, columns);
    return mixed_rows(x.data(), y.data(), n, n, rows, columns, u, first_row, first_column);
}

std::vector<int> operands(unsigned precision, std::uint8_t byte) {
    const int s = byte < 128 ? byte : byte - 256;
    const int m[] = {0, 1, 2, 3, 4, 6, 8, 12};
    const auto nibble = [&](unsigned c) { return c < 8 ? m[c] : -m[c - 8]; };
    switch (precision) {
        case 1: return {s};
        case 2: return {s + static_cast<int>(std::floor(s / 2.0))};
        case 5: return {(8 + byte % 8) * (1 << byte / 8 % 4) * (byte >= 128 ? -1 : 1)};
        default: return {nibble(byte % 16u), nibble(byte / 16u)};
    }
}

std::vector<std::int32_t> sums_by_tile(const std::uint8_t* left, const std::uint8_t* right, std::uint32_t n, std::uint32_t depth,
                                       std::uint32_t tile_rows, std::uint32_t tile_columns) {
    std::vector<std::int32_t> out;
    const std::uint32_t band = std::min(16 * tile_rows, n);
    for (std::uint32_t first = 0; first < n; first += band)
        for (std::uint32_t column = 0; column < n; column += tile_columns)
            for (std::uint32_t row = first; row < first + band; row += tile_rows)
                for (std::uint32_t r = row; r < row + tile_rows; ++r)
                    for (std::uint32_t c = column; c < column + tile_columns; ++c) {
                        std::int32_t sum = 0;
                        for (std::uint32_t k = 0; k < depth; ++k)
                            sum += static_cast<std::int8_t>(left[std::size_t{r} * depth + k]) * static_cast<std::int8_t>(right[std::size_t{c} * depth + k]);
                        out.push_back(sum);
                    }
    return out;
}

std::uint64_t probe_line(const std::uint32_t* s, std::uint32_t count, std::uint32_t lines) {
    std::uint32_t a = 0, b = 0;
    for (int k = 0; k < 16; ++k) {
        a ^= left(s[k], 2 * k);
        b += s[k];
    }
    const std::uint64_t slot = std::uint64_t{a} * count >> 32, line = std::uint64_t{b} * lines >> 32;
    return slot * lines + line;
}

void probe(const std::uint8_t* slots, std::uint32_t count, std::uint32_t lines, std::uint32_t steps, std::vector<std::uint32_t>& states) {
    for (std::size_t walk = 0; walk < states.size() / 16; ++walk) {
        std::uint32_t* s = states.data() + 16 * walk;
        for (std::uint32_t step = 0; step < steps; ++step) {
            const std::uint8_t* w = slots + probe_line(s, count, lines) * 64;
            std::uint32_t t[16];
            for (int k = 0; k < 16; ++k) {
                t[k] = (s[k] ^ little_endian(w + 4 * k)) * 0x9E3779B1u;
                t[k] ^= t[k] >> 15;
            }
            for (int k = 0; k < 16; ++k) s[k] = t[k] * 0x85EBCA6Bu + left(t[(k + 1) % 16], 7);
        }
    }
}

}  // namespace reference
