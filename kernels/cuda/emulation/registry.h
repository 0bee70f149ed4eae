// The kernels by name, and their launch as the driver does it: from a grid, a block, an amount of dynamic
// shared memory and an array of pointers to the arguments.
#pragma once
#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "block.h"

namespace emulation {

struct Settings {
    Schedule schedule;
    unsigned os_threads = 0;  // 0: as many as the machine has
    /// Turns of a warp that one block may take. The longest row of the largest matrix needs a tenth of it.
    std::uint64_t turns_limit = std::uint64_t{1} << 26;
    /// Matrix units other than those that the instructions' first architectures have.
    Units units;
};

/// The registration of a kernel by its file.
struct Kernel {
    const char* name;
    unsigned threads;         // of a block
    unsigned shared_bytes;    // dynamic
    unsigned tile_rows;       // of a product; else 0
    unsigned tile_columns;
    void (*body)(void* const* arguments);

    /// Runs the whole grid before it returns. Refuses a block or shared memory other than the kernel's.
    LaunchResult launch(Index grid, Index block, unsigned shared_bytes, void* const* arguments,
                        const Settings& settings = {}) const;
};

/// Null when there is no kernel of that name.
const Kernel* find(const char* name);
const std::vector<Kernel>& kernels();

struct Registration {
    explicit Registration(const Kernel& kernel);
};

template <class... Arguments, std::size_t... I>
void call(void (*function)(Arguments...), void* const* arguments, std::index_sequence<I...>) {
    function(*static_cast<const std::remove_cv_t<Arguments>*>(arguments[I])...);
}

template <class... Arguments>
void call(void (*function)(Arguments...), void* const* arguments) {
    call(function, arguments, std::index_sequence_for<Arguments...>{});
}

template <auto function>
void body_of(void* const* arguments) {
    call(function, arguments);
}

}  // namespace emulation

// At the end of a kernel's file; on a GPU they say nothing.
#define ASSAY_KERNEL(kernel, threads, shared_bytes)                    \
    static const ::emulation::Registration kernel##_registration(      \
        {#kernel, threads, shared_bytes, 0, 0, &::emulation::body_of<&kernel>})
#define ASSAY_PRODUCT(kernel, threads, shared_bytes, tile_rows, tile_columns) \
    static const ::emulation::Registration kernel##_registration(             \
        {#kernel, threads, shared_bytes, tile_rows, tile_columns, &::emulation::body_of<&kernel>})
