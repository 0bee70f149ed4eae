// Lines in ASSAY_VULKAN_LOG: FUNCTION@DEVICE and what the call was about, for calls that a test may want to count. Several
// processes may write to one file: a line goes there whole.
//
//   vkCreateDevice@0                    vkQueueSubmit@0
//   vkAllocateMemory@0 BYTES            vkCmdDispatch@0 X Y Z
//   vkFreeMemory@0 BYTES                upload@0 BYTES, readback@0 BYTES, copy@0 BYTES
//   vkCreateComputePipelines@0          vkCreatePipelineCache@0 BYTES that it starts with
#pragma once
#include <cstdint>
#include <initializer_list>

namespace trouble {

void log(const char* function, unsigned device, std::initializer_list<std::uint64_t> figures = {});

}  // namespace trouble
