// What the layer pretends, and the trouble it makes: read once, from the environment. Lists have a value for each
// physical device with commas between, in the order in which the loader gives them; the last value serves the rest. What
// is not set, or empty for a device, stays as the driver below has it.
//
//   ASSAY_VULKAN_NAME                 the device's name
//   ASSAY_VULKAN_TYPE                 discrete, integrated, virtual, cpu or other
//   ASSAY_VULKAN_VENDOR               vendor's id, in hex: 0x1002
//   ASSAY_VULKAN_DEVICE               device's id, likewise
//   ASSAY_VULKAN_PCI                  PCI address, 0000:03:00.0: VK_EXT_pci_bus_info is there then; "none": it is not
//   ASSAY_VULKAN_UUID                 deviceUUID, 32 hex digits
//   ASSAY_VULKAN_CONFORMANCE          "none": the driver does not call itself conformant
//   ASSAY_VULKAN_MAX_BINDING          maxStorageBufferRange, in bytes
//   ASSAY_VULKAN_MAX_BUFFER           maxBufferSize and maxMemoryAllocationSize, in bytes
//   ASSAY_VULKAN_MAX_STORAGE_BUFFERS  maxPerStageDescriptorStorageBuffers
//   ASSAY_VULKAN_MAX_SHARED           maxComputeSharedMemorySize, in bytes
//   ASSAY_VULKAN_MAX_INVOCATIONS      maxComputeWorkGroupInvocations, and the most in each dimension
//   ASSAY_VULKAN_MEMORY_MIB           size of each memory heap, of which no more can be allocated in this process, and
//                                     VK_EXT_memory_budget says how much is left
//   ASSAY_VULKAN_BUDGET               "none": VK_EXT_memory_budget is not there
//   ASSAY_VULKAN_TENANT               a file with the MiB that another process takes now, of every device; looked into
//                                     whenever memory is asked for; nothing while there is no such file
//   ASSAY_VULKAN_FAULT                faults, semicolons between (faults.h)
//   ASSAY_VULKAN_ONCE                 a file that the first fault makes; while it is there, no fault happens, in any
//                                     process
//   ASSAY_VULKAN_WHEN                 a file: only calls made while it is there count for faults
//   ASSAY_VULKAN_LOG                  a file that gets a line for each call that is watched (log.h)
#pragma once
#include <vulkan/vulkan.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trouble {

struct PciAddress {
    std::uint32_t domain, bus, device, function;
};

/// The values of a list, and which of them a device has.
template <class T>
class PerDevice {
public:
    PerDevice() = default;
    explicit PerDevice(std::vector<std::optional<T>> values) : values_(std::move(values)) {}
    std::optional<T> of(unsigned device) const {
        if (values_.empty()) return {};
        return values_[device < values_.size() ? device : values_.size() - 1];
    }

private:
    std::vector<std::optional<T>> values_;
};

struct Settings {
    PerDevice<std::string> name;
    PerDevice<VkPhysicalDeviceType> type;
    PerDevice<std::uint32_t> vendor, device;
    PerDevice<std::string> pci;
    PerDevice<std::array<std::uint8_t, VK_UUID_SIZE>> uuid;
    PerDevice<std::uint64_t> max_binding_bytes, max_buffer_bytes, max_storage_buffers, max_shared_bytes, max_invocations;
    PerDevice<std::uint64_t> memory_bytes;
    PerDevice<std::string> budget, conformance;
    std::string tenant;
    std::string faults;
    std::string once;
    std::string when;
    std::string log;

    static const Settings& get();
};

/// The address in a setting; nothing for "none".
std::optional<PciAddress> pci_address(const std::string& text);

/// Ends the process with a sentence: a setting that is not understood would be a test that tests nothing.
[[noreturn]] void refuse(const std::string& why);

}  // namespace trouble
