// The first include of a kernel for data-centre Blackwell: device_sm90.cuh, whose TMA and memory barriers it uses too, with
// the primitives of sm_100f, or their twins.
#pragma once
#include "device_sm90.cuh"

#if defined(__CUDACC__)
#include "ptx_sm100.cuh"
#else
#include "emulation/blackwell.h"
#endif
