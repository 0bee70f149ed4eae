#include "device.h"

#include <type_traits>
#include <vector>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "layer.h"
#include "log.h"
#include "memory.h"

namespace trouble {

namespace {

/// A function's name, as an argument of a template.
template <std::size_t bytes>
struct Name {
    constexpr Name(const char (&from)[bytes]) { std::copy_n(from, bytes, text); }
    char text[bytes];
};

/// A function that fails where it is told, and else is the driver's.
template <Name name, class Function>
struct Failing;
template <Name name, class Handle, class... Arguments>
struct Failing<name, VkResult(VKAPI_PTR*)(Handle, Arguments...)> {
    using Pointer = VkResult(VKAPI_PTR*)(Handle, Arguments...);
    static VkResult VKAPI_CALL call(Handle handle, Arguments... arguments) {
        Device& device = device_of(key(handle));
        const Effect effect = device.enter(name.text);
        if (effect.kind == Effect::Kind::result) return effect.result;
        return device.below<Pointer>(name.text)(handle, arguments...);
    }
};

/// A function that tells whether a device got on with its work: the same, but a lost device is lost for it.
template <Name name, class Function>
struct Looking;
template <Name name, class Handle, class... Arguments>
struct Looking<name, VkResult(VKAPI_PTR*)(Handle, Arguments...)> {
    using Pointer = VkResult(VKAPI_PTR*)(Handle, Arguments...);
    static VkResult VKAPI_CALL call(Handle handle, Arguments... arguments) {
        Device& device = device_of(key(handle));
        const Effect effect = device.enter(name.text);
        if (effect.kind == Effect::Kind::result) return effect.result;
        return device.lost ? VK_ERROR_DEVICE_LOST : device.below<Pointer>(name.text)(handle, arguments...);
    }
};

/// A function that waits for all the work: the same, and where the device hangs it waits for ever.
template <Name name, class Handle>
VkResult VKAPI_CALL wait_idle(Handle handle) {
    Device& device = device_of(key(handle));
    while (device.hung && !device.lost) pause();
    return Looking<name, VkResult(VKAPI_PTR*)(Handle)>::call(handle);
}

/// A submission whose commands are left out: what waits for it finds it done.
VkResult submit_nothing(Device& device, VkQueue queue, std::uint32_t count, const VkSubmitInfo* infos, VkFence fence) {
    std::vector<VkSubmitInfo> empty(infos, infos + count);
    for (VkSubmitInfo& info : empty) info.commandBufferCount = 0;
    return device.below<PFN_vkQueueSubmit>("vkQueueSubmit")(queue, count, empty.data(), fence);
}

/// A submission. What a device that hangs is given seems to be taken, and is never run.
template <Name name, class Function>
struct Submitting;
template <Name name, class... Arguments>
struct Submitting<name, VkResult(VKAPI_PTR*)(VkQueue, Arguments...)> {
    using Pointer = VkResult(VKAPI_PTR*)(VkQueue, Arguments...);
    static VkResult VKAPI_CALL call(VkQueue queue, Arguments... arguments) {
        Device& device = device_of(key(queue));
        const Effect effect = device.enter(name.text);
        log(name.text, device.number);
        if (effect.kind == Effect::Kind::result) return effect.result;
        if (device.lost) return VK_ERROR_DEVICE_LOST;
        if constexpr (std::is_same_v<Pointer, PFN_vkQueueSubmit>) {
            if (effect.kind == Effect::Kind::skip) return submit_nothing(device, queue, arguments...);
        }
        return device.hung ? VK_SUCCESS : device.below<Pointer>(name.text)(queue, arguments...);
    }
};

VkResult VKAPI_CALL allocate_memory(VkDevice handle, const VkMemoryAllocateInfo* info,
                                    const VkAllocationCallbacks* allocator, VkDeviceMemory* memory) {
    Device& device = device_of(key(handle));
    const Effect effect = device.enter("vkAllocateMemory");
    log("vkAllocateMemory", device.number, {info->allocationSize});
    if (effect.kind == Effect::Kind::result) return effect.result;
    if (!take(device.number, info->allocationSize)) return VK_ERROR_OUT_OF_DEVICE_MEMORY;
    const auto result = device.below<PFN_vkAllocateMemory>("vkAllocateMemory")(handle, info, allocator, memory);
    std::lock_guard lock(device.mutex);
    if (result == VK_SUCCESS) {
        device.allocated[*memory] = info->allocationSize;
    } else {
        give_back(device.number, info->allocationSize);
    }
    return result;
}

void VKAPI_CALL free_memory(VkDevice handle, VkDeviceMemory memory, const VkAllocationCallbacks* allocator) {
    Device& device = device_of(key(handle));
    if (memory) {
        std::lock_guard lock(device.mutex);
        const auto found = device.allocated.extract(memory);
        log("vkFreeMemory", device.number, {found.mapped()});
        give_back(device.number, found.mapped());
    }
    device.below<PFN_vkFreeMemory>("vkFreeMemory")(handle, memory, allocator);
}

VkResult VKAPI_CALL create_buffer(VkDevice handle, const VkBufferCreateInfo* info,
                                  const VkAllocationCallbacks* allocator, VkBuffer* buffer) {
    Device& device = device_of(key(handle));
    const auto result = Failing<"vkCreateBuffer", PFN_vkCreateBuffer>::call(handle, info, allocator, buffer);
    std::lock_guard lock(device.mutex);
    if (result == VK_SUCCESS) device.usages[*buffer] = info->usage;
    return result;
}

void VKAPI_CALL destroy_buffer(VkDevice handle, VkBuffer buffer, const VkAllocationCallbacks* allocator) {
    Device& device = device_of(key(handle));
    {
        std::lock_guard lock(device.mutex);
        device.usages.erase(buffer);
    }
    device.below<PFN_vkDestroyBuffer>("vkDestroyBuffer")(handle, buffer, allocator);
}

VkResult VKAPI_CALL create_pipelines(VkDevice handle, VkPipelineCache cache, std::uint32_t count,
                                     const VkComputePipelineCreateInfo* infos, const VkAllocationCallbacks* allocator,
                                     VkPipeline* pipelines) {
    log("vkCreateComputePipelines", device_of(key(handle)).number);
    return Failing<"vkCreateComputePipelines", PFN_vkCreateComputePipelines>::call(handle, cache, count, infos,
                                                                                   allocator, pipelines);
}

VkResult VKAPI_CALL create_cache(VkDevice handle, const VkPipelineCacheCreateInfo* info,
                                 const VkAllocationCallbacks* allocator, VkPipelineCache* cache) {
    log("vkCreatePipelineCache", device_of(key(handle)).number, {info->initialDataSize});
    return Failing<"vkCreatePipelineCache", PFN_vkCreatePipelineCache>::call(handle, info, allocator, cache);
}

void VKAPI_CALL dispatch(VkCommandBuffer commands, std::uint32_t x, std::uint32_t y, std::uint32_t z) {
    Device& device = device_of(key(commands));
    log("vkCmdDispatch", device.number, {x, y, z});
    if (device.enter("vkCmdDispatch").kind == Effect::Kind::skip) return;
    device.below<PFN_vkCmdDispatch>("vkCmdDispatch")(commands, x, y, z);
}

/// What a copy is for: the host fills a buffer that can only be copied from, and reads one that can only be copied to.
const char* purpose(Device& device, VkBuffer source, VkBuffer target) {
    std::lock_guard lock(device.mutex);
    if (device.usages[target] == VK_BUFFER_USAGE_TRANSFER_DST_BIT) return "readback";
    return device.usages[source] == VK_BUFFER_USAGE_TRANSFER_SRC_BIT ? "upload" : "copy";
}

/// Overwrites the first word of what was copied, after it was copied.
void spoil(Device& device, VkCommandBuffer commands, VkBuffer target, const VkBufferCopy& region) {
    VkMemoryBarrier barrier{VK_STRUCTURE_TYPE_MEMORY_BARRIER, nullptr, VK_ACCESS_TRANSFER_WRITE_BIT,
                            VK_ACCESS_TRANSFER_WRITE_BIT};
    device.below<PFN_vkCmdPipelineBarrier>("vkCmdPipelineBarrier")(
        commands, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_TRANSFER_BIT, 0, 1, &barrier, 0, nullptr, 0, nullptr);
    // An unlikely word: that it was there already would spoil nothing.
    device.below<PFN_vkCmdFillBuffer>("vkCmdFillBuffer")(commands, target, region.dstOffset, 4, 0x5EEDBAD1);
}

void VKAPI_CALL copy_buffer(VkCommandBuffer commands, VkBuffer source, VkBuffer target, std::uint32_t count,
                            const VkBufferCopy* regions) {
    Device& device = device_of(key(commands));
    const char* name = purpose(device, source, target);
    std::uint64_t bytes = 0;
    for (std::uint32_t i = 0; i < count; ++i) bytes += regions[i].size;
    log(name, device.number, {bytes});
    const Effect effect = device.enter(name);
    if (effect.kind == Effect::Kind::skip) return;
    device.below<PFN_vkCmdCopyBuffer>("vkCmdCopyBuffer")(commands, source, target, count, regions);
    if (effect.kind == Effect::Kind::spoil) spoil(device, commands, target, regions[0]);
}

#define FAILING(name) {#name, PFN_vkVoidFunction(Failing<#name, PFN_##name>::call)}
#define LOOKING(name) {#name, PFN_vkVoidFunction(Looking<#name, PFN_##name>::call)}
#define SUBMITTING(name) {#name, PFN_vkVoidFunction(Submitting<#name, PFN_##name>::call)}

const Function functions[] = {
    {"vkGetDeviceProcAddr", PFN_vkVoidFunction(get_device_function)},
    {"vkAllocateMemory", PFN_vkVoidFunction(allocate_memory)},
    {"vkFreeMemory", PFN_vkVoidFunction(free_memory)},
    {"vkCreateBuffer", PFN_vkVoidFunction(create_buffer)},
    {"vkDestroyBuffer", PFN_vkVoidFunction(destroy_buffer)},
    {"vkCreateComputePipelines", PFN_vkVoidFunction(create_pipelines)},
    {"vkCreatePipelineCache", PFN_vkVoidFunction(create_cache)},
    {"vkCmdDispatch", PFN_vkVoidFunction(dispatch)},
    {"vkCmdCopyBuffer", PFN_vkVoidFunction(copy_buffer)},
    {"vkDeviceWaitIdle", PFN_vkVoidFunction(wait_idle<"vkDeviceWaitIdle", VkDevice>)},
    {"vkQueueWaitIdle", PFN_vkVoidFunction(wait_idle<"vkQueueWaitIdle", VkQueue>)},
    SUBMITTING(vkQueueSubmit),
    SUBMITTING(vkQueueSubmit2),
    SUBMITTING(vkQueueSubmit2KHR),
    LOOKING(vkWaitSemaphores),
    LOOKING(vkWaitSemaphoresKHR),
    LOOKING(vkGetSemaphoreCounterValue),
    LOOKING(vkGetSemaphoreCounterValueKHR),
    LOOKING(vkWaitForFences),
    LOOKING(vkGetFenceStatus),
    LOOKING(vkGetQueryPoolResults),
    FAILING(vkMapMemory),
    FAILING(vkFlushMappedMemoryRanges),
    FAILING(vkInvalidateMappedMemoryRanges),
    FAILING(vkBindBufferMemory),
    FAILING(vkCreateShaderModule),
    FAILING(vkGetPipelineCacheData),
    FAILING(vkCreateDescriptorSetLayout),
    FAILING(vkCreatePipelineLayout),
    FAILING(vkCreateDescriptorPool),
    FAILING(vkAllocateDescriptorSets),
    FAILING(vkCreateCommandPool),
    FAILING(vkAllocateCommandBuffers),
    FAILING(vkBeginCommandBuffer),
    FAILING(vkEndCommandBuffer),
    FAILING(vkCreateSemaphore),
    FAILING(vkCreateFence),
    FAILING(vkCreateQueryPool),
};

}  // namespace

PFN_vkVoidFunction device_function(const char* name) {
    for (const auto& function : functions)
        if (std::strcmp(function.name, name) == 0) return function.function;
    return nullptr;
}

}  // namespace trouble
