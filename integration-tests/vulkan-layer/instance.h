// The functions of instances and physical devices that the layer wraps.
#pragma once
#include "objects.h"

namespace trouble {

/// Null when the layer does not wrap it.
PFN_vkVoidFunction instance_function(const char* name);

}  // namespace trouble
