#include "memory.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "faults.h"
#include "settings.h"

namespace trouble {

namespace {

std::mutex mutex;
auto& used = *new std::map<unsigned, std::uint64_t>;

std::uint64_t left_by_tenants(std::uint64_t total_bytes) { return total_bytes - std::min(total_bytes, tenant_bytes()); }

}  // namespace

bool take(unsigned device, std::uint64_t bytes) {
    const auto total = Settings::get().memory_bytes.of(device);
    std::lock_guard lock(mutex);
    if (total && used[device] + bytes > left_by_tenants(*total)) return false;
    used[device] += bytes;
    return true;
}

void give_back(unsigned device, std::uint64_t bytes) {
    std::lock_guard lock(mutex);
    used[device] -= bytes;
}

Budget budget(unsigned device, std::uint64_t heap_bytes) {
    std::lock_guard lock(mutex);
    return {used[device], left_by_tenants(heap_bytes)};
}

}  // namespace trouble
