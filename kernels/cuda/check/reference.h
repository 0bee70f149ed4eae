// The required results of the kernels, written once more from docs/WORK.md and the BLAKE3 paper: slow, obvious, and
// sharing no line with the kernels.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

namespace reference {

using Bytes = std::vector<std::uint8_t>;
using Words8 = std::array<std::uint32_t, 8>;

/// The first 64 · blocks bytes of KEYSTREAM(key, stream).
Bytes keystream(const Words8& key, std::uint64_t stream, std::uint32_t blocks);

/// BLAKE3(data).
Words8 blake3(const std::uint8_t* data, std::size_t bytes);

/// The chaining value, never the root, of the subtree over chunks first … first + chunks - 1 of data.
Words8 subtree(const std::uint8_t* data, std::uint32_t first, std::uint32_t chunks);

/// Slot u from its parents, each n x n.
Bytes product(const std::uint8_t* earlier, const std::uint8_t* previous, std::uint32_t n, std::uint32_t u);

/// `rows` x `columns` elements of slot u, from (first_row, first_column) on, from those rows of its
/// parents that they need.
Bytes product_rows(const std::uint8_t* left_rows, const std::uint8_t* right_rows, std::uint32_t n, std::uint32_t rows, std::uint32_t columns,
                   std::uint32_t u, std::uint32_t first_row, std::uint32_t first_column);

/// The operands of a byte of a slot by the kind of work: one, or two for precision 6.
std::vector<int> operands(unsigned precision, std::uint8_t byte);

/// Row c of y by the rule of precision 7, from that row of the slot before slot u.
Bytes field_row(const std::uint8_t* row, std::uint32_t n, std::uint32_t u, std::uint32_t c);

/// x by the layers of precision 8: whole slots, or a row for attention.
Bytes convolution(const std::uint8_t* slot, std::uint32_t n);
Bytes attention_row(const std::uint8_t* row, std::uint32_t n);
Bytes noise(const std::uint8_t* slot, std::uint32_t n, const Words8& key);

/// `rows` x `columns` elements of slot u from (first_row, first_column) on, from operands: `terms` for each row.
Bytes mixed_rows(const std::int16_t* left, const std::int16_t* right, std::uint32_t terms, std::uint32_t n, std::uint32_t rows,
                 std::uint32_t columns, std::uint32_t u, std::uint32_t first_row, std::uint32_t first_column);

/// The INT8 sums of left · rightᵀ, both n rows of `depth` bytes, tile by tile as they are numbered (in bands of 16 tile
/// rows), each row by row.
std::vector<std::int32_t> sums_by_tile(const std::uint8_t* left, const std::uint8_t* right, std::uint32_t n, std::uint32_t depth,
                                       std::uint32_t tile_rows, std::uint32_t tile_columns);

/// The line that a walk in this state reads next, counted over all slots.
std::uint64_t probe_line(const std::uint32_t* state, std::uint32_t count, std::uint32_t lines);

/// `steps` steps of every walk over `slots`; `states` holds 16 words a walk.
void probe(const std::uint8_t* slots, std::uint32_t count, std::uint32_t lines, std::uint32_t steps, std::vector<std::uint32_t>& states);

}  // namespace reference
