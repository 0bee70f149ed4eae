#include "limits.h"

#include <cstring>

#include "../tiles.cuh"
#include "sparse.h"

namespace check {

void largest_matrix(Case& c, const Launcher& launcher) {
    constexpr std::uint32_t n = 32768, count = 3;
    constexpr std::size_t slot_bytes = std::size_t{n} * n;
    const std::uint32_t rows = c.kernel().tile_rows, columns = c.kernel().tile_columns;
    const std::uint32_t tiles = n / rows * (n / columns), last = tiles - 1;
    c.at("the last tile of n = 32768");
    // Every family numbers its tiles so that the last one is the last corner. Only its operands are not
    // zero, and the first row of both is the lowest element throughout: their sum is 2^29.
    const Sparse slots(count * slot_bytes);
    std::uint8_t* left = slots.data() + std::size_t{n - rows} * n;
    std::uint8_t* right = slots.data() + slot_bytes + std::size_t{n - columns} * n;
    for (std::size_t i = 0; i < std::size_t{rows} * n; ++i) left[i] = i < n ? 0x80 : static_cast<std::uint8_t>(c.random().next());
    for (std::size_t i = 0; i < std::size_t{columns} * n; ++i) right[i] = i < n ? 0x80 : static_cast<std::uint8_t>(c.random().next());
    launcher(c, {slots.data(), slots.data() + slot_bytes, slots.data() + 2 * slot_bytes, nullptr, n, n, n, 0, 2, last, 1});

    const auto expected = reference::product_rows(left, right, n, rows, columns, 2, n - rows, n - columns);
    for (std::uint32_t r = 0; r < rows; ++r)
        c.expect_same(slots.data() + 2 * slot_bytes + std::size_t{n - rows + r} * n + n - columns, expected.data() + std::size_t{r} * columns,
                      columns, "a row of the last tile");
}

}  // namespace check

// ---- the numbering of tiles, which products of n up to 1024 hardly exercise

namespace {

constexpr std::uint32_t smallest_n = 256;

}  // namespace

/// The tile of each number, as its row and column, for tiles of 128 x 256 in bands of 16.
extern "C" __global__ void check_tiles(std::uint32_t n, std::uint32_t tiles, std::uint32_t* out) {
    const std::uint32_t number = blockIdx.x * 32 + threadIdx.x;
    if (number >= tiles) return;
    const assay::Tile tile = assay::tile_at<128, 256, 16>(number, n);
    out[2 * number] = tile.row;
    out[2 * number + 1] = tile.column;
}

ASSAY_KERNEL(check_tiles, 32, 0);

namespace {

/// Every tile has exactly one number, and a band's tiles follow one another.
void numbering(check::Case& c) {
    for (std::uint32_t n = smallest_n; n <= 32768; n *= 2) {
        const std::uint32_t rows = n / 128, columns = n / 256, tiles = rows * columns;
        const check::Buffer out(std::size_t{8} * tiles);
        c.at("n = " + std::to_string(n));
        c.launch((tiles + 31) / 32, n, tiles, out.words());
        std::vector<bool> seen(tiles);
        for (std::uint32_t i = 0; i < tiles; ++i) {
            const std::uint32_t row = out.words()[2 * i], column = out.words()[2 * i + 1];
            c.expect(row % 128 == 0 && column % 256 == 0 && row < n && column < n, "a tile outside the matrix");
            const std::uint32_t at = row / 128 * columns + column / 256;
            c.expect(!seen[at], "two numbers for one tile");
            seen[at] = true;
            c.expect(i / (16 * columns) == row / (128 * 16) || rows < 16, "a tile outside its band");
        }
        out.expect_guards("tiles");
    }
}

const check::Registration cases({"check_tiles", "every tile of n = 256 to 32768 once", numbering});

}  // namespace
