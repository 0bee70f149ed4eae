// What is allocated of each device in this process, where the layer says how much there is.
#pragma once
#include <cstdint>

namespace trouble {

/// Takes so many bytes of the device of that number; false when there is not so much.
bool take(unsigned device, std::uint64_t bytes);
void give_back(unsigned device, std::uint64_t bytes);

/// What VK_EXT_memory_budget says of a heap: how much this process has, and how much it may have. Without
/// ASSAY_VULKAN_MEMORY_MIB the heap is as large as the driver below says.
struct Budget {
    std::uint64_t used_bytes, budget_bytes;
};
Budget budget(unsigned device, std::uint64_t heap_bytes);

}  // namespace trouble
