// What every kernel includes first: the PTX primitives on a GPU, or their twins on a processor. Kernels
// hold no inline assembly and no other conditional.
#pragma once

#if defined(__CUDACC__)
#include "ptx.cuh"
#elif defined(ASSAY_EMULATE)
#include "emulation/emulation.h"
#else
#error "compile kernels with nvcc, or with g++ -x c++ -DASSAY_EMULATE"
#endif
