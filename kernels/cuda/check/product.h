// The cases of a product, whatever its family: a family says only how it is launched.
#pragma once
#include "check.h"

namespace check {

/// One product, in one launch.
struct ProductLaunch {
    std::uint8_t* slots;
    std::uint32_t count, n, earlier, previous, u, first_tile, tiles;
};

using Launcher = std::function<void(Case&, const ProductLaunch&)>;

/// Registers every group of product cases for `kernel`.
struct ProductCases {
    ProductCases(const char* kernel, Launcher launcher);
};

}  // namespace check
