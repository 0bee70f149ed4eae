// A CUDA kernel's surroundings on the CPU: included by device.cuh where a kernel is compiled by g++ with
// -DASSAY_EMULATE. What each part is for stands at its head; block.h says how to add a primitive.
#pragma once
#include "cuda.h"
#include "ptx.h"
#include "registry.h"
