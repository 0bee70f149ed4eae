#include "physical.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "memory.h"
#include "settings.h"

namespace trouble {

namespace {

constexpr const char* budget_name = VK_EXT_MEMORY_BUDGET_EXTENSION_NAME;
constexpr const char* pci_name = VK_EXT_PCI_BUS_INFO_EXTENSION_NAME;

const Instance& below(VkPhysicalDevice device) { return instance_of(key(device)); }

/// Calls `change` with each of the structures that extend another one.
template <class Change>
void each_extending(void* next, Change change) {
    for (auto* at = static_cast<VkBaseOutStructure*>(next); at; at = at->pNext) change(at);
}

template <class Field, class Value>
void set(Field& field, const std::optional<Value>& value) {
    if (value) field = Field(*value);
}

/// Limits only ever become lower: what the driver cannot do must not be promised.
template <class Field>
void lower(Field& field, const std::optional<std::uint64_t>& limit) {
    if (limit) field = Field(std::min(std::uint64_t(field), *limit));
}

void change(VkPhysicalDeviceProperties& properties, unsigned number) {
    const auto& settings = Settings::get();
    set(properties.deviceType, settings.type.of(number));
    set(properties.vendorID, settings.vendor.of(number));
    set(properties.deviceID, settings.device.of(number));
    if (const auto name = settings.name.of(number)) {
        std::strncpy(properties.deviceName, name->c_str(), sizeof properties.deviceName - 1);
        properties.deviceName[sizeof properties.deviceName - 1] = 0;
    }
    auto& limits = properties.limits;
    lower(limits.maxStorageBufferRange, settings.max_binding_bytes.of(number));
    lower(limits.maxPerStageDescriptorStorageBuffers, settings.max_storage_buffers.of(number));
    lower(limits.maxComputeSharedMemorySize, settings.max_shared_bytes.of(number));
    lower(limits.maxComputeWorkGroupInvocations, settings.max_invocations.of(number));
    for (auto& size : limits.maxComputeWorkGroupSize) lower(size, settings.max_invocations.of(number));
}

void change_uuid(std::uint8_t (&field)[VK_UUID_SIZE], unsigned number) {
    if (const auto uuid = Settings::get().uuid.of(number)) std::copy(uuid->begin(), uuid->end(), field);
}

void change_conformance(VkConformanceVersion& field, unsigned number) {
    if (Settings::get().conformance.of(number)) field = {};
}

void change_extending(VkBaseOutStructure* at, unsigned number) {
    const auto& settings = Settings::get();
    switch (at->sType) {
        case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PCI_BUS_INFO_PROPERTIES_EXT: {
            auto& info = *reinterpret_cast<VkPhysicalDevicePCIBusInfoPropertiesEXT*>(at);
            const auto text = settings.pci.of(number);
            const auto address = text ? pci_address(*text) : std::nullopt;
            if (!address) break;
            info.pciDomain = address->domain;
            info.pciBus = address->bus;
            info.pciDevice = address->device;
            info.pciFunction = address->function;
            break;
        }
        case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES:
            change_uuid(reinterpret_cast<VkPhysicalDeviceIDProperties*>(at)->deviceUUID, number);
            break;
        case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES:
            change_conformance(reinterpret_cast<VkPhysicalDeviceDriverProperties*>(at)->conformanceVersion, number);
            break;
        case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_PROPERTIES:
            change_conformance(reinterpret_cast<VkPhysicalDeviceVulkan12Properties*>(at)->conformanceVersion, number);
            break;
        case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES: {
            auto& properties = *reinterpret_cast<VkPhysicalDeviceVulkan11Properties*>(at);
            change_uuid(properties.deviceUUID, number);
            lower(properties.maxMemoryAllocationSize, settings.max_buffer_bytes.of(number));
            break;
        }
        case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES:
            lower(reinterpret_cast<VkPhysicalDeviceMaintenance3Properties*>(at)->maxMemoryAllocationSize,
                  settings.max_buffer_bytes.of(number));
            break;
        case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_PROPERTIES:
            lower(reinterpret_cast<VkPhysicalDeviceVulkan13Properties*>(at)->maxBufferSize,
                  settings.max_buffer_bytes.of(number));
            break;
        case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_PROPERTIES:
            lower(reinterpret_cast<VkPhysicalDeviceMaintenance4Properties*>(at)->maxBufferSize,
                  settings.max_buffer_bytes.of(number));
            break;
        default:
            break;
    }
}

void VKAPI_CALL properties(VkPhysicalDevice device, VkPhysicalDeviceProperties* out) {
    below(device).below<PFN_vkGetPhysicalDeviceProperties>("vkGetPhysicalDeviceProperties")(device, out);
    change(*out, number_of(device));
}

void VKAPI_CALL properties2(VkPhysicalDevice device, VkPhysicalDeviceProperties2* out) {
    below(device).below<PFN_vkGetPhysicalDeviceProperties2>("vkGetPhysicalDeviceProperties2")(device, out);
    const unsigned number = number_of(device);
    change(out->properties, number);
    each_extending(out->pNext, [&](VkBaseOutStructure* at) { change_extending(at, number); });
}

void change(VkPhysicalDeviceMemoryProperties& memory, unsigned number) {
    for (std::uint32_t heap = 0; heap < memory.memoryHeapCount; ++heap)
        set(memory.memoryHeaps[heap].size, Settings::get().memory_bytes.of(number));
}

void VKAPI_CALL memory_properties(VkPhysicalDevice device, VkPhysicalDeviceMemoryProperties* out) {
    fault_at("vkGetPhysicalDeviceMemoryProperties", int(number_of(device)));
    below(device).below<PFN_vkGetPhysicalDeviceMemoryProperties>("vkGetPhysicalDeviceMemoryProperties")(device, out);
    change(*out, number_of(device));
}

void VKAPI_CALL memory_properties2(VkPhysicalDevice device, VkPhysicalDeviceMemoryProperties2* out) {
    const unsigned number = number_of(device);
    fault_at("vkGetPhysicalDeviceMemoryProperties2", int(number));
    below(device).below<PFN_vkGetPhysicalDeviceMemoryProperties2>("vkGetPhysicalDeviceMemoryProperties2")(device, out);
    change(out->memoryProperties, number);
    if (!Settings::get().memory_bytes.of(number)) return;
    each_extending(out->pNext, [&](VkBaseOutStructure* at) {
        if (at->sType != VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT) return;
        auto& said = *reinterpret_cast<VkPhysicalDeviceMemoryBudgetPropertiesEXT*>(at);
        for (std::uint32_t heap = 0; heap < VK_MAX_MEMORY_HEAPS; ++heap) {
            const bool there = heap < out->memoryProperties.memoryHeapCount;
            const Budget now = there ? budget(number, out->memoryProperties.memoryHeaps[heap].size) : Budget{};
            said.heapUsage[heap] = now.used_bytes;
            said.heapBudget[heap] = now.budget_bytes;
        }
    });
}

/// What the driver says, without what the settings hide and with what they add.
std::vector<VkExtensionProperties> extensions(VkPhysicalDevice device, VkResult& result) {
    const auto ask =
        below(device).below<PFN_vkEnumerateDeviceExtensionProperties>("vkEnumerateDeviceExtensionProperties");
    std::uint32_t count = 0;
    std::vector<VkExtensionProperties> all;
    result = ask(device, nullptr, &count, nullptr);
    all.resize(count);
    if (result == VK_SUCCESS) result = ask(device, nullptr, &count, all.data());
    all.resize(count);
    return all;
}

void show(std::vector<VkExtensionProperties>& all, const char* name, std::uint32_t version, bool shown) {
    std::erase_if(all, [&](const VkExtensionProperties& it) { return std::strcmp(it.extensionName, name) == 0; });
    if (!shown) return;
    VkExtensionProperties added{{}, version};
    std::strcpy(added.extensionName, name);
    all.push_back(added);
}

VkResult VKAPI_CALL enumerate_extensions(VkPhysicalDevice device, const char* layer, std::uint32_t* count,
                                         VkExtensionProperties* out) {
    if (layer && *layer)
        return below(device).below<PFN_vkEnumerateDeviceExtensionProperties>("vkEnumerateDeviceExtensionProperties")(
            device, layer, count, out);
    VkResult result;
    auto all = extensions(device, result);
    if (result != VK_SUCCESS) return result;
    const unsigned number = number_of(device);
    const auto& settings = Settings::get();
    if (const auto pci = settings.pci.of(number)) show(all, pci_name, VK_EXT_PCI_BUS_INFO_SPEC_VERSION, *pci != "none");
    const bool hidden = settings.budget.of(number).has_value();
    if (hidden || settings.memory_bytes.of(number)) show(all, budget_name, VK_EXT_MEMORY_BUDGET_SPEC_VERSION, !hidden);
    if (!out) {
        *count = std::uint32_t(all.size());
        return VK_SUCCESS;
    }
    const bool all_fit = *count >= all.size();
    *count = std::min(*count, std::uint32_t(all.size()));
    std::copy_n(all.begin(), *count, out);
    return all_fit ? VK_SUCCESS : VK_INCOMPLETE;
}

}  // namespace

std::vector<Function> physical_functions() {
    return {
        {"vkGetPhysicalDeviceProperties", PFN_vkVoidFunction(properties)},
        {"vkGetPhysicalDeviceProperties2", PFN_vkVoidFunction(properties2)},
        {"vkGetPhysicalDeviceProperties2KHR", PFN_vkVoidFunction(properties2)},
        {"vkGetPhysicalDeviceMemoryProperties", PFN_vkVoidFunction(memory_properties)},
        {"vkGetPhysicalDeviceMemoryProperties2", PFN_vkVoidFunction(memory_properties2)},
        {"vkGetPhysicalDeviceMemoryProperties2KHR", PFN_vkVoidFunction(memory_properties2)},
        {"vkEnumerateDeviceExtensionProperties", PFN_vkVoidFunction(enumerate_extensions)},
    };
}

bool driver_has(VkPhysicalDevice device, const char* extension) {
    if (std::strcmp(extension, budget_name) != 0 && std::strcmp(extension, pci_name) != 0) return true;
    VkResult result;
    const auto all = extensions(device, result);
    return std::any_of(all.begin(), all.end(),
                       [&](const auto& it) { return std::strcmp(it.extensionName, extension) == 0; });
}

}  // namespace trouble
