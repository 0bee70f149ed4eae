// A stand-in for libcuda.so.1: the driver's functions over host memory, threads for streams, and the kernels' own
// source run by the emulation. Faults that tests look for (wrong order, memory read unwritten, a failed call) show here
// as they would on a GPU; speed and the silicon's own behaviour do not.
//
// The signatures are those of cuda.h with its handles as pointers to our objects. Functions that the product does not
// call are left out on purpose: its list of functions is tested against this library.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "device.h"
#include "faults.h"
#include "module.h"
#include "stream.h"
#if __has_include("../emulation/hopper.h")
#include "../emulation/hopper.h"
#define ASSAY_STANDIN_HOPPER
#endif

using namespace standin;

#define API extern "C" __attribute__((visibility("default"))) unsigned

namespace {

enum : unsigned {
    success = 0, invalid_value = 1, out_of_memory = 2, not_initialized = 3, unavailable = 46, no_device = 100,
    invalid_device = 101, invalid_context = 201, invalid_handle = 400, not_found = 500, not_ready = 600,
    illegal_address = 700, launch_failed = 719, not_supported = 801,
};

/// Attributes of cuda.h that are asked for.
enum : int { multiprocessors = 16, integrated = 18, compute_mode = 20, ecc = 32, major_capability = 75,
             minor_capability = 76, shared_bytes_optin = 97, virtual_addresses = 102, file_descriptors = 103 };

std::vector<Device*>& devices() {
    static auto& all = *[] {
        auto* made = new std::vector<Device*>;
        for (unsigned index : Settings::get().visible) made->push_back(new Device(index));
        return made;
    }();
    return all;
}

/// A lower number is a higher priority.
constexpr int least_priority = 0, greatest_priority = -5;

std::atomic<bool> initialized{false};
thread_local Device* current = nullptr;
std::mutex streams_mutex;
std::map<Stream*, Device*>& streams() {
    static auto& all = *new std::map<Stream*, Device*>;
    return all;
}

void log(const std::string& line) {
    static std::mutex mutex;
    if (Settings::get().log.empty()) return;
    std::lock_guard lock(mutex);
    if (FILE* file = std::fopen(Settings::get().log.c_str(), "a")) {
        std::fprintf(file, "%s\n", line.c_str());
        std::fclose(file);
    }
}

/// The result of this call under its planned fault. `done` says that the call ends with the code returned.
unsigned planned(const Effect& effect, Device* device, bool& done) {
    using Kind = Effect::Kind;
    done = effect.kind == Kind::code || effect.kind == Kind::sticky || effect.kind == Kind::skip;
    if (effect.kind == Kind::tenant && device) device->memory.take_away(effect.value);
    if (effect.kind == Kind::sticky && device) device->fail(unsigned(effect.value));
    return effect.kind == Kind::skip ? unsigned(success) : unsigned(effect.value);
}

Device* device_of(int number) {
    return number >= 0 && std::size_t(number) < devices().size() ? devices()[std::size_t(number)] : nullptr;
}

}  // namespace

// What every call of a context starts with: its faults, and the context's own state.
#define IN_CONTEXT(name)                                                                   \
    const Effect effect = fault_at(name, current ? int(current->index) : -1);              \
    {                                                                                      \
        bool done;                                                                         \
        const unsigned code = planned(effect, current, done);                              \
        if (done) return code;                                                             \
        if (!current) return invalid_context;                                              \
        if (current->failure()) return current->failure();                                 \
    }

#define BEFORE_CONTEXT(name, device)                                                       \
    {                                                                                      \
        bool done;                                                                         \
        Device* which = device;                                                            \
        const unsigned code = planned(fault_at(name, which ? int(which->index) : -1), which, done); \
        if (done) return code;                                                             \
    }

API cuDriverGetVersion(int* version) {
    BEFORE_CONTEXT("cuDriverGetVersion", nullptr)
    *version = Settings::get().driver_version;
    return success;
}

API cuInit(unsigned) {
    BEFORE_CONTEXT("cuInit", nullptr)
    if (devices().empty()) return no_device;
    initialized = true;
    return success;
}

