// Faults at chosen calls. ASSAY_VULKAN_FAULT holds entries FUNCTION:CALL:EFFECT with semicolons between. FUNCTION is one
// that the layer wraps (instance.cpp, device.cpp), with @DEVICE behind it for one device's calls alone, or one of two
// names for the uses of vkCmdCopyBuffer: `upload`, a copy out of a buffer that the host fills, and `readback`, one into a
// buffer that the host reads. CALL counts from 1, and a + behind it means that call and all later ones.
//
//   EFFECT      what happens
//   VK_ERROR_…  the call fails so. A device that was lost stays lost: waits and submissions fail, nothing is run
//   hang        of a submission: it and what comes after it never ends; waits time out
//   block       the call never returns
//   skip        of a command: it is left out; of vkQueueSubmit: all of its commands, and it counts as done
//   spoil       of `upload` and `readback`: one word of what was copied is another
//   tenantMIB   another process has so many MiB from then on
//   exit        the process is killed
#pragma once
#include <vulkan/vulkan.h>

#include <cstdint>
#include <string>

namespace trouble {

struct Effect {
    enum class Kind { none, result, hang, block, skip, spoil, tenant, exit };
    Kind kind = Kind::none;
    VkResult result = VK_SUCCESS;
    std::uint64_t bytes = 0;
};

/// Refuses a fault of a function that is not wrapped.
void check_faults(bool (*is_wrapped)(const std::string&));

/// What happens at this call of `name` for the device of that number (-1: no device). Counts it; does not return where
/// the process is to end or the call to block.
Effect fault_at(const std::string& name, int device);

/// What other processes have now, of every device.
std::uint64_t tenant_bytes();

}  // namespace trouble
