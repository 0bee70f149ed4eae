// Instances, and devices as they are made: the layer finds what is below it in the chain that the loader hands down.
#include "instance.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "layer.h"
#include "log.h"
#include "memory.h"
#include "physical.h"

namespace trouble {

namespace {

/// The link of the loader's chain, which is in the list of extending structures.
template <class Link>
Link* link_in(const void* next, VkStructureType type) {
    for (auto* at = static_cast<const VkBaseInStructure*>(next); at; at = at->pNext) {
        auto* link = reinterpret_cast<const Link*>(at);
        if (at->sType == type && link->function == VK_LAYER_LINK_INFO) return const_cast<Link*>(link);
    }
    return nullptr;
}

const std::vector<Function>& wrapped();

VkResult VKAPI_CALL create_instance(const VkInstanceCreateInfo* info, const VkAllocationCallbacks* allocator,
                                    VkInstance* made) {
    auto* link = link_in<VkLayerInstanceCreateInfo>(info->pNext, VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO);
    if (!link) return VK_ERROR_INITIALIZATION_FAILED;
    const Effect effect = fault_at("vkCreateInstance", -1);
    if (effect.kind == Effect::Kind::result) return effect.result;
    const auto next = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
    link->u.pLayerInfo = link->u.pLayerInfo->pNext;
    const auto create = reinterpret_cast<PFN_vkCreateInstance>(next(VK_NULL_HANDLE, "vkCreateInstance"));
    const VkResult result = create(info, allocator, made);
    if (result == VK_SUCCESS) keep(*made, next, wrapped());
    return result;
}

void VKAPI_CALL destroy_instance(VkInstance handle, const VkAllocationCallbacks* allocator) {
    if (handle) instance_of(key(handle)).below<PFN_vkDestroyInstance>("vkDestroyInstance")(handle, allocator);
}

VkResult VKAPI_CALL enumerate_devices(VkInstance handle, std::uint32_t* count, VkPhysicalDevice* devices) {
    const Effect effect = fault_at("vkEnumeratePhysicalDevices", -1);
    if (effect.kind == Effect::Kind::result) return effect.result;
    const auto below = instance_of(key(handle)).below<PFN_vkEnumeratePhysicalDevices>("vkEnumeratePhysicalDevices");
    const VkResult result = below(handle, count, devices);
    // They are numbered as they are seen first.
    if (devices && result == VK_SUCCESS) std::for_each(devices, devices + *count, number_of);
    return result;
}

VkResult VKAPI_CALL create_device(VkPhysicalDevice physical, const VkDeviceCreateInfo* info,
                                  const VkAllocationCallbacks* allocator, VkDevice* made) {
    auto* link = link_in<VkLayerDeviceCreateInfo>(info->pNext, VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO);
    if (!link) return VK_ERROR_INITIALIZATION_FAILED;
    const unsigned number = number_of(physical);
    const Effect effect = fault_at("vkCreateDevice", int(number));
    if (effect.kind == Effect::Kind::result) return effect.result;
    const auto next = link->u.pLayerInfo->pfnNextGetDeviceProcAddr;
    link->u.pLayerInfo = link->u.pLayerInfo->pNext;
    VkDeviceCreateInfo below_info = *info;
    std::vector<const char*> extensions;
    std::copy_if(info->ppEnabledExtensionNames, info->ppEnabledExtensionNames + info->enabledExtensionCount,
                 std::back_inserter(extensions), [&](const char* name) { return driver_has(physical, name); });
    below_info.enabledExtensionCount = std::uint32_t(extensions.size());
    below_info.ppEnabledExtensionNames = extensions.data();
    const auto create = instance_of(key(physical)).below<PFN_vkCreateDevice>("vkCreateDevice");
    const VkResult result = create(physical, &below_info, allocator, made);
    if (result != VK_SUCCESS) return result;
    log("vkCreateDevice", number);
    keep(*made, number, next);
    return result;
}

/// All functions of instances and physical devices.
const std::vector<Function>& wrapped() {
    static const auto& all = *new std::vector<Function>([] {
        std::vector<Function> all{
            {"vkGetInstanceProcAddr", PFN_vkVoidFunction(get_instance_function)},
            {"vkCreateInstance", PFN_vkVoidFunction(create_instance)},
            {"vkDestroyInstance", PFN_vkVoidFunction(destroy_instance)},
            {"vkEnumeratePhysicalDevices", PFN_vkVoidFunction(enumerate_devices)},
            {"vkCreateDevice", PFN_vkVoidFunction(create_device)},
        };
        for (const auto& function : physical_functions()) all.push_back(function);
        return all;
    }());
    return all;
}

}  // namespace

PFN_vkVoidFunction instance_function(const char* name) {
    for (const auto& function : wrapped())
        if (std::strcmp(function.name, name) == 0) return function.function;
    return nullptr;
}

}  // namespace trouble
