#include "memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace standin {

namespace {

constexpr std::size_t guard_bytes = 4096;
constexpr std::uint64_t page_bytes = 2 << 20;   // of the device
constexpr std::size_t alignment = 256;
constexpr int fresh = 0xDB;

std::uint64_t paged(std::uint64_t bytes) { return (bytes + page_bytes - 1) / page_bytes * page_bytes; }

}  // namespace

std::uint64_t Memory::used_bytes() const {
    std::uint64_t used = tenant_bytes_ + created_bytes_;
    for (const auto& [address, allocation] : allocations_) used += paged(allocation.bytes);
    return std::min(used, total_bytes_);
}

std::uint64_t Memory::allocate(std::size_t bytes) {
    std::lock_guard lock(mutex_);
    if (bytes == 0 || paged(bytes) > total_bytes_ - used_bytes()) return 0;
    const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
    const std::size_t inner = (rounded + guard_bytes - 1) / guard_bytes * guard_bytes;
    const std::size_t mapped_bytes = inner + 2 * guard_bytes;
    void* mapped = mmap(nullptr, mapped_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) return 0;
    auto* first = static_cast<std::uint8_t*>(mapped) + guard_bytes;
    if (mprotect(first, inner, PROT_READ | PROT_WRITE) != 0) return 0;
    // Against the guard behind: running over the end is the likelier mistake.
    auto* start = first + inner - rounded;
    std::memset(start, fresh, rounded);
    const auto address = reinterpret_cast<std::uint64_t>(start);
    allocations_[address] = {bytes, mapped_bytes, mapped};
    return address;
}

bool Memory::free(std::uint64_t address) {
    std::lock_guard lock(mutex_);
    const auto found = allocations_.find(address);
    if (found == allocations_.end()) return false;
    // The addresses stay taken, so that nothing else comes to lie where a late reader looks.
    madvise(found->second.mapped, found->second.mapped_bytes, MADV_DONTNEED);
    mprotect(found->second.mapped, found->second.mapped_bytes, PROT_NONE);
    allocations_.erase(found);
    return true;
}

int Memory::create(std::size_t bytes) {
    std::lock_guard lock(mutex_);
    if (bytes == 0 || bytes > total_bytes_ - used_bytes()) return -1;
    const int file = memfd_create("stand-in", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, off_t(bytes)) != 0) return -1;
    void* mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (mapped == MAP_FAILED) return -1;
    std::memset(mapped, fresh, bytes);
    munmap(mapped, bytes);
    created_bytes_ += bytes;
    return file;
}

void Memory::disown(std::size_t bytes) {
    std::lock_guard lock(mutex_);
    created_bytes_ -= bytes;
}

void Memory::note_mapped(std::uint64_t address, std::size_t bytes) {
    std::lock_guard lock(mutex_);
    mapped_[address] = bytes;
}

bool Memory::forget_mapped(std::uint64_t address) {
    std::lock_guard lock(mutex_);
    return mapped_.erase(address) == 1;
}

bool Memory::holds(std::uint64_t address, std::size_t bytes) {
    std::lock_guard lock(mutex_);
    if (const auto behind = mapped_.upper_bound(address); behind != mapped_.begin()) {
        const auto& [start, size] = *std::prev(behind);
        if (address - start <= size && bytes <= size - (address - start)) return true;
    }
    auto after = allocations_.upper_bound(address);
    if (after == allocations_.begin()) return false;
    const auto& [start, allocation] = *std::prev(after);
    return address - start <= allocation.bytes && bytes <= allocation.bytes - (address - start);
}

void Memory::take_away(std::uint64_t bytes) {
    std::lock_guard lock(mutex_);
    tenant_bytes_ = std::min(tenant_bytes_ + bytes, total_bytes_);
}

std::uint64_t Memory::free_bytes() {
    std::lock_guard lock(mutex_);
    return total_bytes_ - used_bytes();
}

}  // namespace standin
