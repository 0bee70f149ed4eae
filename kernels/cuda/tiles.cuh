// Where the tiles of a product lie, and in which order they are numbered.
#pragma once
#include "device.cuh"

namespace assay {

/// First row and column of a tile.
struct Tile {
    uint32_t row, column;
};

/// Tiles are numbered in bands of GROUP tile rows, down each column of the band before the next: blocks
/// that run at the same time then share rows of both operands in the L2 cache.
template <uint32_t ROWS, uint32_t COLUMNS, uint32_t GROUP>
__device__ __forceinline__ Tile tile_at(uint32_t number, uint32_t n) {
    static_assert(ROWS <= 256 && COLUMNS <= 256, "a tile no larger than the smallest matrix");
    const uint32_t tile_rows = n / ROWS, tile_columns = n / COLUMNS;
    const uint32_t group = tile_rows < GROUP ? tile_rows : GROUP;  // both powers of two: bands are whole
    const uint32_t band = number / (group * tile_columns), within = number % (group * tile_columns);
    return {(band * group + within % group) * ROWS, within / group * COLUMNS};
}

}  // namespace assay
