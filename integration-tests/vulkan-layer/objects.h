// The instances, physical devices and devices that there are, and the functions below the layer for each.
//
// A queue and a command buffer begin with the same pointer as their device, a physical device with its instance's: by it
// they are found again.
#pragma once
#include <vulkan/vk_layer.h>
#include <vulkan/vulkan.h>

#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "faults.h"

namespace trouble {

/// A function of the layer, under its name in Vulkan.
struct Function {
    const char* name;
    PFN_vkVoidFunction function;
};

class Instance {
public:
    /// `wrapped` are the functions of the layer. What is below them is asked for now: later the loader would answer with
    /// the layer's own.
    Instance(VkInstance handle, PFN_vkGetInstanceProcAddr next, const std::vector<Function>& wrapped);

    template <class Pointer>
    Pointer below(const char* name) const {
        return reinterpret_cast<Pointer>(below_.at(name));
    }

    const VkInstance handle;
    const PFN_vkGetInstanceProcAddr next;

private:
    std::unordered_map<std::string, PFN_vkVoidFunction> below_;
};

class Device {
public:
    Device(VkDevice handle, unsigned number, PFN_vkGetDeviceProcAddr next) : handle(handle), number(number), next(next) {}

    template <class Pointer>
    Pointer below(const char* name) {
        return reinterpret_cast<Pointer>(find(name));
    }
    PFN_vkVoidFunction find(const char* name);

    /// What is to happen at this call. A loss and a hang are noted here.
    Effect enter(const char* name);

    const VkDevice handle;
    const unsigned number;  // of its physical device
    const PFN_vkGetDeviceProcAddr next;
    /// Set for good: nothing that is submitted later is run.
    std::atomic<bool> lost = false, hung = false;

    /// What was allocated and made, by handle.
    std::mutex mutex;
    std::map<VkDeviceMemory, VkDeviceSize> allocated;
    std::map<VkBuffer, VkBufferUsageFlags> usages;

private:
    std::mutex found_mutex_;
    std::unordered_map<std::string, PFN_vkVoidFunction> found_;
};

/// What an object that has a dispatch table is found by.
template <class Handle>
void* key(Handle handle) {
    return *reinterpret_cast<void**>(handle);
}

/// Instances and devices are kept until the process ends: a call may still be under way when one is destroyed.
void keep(VkInstance instance, PFN_vkGetInstanceProcAddr next, const std::vector<Function>& wrapped);
const Instance& instance_of(void* key);

Device& keep(VkDevice device, unsigned number, PFN_vkGetDeviceProcAddr next);
Device& device_of(void* key);

/// Its place in the order in which the loader gave them.
unsigned number_of(VkPhysicalDevice device);

}  // namespace trouble
