// One pretended GPU.
#pragma once
#include <atomic>
#include <memory>
#include <set>
#include <string>

#include "memory.h"
#include "settings.h"

namespace standin {

class Device {
public:
    explicit Device(unsigned index)
        : index(index), capability(of(Settings::get().capability, index)), memory(of(Settings::get().memory_bytes, index)) {}

    /// The error that ended its context; 0 while it works.
    unsigned failure() const { return failure_; }
    void fail(unsigned code) {
        unsigned none = 0;
        failure_.compare_exchange_strong(none, code);
    }
    /// The most dynamic shared memory of a block, as the programming guide's table has it.
    unsigned shared_bytes() const {
        if (capability == 75) return 64 << 10;
        if (capability == 80 || capability == 87) return 163 << 10;
        if (capability / 10 == 8 || capability / 10 == 12) return 99 << 10;
        return 227 << 10;
    }

    const unsigned index;
    const unsigned capability;
    Memory memory;
    std::atomic<int> retained{0};

private:
    std::atomic<unsigned> failure_{0};
};

}  // namespace standin
