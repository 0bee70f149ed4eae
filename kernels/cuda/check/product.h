// The cases of a product of any family: a family says only how it is launched.
#pragma once
#include "check.h"

namespace check {

/// assay::Product of product.cuh, once more from docs/KERNELS.md.
struct ProductLaunch {
    const std::uint8_t *left, *right;
    std::uint8_t* slot;
    std::uint32_t* sums;
    std::uint32_t n, depth, chunk, raw, u, first_tile, tiles, unused = 0;
    const std::uint8_t* hashed = nullptr;
    std::uint32_t *partials = nullptr, *arrivals = nullptr, *digest = nullptr;
};

/// Launches a product, whatever else its kernel takes.
using Launcher = std::function<void(Case&, const ProductLaunch&)>;

/// A family whose grid is its tiles.
void launch_tiles(Case& c, const ProductLaunch& p);
/// A persistent family that takes tensor maps, with any grid.
void launch_mapped(Case& c, const ProductLaunch& p);

/// Registers every group of product cases for `kernel`.
struct ProductCases {
    ProductCases(const char* kernel, Launcher launcher);
};

}  // namespace check
