// Products at the ends of their range: the largest matrix.
#pragma once
#include "product.h"

namespace check {

/// One tile of n = 32768, whose sums reach 2^29.
void largest_matrix(Case& c, const Launcher& launcher);

}  // namespace check
