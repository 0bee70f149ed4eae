// What physical devices say of themselves, as the settings have it.
#pragma once
#include "objects.h"

namespace trouble {

/// The functions that the layer wraps.
std::vector<Function> physical_functions();

/// Whether the driver below has an extension, whatever the layer says of it. True of those that the layer does not touch.
bool driver_has(VkPhysicalDevice device, const char* extension);

}  // namespace trouble
