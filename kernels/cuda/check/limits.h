// Products at the ends of their range: the largest matrix, and slots far out in memory.
#pragma once
#include "product.h"

namespace check {

/// One tile of n = 32768, whose sums reach 2^29.
void largest_matrix(Case& c, const Launcher& launcher);
/// A slot and its parents more than 2^32 bytes apart.
void distant_slots(Case& c, const Launcher& launcher);

}  // namespace check
