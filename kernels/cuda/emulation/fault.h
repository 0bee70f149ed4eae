// The faults that can end an emulated launch, and their report. A fault ends the launch, never the process.
#pragma once
#include <string>

namespace emulation {

enum class Code {
    ok,
    invalid_launch,     // a grid, block or amount of shared memory that the kernel was not written for
    shared_range,       // a shared-memory address outside the block's
    misaligned,         // an address that the instruction cannot take
    race,               // two threads at the same shared word without a barrier between them
    divergent,          // lanes of a warp, or threads of a block, at different collectives
    deadlock,           // no thread can go on
    budget,             // the watchdog: more turns than any kernel here needs
    stack,              // a thread overran its fiber's stack
    unsupported,        // something that the emulation does not know
    barrier,            // a memory barrier of Hopper used against its counts
    tensor_memory,      // tensor memory of Blackwell that is not the warp's, or not given back
};

/// How a launch ended. `message` names the kernel, block and thread, and is empty when it went well.
struct LaunchResult {
    Code code = Code::ok;
    std::string message;
    explicit operator bool() const { return code == Code::ok; }
};

inline const char* name_of(Code code) {
    switch (code) {
        case Code::ok: return "ok";
        case Code::invalid_launch: return "invalid launch";
        case Code::shared_range: return "shared memory out of range";
        case Code::misaligned: return "misaligned address";
        case Code::race: return "race on shared memory";
        case Code::divergent: return "divergence";
        case Code::deadlock: return "deadlock";
        case Code::budget: return "watchdog";
        case Code::stack: return "stack overrun";
        case Code::unsupported: return "unsupported";
        case Code::barrier: return "memory barrier";
        case Code::tensor_memory: return "tensor memory";
    }
    return "?";
}

}  // namespace emulation
