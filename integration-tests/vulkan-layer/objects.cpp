#include "objects.h"

#include "settings.h"

namespace trouble {

namespace {

std::mutex mutex;
auto& instances = *new std::unordered_map<void*, const Instance*>;
auto& physical = *new std::map<void*, std::vector<VkPhysicalDevice>>;
auto& devices = *new std::unordered_map<void*, Device*>;

}  // namespace

Instance::Instance(VkInstance handle, PFN_vkGetInstanceProcAddr next, const std::vector<Function>& wrapped)
    : handle(handle), next(next) {
    for (const auto& function : wrapped) below_[function.name] = next(handle, function.name);
}

PFN_vkVoidFunction Device::find(const char* name) {
    std::lock_guard lock(found_mutex_);
    const auto [entry, is_new] = found_.try_emplace(name);
    if (is_new) entry->second = next(handle, name);
    return entry->second;
}

Effect Device::enter(const char* name) {
    const Effect effect = fault_at(name, int(number));
    if (effect.kind == Effect::Kind::hang) hung = true;
    if (effect.kind == Effect::Kind::result && effect.result == VK_ERROR_DEVICE_LOST && !lost.exchange(true)) {
        // What it was at is done or will never be: nothing of it goes on while the program tidies up.
        below<PFN_vkDeviceWaitIdle>("vkDeviceWaitIdle")(handle);
    }
    return effect;
}

void keep(VkInstance handle, PFN_vkGetInstanceProcAddr next, const std::vector<Function>& wrapped) {
    const auto* instance = new Instance(handle, next, wrapped);
    std::lock_guard lock(mutex);
    // A key that comes again is a new instance's.
    instances[key(handle)] = instance;
    physical.erase(key(handle));
}

const Instance& instance_of(void* key) {
    std::lock_guard lock(mutex);
    const auto found = instances.find(key);
    if (found == instances.end()) refuse("a call for an instance that was not made through it");
    return *found->second;
}

Device& keep(VkDevice handle, unsigned number, PFN_vkGetDeviceProcAddr next) {
    std::lock_guard lock(mutex);
    return *(devices[key(handle)] = new Device(handle, number, next));
}

Device& device_of(void* key) {
    std::lock_guard lock(mutex);
    const auto found = devices.find(key);
    if (found == devices.end()) refuse("a call for a device that was not made through it");
    return *found->second;
}

unsigned number_of(VkPhysicalDevice device) {
    std::lock_guard lock(mutex);
    auto& known = physical[key(device)];
    for (unsigned number = 0; number < known.size(); ++number)
        if (known[number] == device) return number;
    known.push_back(device);
    return unsigned(known.size() - 1);
}

}  // namespace trouble