API cuGetErrorName(unsigned code, const char** name) {
    static const std::map<unsigned, const char*> names = {
        {0, "CUDA_SUCCESS"}, {1, "CUDA_ERROR_INVALID_VALUE"}, {2, "CUDA_ERROR_OUT_OF_MEMORY"},
        {3, "CUDA_ERROR_NOT_INITIALIZED"}, {34, "CUDA_ERROR_STUB_LIBRARY"}, {46, "CUDA_ERROR_DEVICE_UNAVAILABLE"},
        {100, "CUDA_ERROR_NO_DEVICE"}, {101, "CUDA_ERROR_INVALID_DEVICE"}, {201, "CUDA_ERROR_INVALID_CONTEXT"},
        {209, "CUDA_ERROR_NO_BINARY_FOR_GPU"}, {214, "CUDA_ERROR_ECC_UNCORRECTABLE"}, {218, "CUDA_ERROR_INVALID_PTX"},
        {222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"}, {304, "CUDA_ERROR_OPERATING_SYSTEM"},
        {400, "CUDA_ERROR_INVALID_HANDLE"}, {500, "CUDA_ERROR_NOT_FOUND"}, {600, "CUDA_ERROR_NOT_READY"},
        {700, "CUDA_ERROR_ILLEGAL_ADDRESS"}, {702, "CUDA_ERROR_LAUNCH_TIMEOUT"}, {719, "CUDA_ERROR_LAUNCH_FAILED"},
        {801, "CUDA_ERROR_NOT_SUPPORTED"}, {802, "CUDA_ERROR_SYSTEM_NOT_READY"},
        {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"}, {805, "CUDA_ERROR_MPS_CONNECTION_FAILED"}, {999, "CUDA_ERROR_UNKNOWN"},
    };
    const auto found = names.find(code);
    *name = found == names.end() ? nullptr : found->second;
    return found == names.end() ? invalid_value : success;
}

API cuDeviceGetCount(int* count) {
    BEFORE_CONTEXT("cuDeviceGetCount", nullptr)
    if (!initialized) return not_initialized;
    *count = int(devices().size());
    return success;
}

API cuDeviceGet(int* device, int ordinal) {
    BEFORE_CONTEXT("cuDeviceGet", device_of(ordinal))
    if (!device_of(ordinal)) return invalid_device;
    *device = ordinal;
    return success;
}

API cuDeviceGetName(char* name, int bytes, int number) {
    Device* device = device_of(number);
    BEFORE_CONTEXT("cuDeviceGetName", device)
    if (!device || bytes <= 0) return invalid_device;
    std::snprintf(name, std::size_t(bytes), "%s", of(Settings::get().name, device->index).c_str());
    return success;
}

API cuDeviceGetPCIBusId(char* text, int bytes, int number) {
    Device* device = device_of(number);
    BEFORE_CONTEXT("cuDeviceGetPCIBusId", device)
    if (!device || bytes < 13) return invalid_device;
    std::snprintf(text, std::size_t(bytes), "0000:%02X:00.0", device->index + 1);
    return success;
}

API cuDeviceGetUuid_v2(unsigned char* uuid, int number) {
    Device* device = device_of(number);
    BEFORE_CONTEXT("cuDeviceGetUuid_v2", device)
    if (!device) return invalid_device;
    std::memcpy(uuid, "stand-in driver", 15);
    uuid[15] = static_cast<unsigned char>(device->index);
    return success;
}

API cuDeviceTotalMem_v2(std::size_t* bytes, int number) {
    Device* device = device_of(number);
    BEFORE_CONTEXT("cuDeviceTotalMem_v2", device)
    if (!device) return invalid_device;
    *bytes = device->memory.total_bytes();
    return success;
}

API cuDeviceGetAttribute(int* value, int which, int number) {
    Device* device = device_of(number);
    BEFORE_CONTEXT("cuDeviceGetAttribute", device)
    if (!device) return invalid_device;
    switch (which) {
        case multiprocessors: *value = 2; break;
        case integrated: *value = of(Settings::get().integrated, device->index); break;
        case compute_mode: *value = of(Settings::get().mode, device->index); break;
        case ecc: *value = device->index % 2; break;
        case major_capability: *value = int(device->capability / 10); break;
        case minor_capability: *value = int(device->capability % 10); break;
        case shared_bytes_optin: *value = int(device->shared_bytes()); break;
        case virtual_addresses:
        case file_descriptors: *value = of(Settings::get().peers, device->index) > 0; break;
        default: return invalid_value;
    }
    return success;
}

API cuDevicePrimaryCtxRetain(Device** context, int number) {
    Device* device = device_of(number);
    BEFORE_CONTEXT("cuDevicePrimaryCtxRetain", device)
    if (!device) return invalid_device;
    if (of(Settings::get().mode, device->index) == 2) return unavailable;
    if (device->failure()) return device->failure();
    ++device->retained;
    *context = device;
    return success;
}

API cuDevicePrimaryCtxRelease_v2(int number) {
    Device* device = device_of(number);
    BEFORE_CONTEXT("cuDevicePrimaryCtxRelease_v2", device)
    if (!device || device->retained == 0) return invalid_context;
    --device->retained;
    return success;
}

API cuCtxSetCurrent(Device* context) {
    BEFORE_CONTEXT("cuCtxSetCurrent", context)
    if (context && context->retained == 0) return invalid_context;
    current = context;
    return success;
}

API cuMemGetInfo_v2(std::size_t* free_bytes, std::size_t* total_bytes) {
    IN_CONTEXT("cuMemGetInfo_v2")
    *free_bytes = current->memory.free_bytes();
    *total_bytes = current->memory.total_bytes();
    return success;
}

API cuMemAlloc_v2(std::uint64_t* address, std::size_t bytes) {
    IN_CONTEXT("cuMemAlloc_v2")
    if (bytes == 0) return invalid_value;
    *address = current->memory.allocate(bytes);
    return *address ? success : out_of_memory;
}

API cuMemFree_v2(std::uint64_t address) {
    IN_CONTEXT("cuMemFree_v2")
    // As the driver does: it waits for all that might use the memory.
    std::vector<Stream*> own;
    {
        std::lock_guard lock(streams_mutex);
        for (const auto& [stream, device] : streams())
            if (device == current) own.push_back(stream);
    }
    for (Stream* stream : own) stream->synchronize();
    return current->memory.free(address) ? success : invalid_value;
}

// Memory without an address, which other processes can map: a file of memory, as the driver gives out.
namespace {

constexpr std::size_t granularity = 2 << 20;
constexpr int pinned = 1, location_device = 1, read_write = 3, file_descriptor = 1;

/// As in cuda.h.
struct Location {
    int type, id;
};
struct Properties {
    int type, handle_types;
    Location location;
    void* win32;
    unsigned char flags[8];
};
struct Access {
    Location location;
    int flags;
};

struct Physical {
    int file;
    std::size_t bytes;
    /// Whose memory it is; none for what another process gave.
    Device* owner;
    /// The handle, and each mapping.
    unsigned holders;
};
struct Range {
    std::size_t bytes;
    std::uint64_t handle;   // 0: nothing is mapped
};

std::mutex shared_mutex;
std::uint64_t last_handle = 0;
std::map<std::uint64_t, Physical> physicals;
std::map<std::uint64_t, Range> ranges;

bool is_right(const Properties* properties) {
    return properties && properties->type == pinned && properties->location.type == location_device &&
           properties->handle_types == file_descriptor && device_of(properties->location.id) == current;
}

void let_go(std::uint64_t handle) {
    const auto found = physicals.find(handle);
    if (--found->second.holders > 0) return;
    close(found->second.file);
    if (found->second.owner) found->second.owner->memory.disown(found->second.bytes);
    physicals.erase(found);
}

}  // namespace

API cuMemGetAllocationGranularity(std::size_t* bytes, const Properties* properties, int) {
    IN_CONTEXT("cuMemGetAllocationGranularity")
    if (!is_right(properties)) return invalid_value;
    *bytes = granularity;
    return success;
}

API cuMemCreate(std::uint64_t* handle, std::size_t bytes, const Properties* properties, unsigned long long flags) {
    IN_CONTEXT("cuMemCreate")
    if (of(Settings::get().peers, current->index) == 0) return not_supported;
    if (!is_right(properties) || flags != 0 || bytes == 0 || bytes % granularity != 0) return invalid_value;
    const int file = current->memory.create(bytes);
    if (file < 0) return out_of_memory;
    std::lock_guard lock(shared_mutex);
    *handle = ++last_handle;
    physicals[*handle] = {file, bytes, current, 1};
    return success;
}

API cuMemRelease(std::uint64_t handle) {
    IN_CONTEXT("cuMemRelease")
    std::lock_guard lock(shared_mutex);
    if (!physicals.count(handle)) return invalid_value;
    let_go(handle);
    return success;
}

API cuMemExportToShareableHandle(void* to, std::uint64_t handle, int type, unsigned long long flags) {
    IN_CONTEXT("cuMemExportToShareableHandle")
    std::lock_guard lock(shared_mutex);
    const auto found = physicals.find(handle);
    if (found == physicals.end() || type != file_descriptor || flags != 0) return invalid_value;
    const int file = fcntl(found->second.file, F_DUPFD_CLOEXEC, 0);
    if (file < 0) return invalid_value;
    *static_cast<int*>(to) = file;
    return success;
}

API cuMemImportFromShareableHandle(std::uint64_t* handle, void* from, int type) {
    IN_CONTEXT("cuMemImportFromShareableHandle")
    struct stat found;
    const int file = fcntl(int(reinterpret_cast<std::intptr_t>(from)), F_DUPFD_CLOEXEC, 0);
    if (file < 0 || type != file_descriptor || fstat(file, &found) != 0) return invalid_value;
    std::lock_guard lock(shared_mutex);
    *handle = ++last_handle;
    physicals[*handle] = {file, std::size_t(found.st_size), nullptr, 1};
    return success;
}

API cuMemAddressReserve(std::uint64_t* address, std::size_t bytes, std::size_t, std::uint64_t, unsigned long long flags) {
    IN_CONTEXT("cuMemAddressReserve")
    if (bytes == 0 || bytes % granularity != 0 || flags != 0) return invalid_value;
    void* reserved = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (reserved == MAP_FAILED) return out_of_memory;
    *address = reinterpret_cast<std::uint64_t>(reserved);
    std::lock_guard lock(shared_mutex);
    ranges[*address] = {bytes, 0};
    return success;
}

API cuMemAddressFree(std::uint64_t address, std::size_t bytes) {
    IN_CONTEXT("cuMemAddressFree")
    std::lock_guard lock(shared_mutex);
    const auto found = ranges.find(address);
    if (found == ranges.end() || found->second.bytes != bytes || found->second.handle != 0) return invalid_value;
    // The addresses stay taken, so that nothing else comes to lie where a late reader looks.
    ranges.erase(found);
    return success;
}

API cuMemMap(std::uint64_t address, std::size_t bytes, std::size_t offset, std::uint64_t handle, unsigned long long flags) {
    IN_CONTEXT("cuMemMap")
    std::lock_guard lock(shared_mutex);
    const auto range = ranges.find(address);
    const auto physical = physicals.find(handle);
    if (range == ranges.end() || physical == physicals.end() || range->second.handle != 0) return invalid_value;
    if (range->second.bytes != bytes || physical->second.bytes != bytes || offset != 0 || flags != 0) return invalid_value;
    range->second.handle = handle;
    ++physical->second.holders;
    return success;
}

API cuMemUnmap(std::uint64_t address, std::size_t bytes) {
    IN_CONTEXT("cuMemUnmap")
    std::lock_guard lock(shared_mutex);
    const auto range = ranges.find(address);
    if (range == ranges.end() || range->second.bytes != bytes || range->second.handle == 0) return invalid_value;
    mmap(reinterpret_cast<void*>(address), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    current->memory.forget_mapped(address);
    let_go(range->second.handle);
    range->second.handle = 0;
    return success;
}

API cuMemSetAccess(std::uint64_t address, std::size_t bytes, const Access* access, std::size_t count) {
    IN_CONTEXT("cuMemSetAccess")
    std::lock_guard lock(shared_mutex);
    const auto range = ranges.find(address);
    if (range == ranges.end() || range->second.bytes != bytes || range->second.handle == 0 || count != 1) return invalid_value;
    if (access->flags != read_write || access->location.type != location_device) return invalid_value;
    if (device_of(access->location.id) != current) return invalid_device;
    const Physical& physical = physicals.at(range->second.handle);
    // What another process gave is another GPU's.
    if (!physical.owner && of(Settings::get().peers, current->index) < 2) return invalid_device;
    void* mapped = mmap(reinterpret_cast<void*>(address), bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, physical.file, 0);
    if (mapped == MAP_FAILED) return out_of_memory;
    if (!physical.owner && of(Settings::get().peers, current->index) == 3)
        mmap(mapped, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    current->memory.note_mapped(address, bytes);
    return success;
}

API cuMemHostAlloc(void** base, std::size_t bytes, unsigned) {
    IN_CONTEXT("cuMemHostAlloc")
    *base = std::malloc(bytes);
    return *base ? success : out_of_memory;
}

API cuMemFreeHost(void* base) {
    IN_CONTEXT("cuMemFreeHost")
    std::free(base);
    return success;
}

API cuCtxGetStreamPriorityRange(int* least, int* greatest) {
    IN_CONTEXT("cuCtxGetStreamPriorityRange")
    *least = least_priority;
    *greatest = greatest_priority;
    return success;
}

API cuStreamCreateWithPriority(Stream** stream, unsigned, int priority) {
    IN_CONTEXT("cuStreamCreateWithPriority")
    std::lock_guard lock(streams_mutex);
    // A priority out of range is clamped, as the driver does.
    priority = std::clamp(priority, greatest_priority, least_priority);
    *stream = new Stream(*current, Settings::get().seed * 1000 + streams().size(), priority);
    streams()[*stream] = current;
    return success;
}

API cuStreamDestroy_v2(Stream* stream) {
    IN_CONTEXT("cuStreamDestroy_v2")
    {
        std::lock_guard lock(streams_mutex);
        if (!streams().erase(stream)) return invalid_handle;
    }
    delete stream;
    return success;
}

API cuStreamWaitEvent(Stream* stream, Event* event, unsigned) {
    IN_CONTEXT("cuStreamWaitEvent")
    stream->wait(*event);
    return success;
}

API cuEventCreate(Event** event, unsigned) {
    IN_CONTEXT("cuEventCreate")
    *event = new Event;
    return success;
}

API cuEventDestroy_v2(Event* event) {
    IN_CONTEXT("cuEventDestroy_v2")
    delete event;
    return success;
}

API cuEventRecord(Event* event, Stream* stream) {
    IN_CONTEXT("cuEventRecord")
    log("record priority " + std::to_string(stream->priority));
    stream->record(*event);
    return success;
}

API cuEventQuery(Event* event) {
    IN_CONTEXT("cuEventQuery")
    const auto ticket = event->last();
    if (ticket && !ticket->done.load(std::memory_order_acquire)) return not_ready;
    // A launch that failed before the mark may have done so since this call began.
    return current->failure();
}

API cuEventElapsedTime(float* ms, Event* start, Event* end) {
    IN_CONTEXT("cuEventElapsedTime")
    const auto first = start->last(), last = end->last();
    if (!first || !last) return invalid_handle;
    if (!first->done || !last->done) return not_ready;
    *ms = std::chrono::duration<float, std::milli>(last->at - first->at).count();
    return success;
}

API cuMemsetD8Async(std::uint64_t address, unsigned char value, std::size_t bytes, Stream* stream) {
    IN_CONTEXT("cuMemsetD8Async")
    if (!current->memory.holds(address, bytes)) return invalid_value;
    stream->enqueue([=] { std::memset(reinterpret_cast<void*>(address), value, bytes); });
    return success;
}

API cuMemcpyDtoHAsync_v2(void* to, std::uint64_t address, std::size_t bytes, Stream* stream) {
    IN_CONTEXT("cuMemcpyDtoHAsync_v2")
    if (!current->memory.holds(address, bytes)) return invalid_value;
    if (effect.kind == Effect::Kind::hang) stream->hang();
    stream->enqueue([=] {
        std::memcpy(to, reinterpret_cast<const void*>(address), bytes);
        if (effect.kind == Effect::Kind::flip && bytes > 0) static_cast<unsigned char*>(to)[bytes / 2] ^= 0x10;
    });
    return success;
}

API cuMemcpyHtoDAsync_v2(std::uint64_t address, const void* from, std::size_t bytes, Stream* stream) {
    IN_CONTEXT("cuMemcpyHtoDAsync_v2")
    if (!current->memory.holds(address, bytes)) return invalid_value;
    stream->enqueue([=] { std::memcpy(reinterpret_cast<void*>(address), from, bytes); });
    return success;
}

API cuMemcpyDtoDAsync_v2(std::uint64_t to, std::uint64_t from, std::size_t bytes, Stream* stream) {
    IN_CONTEXT("cuMemcpyDtoDAsync_v2")
    if (!current->memory.holds(to, bytes) || !current->memory.holds(from, bytes)) return invalid_value;
    stream->enqueue([=] { std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes); });
    return success;
}

namespace {

unsigned load_module(Module** module, const void* image) {
    IN_CONTEXT("cuModuleLoadDataEx")
    std::unique_ptr<Module> loaded;
    if (const unsigned code = Module::load(*current, static_cast<const char*>(image), loaded)) return code;
    log("load device " + std::to_string(current->index));
    *module = loaded.release();
    return success;
}

}  // namespace

API cuModuleLoadDataEx(Module** module, const void* image, unsigned count, int* options, void** values) {
    JitLogs logs;
    if (!logs.take(count, options, values)) return invalid_value;
    const unsigned code = load_module(module, image);
    logs.write(code, static_cast<const char*>(image));
    return code;
}

API cuModuleUnload(Module* module) {
    IN_CONTEXT("cuModuleUnload")
    delete module;
    return success;
}

API cuModuleGetFunction(Function** function, Module* module, const char* name) {
    IN_CONTEXT("cuModuleGetFunction")
    *function = module->find(name);
    return *function ? success : not_found;
}

API cuFuncSetAttribute(Function* function, int attribute, int value) {
    IN_CONTEXT("cuFuncSetAttribute")
    constexpr int max_dynamic_shared_bytes = 8, carveout_percent = 9;
    switch (attribute) {
        case max_dynamic_shared_bytes:
            if (value < 0 || unsigned(value) > function->device->shared_bytes()) return invalid_value;
            function->allowed_shared_bytes = unsigned(value);
            return success;
        case carveout_percent:
            if (value < -1 || value > 100) return invalid_value;
            function->carveout_percent = value;
            return success;
        default: return invalid_value;
    }
}

API cuLaunchKernel(Function* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                   unsigned block_y, unsigned block_z, unsigned shared_bytes, Stream* stream, void** arguments, void**) {
    IN_CONTEXT("cuLaunchKernel")
    const auto& kernel = *function->kernel;
    const Effect own = fault_at(kernel.name, int(current->index));
    if (own.kind == Effect::Kind::code) return unsigned(own.value);
    if (own.kind == Effect::Kind::skip) return success;
    if (own.kind == Effect::Kind::tenant) current->memory.take_away(own.value);
    if (&stream->device() != current) return invalid_handle;
    if (grid_x == 0 || block_x != kernel.threads || shared_bytes != kernel.shared_bytes) return invalid_value;
    if (grid_y != 1 || grid_z != 1 || block_y != 1 || block_z != 1) return invalid_value;
    if (shared_bytes > function->allowed_shared_bytes) return invalid_value;
    if (own.kind == Effect::Kind::hang) {
        stream->hang();
        return success;
    }
    // The driver copies the arguments, as many and as large as the PTX says, before it returns.
    struct Copied {
        std::vector<std::vector<std::uint64_t>> words;
        std::vector<void*> pointers;
    };
    auto copied = std::make_shared<Copied>();
    for (std::size_t i = 0; i < function->argument_bytes.size(); ++i) {
        const std::size_t bytes = function->argument_bytes[i];
        // Room to align a tensor map in.
        copied->words.emplace_back((bytes + 7) / 8 + 8);
        auto place = reinterpret_cast<std::uintptr_t>(copied->words.back().data());
        if (bytes >= 64) place = (place + 63) / 64 * 64;
        std::memcpy(reinterpret_cast<void*>(place), arguments[i], bytes);
        copied->pointers.push_back(reinterpret_cast<void*>(place));
    }
    static std::atomic<std::uint64_t> launches{0};
    emulation::Settings settings;
    settings.schedule = {emulation::Order::shuffled, Settings::get().seed * 1'000'003 + launches++};
    settings.units = Settings::get().units;
    log(std::string("launch ") + kernel.name + " device " + std::to_string(current->index) + " priority " +
        std::to_string(stream->priority) + " carveout " + std::to_string(function->carveout_percent) + " blocks " +
        std::to_string(grid_x));
    stream->enqueue([=, device = current] {
        if (own.kind == Effect::Kind::sticky) return device->fail(unsigned(own.value));
        const auto result = kernel.launch({grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes,
                                          copied->pointers.data(), settings);
        if (result) return;
        std::fprintf(stderr, "stand-in driver: %s\n", result.message.c_str());
        device->fail(launch_failed);
    });
    return success;
}

API cuTensorMapEncodeTiled(void* map, int data_type, std::uint32_t rank, void* address, const std::uint64_t* sizes,
                           const std::uint64_t* strides_bytes, const std::uint32_t* box,
                           const std::uint32_t* element_strides, int interleave, int swizzle, int, int) {
    BEFORE_CONTEXT("cuTensorMapEncodeTiled", current)
#ifdef ASSAY_STANDIN_HOPPER
    TensorMap encoded{};
    const emulation::MapRequest request{data_type,       rank,       address, sizes, strides_bytes, box,
                                        element_strides, interleave, swizzle};
    if (!emulation::encode_map(encoded, request)) return invalid_value;
    std::memcpy(map, &encoded, sizeof encoded);
    return success;
#else
    return not_supported;
#endif
}
