// The functions of devices, queues and command buffers that the layer wraps.
#pragma once
#include "objects.h"

namespace trouble {

/// Null when the layer does not wrap it.
PFN_vkVoidFunction device_function(const char* name);

}  // namespace trouble
