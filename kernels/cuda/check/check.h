// Shared by the cases of the check program: random bytes, guarded buffers, launches, comparison. A file
// of cases (the other files here) registers its groups; main.cpp runs them in every schedule.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "reference.h"
#include "../emulation/registry.h"

namespace check {

/// Why a case failed: a launch that ended in a fault, or bits that differ.
struct Failure {
    std::string message;
};

/// Device memory of a case: aligned as the driver aligns it, with guards on both sides that must stay.
class Buffer {
public:
    explicit Buffer(std::size_t bytes);
    Buffer(Buffer&&) = default;

    std::uint8_t* data() const { return memory_.get() + guard_bytes; }
    std::size_t size() const { return bytes_; }
    std::uint32_t* words() const { return reinterpret_cast<std::uint32_t*>(data()); }
    /// Fails when anything wrote beside the buffer.
    void expect_guards(const char* name) const;

private:
    static constexpr std::size_t guard_bytes = 4096;
    struct Free {
        void operator()(std::uint8_t* p) const { std::free(p); }
    };
    std::size_t bytes_;
    std::unique_ptr<std::uint8_t, Free> memory_;
};

/// One run of a group: its kernel, its schedule, its randomness.
class Case {
public:
    Case(const emulation::Kernel& kernel, const emulation::Settings& settings, std::uint64_t seed)
        : kernel_(kernel), settings_(settings), random_(seed) {}

    const emulation::Kernel& kernel() const { return kernel_; }
    emulation::Draw& random() { return random_; }
    emulation::Settings& settings() { return settings_; }
    unsigned launches() const { return launches_; }
    /// Names the current case, for the message of a failure.
    void at(std::string what) { what_ = std::move(what); }

    void fill(const Buffer& buffer);
    reference::Words8 random_words();

    /// Launches with the kernel's own block and shared memory.
    template <class... Arguments>
    void launch(unsigned grid, Arguments... arguments) {
        void* pointers[] = {&arguments...};
        run(grid, pointers);
    }
    /// A launch that must end in a fault of this kind.
    template <class... Arguments>
    void launch_to_fail(emulation::Code code, unsigned grid, Arguments... arguments) {
        void* pointers[] = {&arguments...};
        run_to_fail(code, grid, pointers);
    }
    void expect(bool holds, const char* what) const;
    void expect_same(const std::uint8_t* got, const std::uint8_t* expected, std::size_t bytes, const char* what) const;

private:
    emulation::LaunchResult run_kernel(unsigned grid, void** arguments);
    void run(unsigned grid, void** arguments);
    void run_to_fail(emulation::Code code, unsigned grid, void** arguments);

    const emulation::Kernel& kernel_;
    emulation::Settings settings_;
    emulation::Draw random_;
    unsigned launches_ = 0;
    std::string what_;
};

/// Cases that belong together: one line of the program's output for each schedule.
struct Group {
    const char* kernel;
    const char* title;
    std::function<void(Case&)> run;
};

const std::vector<Group>& groups();
struct Registration {
    explicit Registration(Group group);
};

}  // namespace check
