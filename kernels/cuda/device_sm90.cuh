// The first include of a kernel for Hopper: device.cuh with the primitives of sm_90a, or their twins.
#pragma once
#include "device.cuh"

#if defined(__CUDACC__)
#include "ptx_sm90.cuh"
#else
#include "emulation/hopper.h"
#endif
