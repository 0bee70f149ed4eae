// The layer's entrance.
#pragma once
#include <vulkan/vulkan.h>

namespace trouble {

PFN_vkVoidFunction VKAPI_CALL get_instance_function(VkInstance instance, const char* name);
PFN_vkVoidFunction VKAPI_CALL get_device_function(VkDevice device, const char* name);

}  // namespace trouble
