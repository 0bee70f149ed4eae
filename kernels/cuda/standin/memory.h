// Device memory: the host's, between pages without access.
//
// Bytes behind an allocation cannot be read or written, nor memory that was given back: such an access ends the
// process, at the kernel that did it. New memory holds a pattern, so that reading it unwritten changes bits.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

namespace standin {

class Memory {
public:
    explicit Memory(std::uint64_t total_bytes) : total_bytes_(total_bytes) {}

    /// 0 when there is not so much.
    std::uint64_t allocate(std::size_t bytes);
    /// False when nothing was allocated there.
    bool free(std::uint64_t address);
    /// Whether the range lies within one allocation.
    bool holds(std::uint64_t address, std::size_t bytes);
    /// Takes memory that has no address: a file of it, or -1 when there is not so much. `disown` gives it back.
    int create(std::size_t bytes);
    void disown(std::size_t bytes);
    /// Counts a range as mapped here, or no more.
    void note_mapped(std::uint64_t address, std::size_t bytes);
    bool forget_mapped(std::uint64_t address);
    /// Another process takes some.
    void take_away(std::uint64_t bytes);

    std::uint64_t free_bytes();
    std::uint64_t total_bytes() const { return total_bytes_; }

private:
    struct Allocation {
        std::size_t bytes;
        std::size_t mapped_bytes;
        void* mapped;
    };
    std::uint64_t used_bytes() const;

    const std::uint64_t total_bytes_;
    std::uint64_t tenant_bytes_ = 0;
    std::map<std::uint64_t, Allocation> allocations_;
    /// Of files of memory, by their addresses.
    std::map<std::uint64_t, std::size_t> mapped_;
    std::uint64_t created_bytes_ = 0;
    std::mutex mutex_;
};

}  // namespace standin
