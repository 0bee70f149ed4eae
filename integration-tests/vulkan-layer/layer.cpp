// VK_LAYER_ASSAY_trouble stands between a program and a Vulkan driver and makes trouble on demand, for tests alone
// (scripts/vulkan-layer builds it, settings.h says what it can do). What it does not wrap goes past it.
#include "layer.h"

#include "device.h"
#include "instance.h"

namespace trouble {

namespace {

bool is_wrapped(const std::string& name) {
    if (name == "upload" || name == "readback" || name == "copy") return true;
    return instance_function(name.c_str()) || device_function(name.c_str());
}

}  // namespace

PFN_vkVoidFunction VKAPI_CALL get_instance_function(VkInstance instance, const char* name) {
    if (auto function = instance_function(name)) return function;
    if (auto function = device_function(name)) return function;
    return instance ? instance_of(key(instance)).next(instance, name) : nullptr;
}

PFN_vkVoidFunction VKAPI_CALL get_device_function(VkDevice device, const char* name) {
    const auto below = device_of(key(device)).next(device, name);
    // What the driver does not have must not seem to be there.
    const auto function = device_function(name);
    return below && function ? function : below;
}

}  // namespace trouble

extern "C" VK_LAYER_EXPORT VkResult VKAPI_CALL vkNegotiateLoaderLayerInterfaceVersion(VkNegotiateLayerInterface* offer) {
    if (offer->sType != LAYER_NEGOTIATE_INTERFACE_STRUCT || offer->loaderLayerInterfaceVersion < 2)
        return VK_ERROR_INITIALIZATION_FAILED;
    trouble::check_faults(trouble::is_wrapped);
    offer->loaderLayerInterfaceVersion = 2;
    offer->pfnGetInstanceProcAddr = trouble::get_instance_function;
    offer->pfnGetDeviceProcAddr = trouble::get_device_function;
    offer->pfnGetPhysicalDeviceProcAddr = nullptr;
    return VK_SUCCESS;
}
