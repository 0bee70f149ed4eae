// The emulation's own check: small kernels that break the rules of the others, each of which has to end its
// launch, and nothing but its launch, with the fault that belongs to it.
#include "../device.cuh"
#include "check.h"

namespace {

constexpr unsigned threads = 64;
constexpr unsigned shared_bytes = 1024;

enum Wrong : std::uint32_t {
    nothing,
    shared_too_far,
    shared_null,
    shared_misaligned,
    global_misaligned,
    unwritten_barrier,   // read of another warp's word without __syncthreads
    overwritten,         // write over a word that another warp still reads
    neighbour,           // read of another lane's word without __syncwarp
    read_under_copy,     // read before cp.async was waited for
    barrier_of_some,     // __syncthreads that half the block never reaches
    lanes_apart,         // a warp collective that half the warp never reaches
    two_collectives,     // lanes of one warp at different collectives
    partial_mask,
    never,               // a condition that no thread makes true
    spinning,            // a loop that ends only if somebody else goes on
    deep,                // more stack than a fiber has
};

constexpr std::size_t deep_bytes = 66 * 1024;

/// Overruns into the stack of the thread before.
__attribute__((noinline)) void use_stack() {
    volatile std::uint8_t frame[deep_bytes];
    for (std::size_t i = 0; i < sizeof frame; ++i) frame[i] = 1;
}

/// What `unfenced` says when a store passed no fence before the other block looked.
constexpr std::uint32_t unseen = 7;

}  // namespace

extern "C" __global__ void check_faults(std::uint32_t wrong, const std::uint8_t* global, std::uint32_t* out) {
    ASSAY_DYNAMIC_SHARED(bytes);
    auto* words = reinterpret_cast<std::uint32_t*>(bytes);
    const unsigned t = threadIdx.x;
    std::uint32_t result[4] = {};
    switch (wrong) {
        case nothing:
            ptx::store_shared(words + t, t);
            __syncthreads();
            out[t] = ptx::load_shared(words + (t ^ 63));
            break;
        case shared_too_far: ptx::load_matrices(result, ptx::shared_address(bytes) + shared_bytes); break;
        case shared_null: ptx::load_matrices(result, 0); break;
        case shared_misaligned: ptx::load_matrices(result, ptx::shared_address(bytes) + 8); break;
        case global_misaligned: ptx::load_global_16(global + 4); break;
        case unwritten_barrier:
            ptx::store_shared(words + t, t);
            out[t] = ptx::load_shared(words + (t ^ 63));
            break;
        case overwritten:
            if (t < 32) ptx::store_shared(words + t, t);
            __syncthreads();
            out[t] = ptx::load_shared(words + t % 32);
            if (t >= 32) ptx::store_shared(words + t % 32, t);
            break;
        case neighbour:
            ptx::store_shared(words + t, t);
            out[t] = ptx::load_shared(words + (t ^ 1));
            break;
        case read_under_copy:
            ptx::copy_async_16(ptx::shared_address(bytes) + 16 * t, global + 16 * t);
            ptx::copy_commit();
            ptx::copy_wait<1>();
            out[t] = ptx::load_shared(words + 4 * t);
            break;
        case barrier_of_some:
            if (t < 32) __syncthreads();
            break;
        case lanes_apart:
            if (t % 32 < 16) __syncwarp();
            break;
        case two_collectives:
            if (t % 32 < 16) __syncwarp();
            else out[t] = __shfl_xor_sync(0xFFFFFFFF, t, 1);
            break;
        case partial_mask: __syncwarp(0xFFFF); break;
        case never: emulation::block().wait_until([](const void*) { return false; }, nullptr); break;
        case spinning:
            while (atomicAdd(out, 0) == 0) {}
            break;
        case deep:
            if (blockIdx.x != 0) break;
            if (t + 1 < threads) {
                atomicAdd(out, 1);
            } else {
                // Only once the stack that is spoilt is not needed.
                emulation::block().wait_until(
                    [](const void* done) { return *static_cast<const std::uint32_t*>(done) == threads - 1; }, out);
                use_stack();
            }
            break;
    }
}

ASSAY_KERNEL(check_faults, threads, shared_bytes);

/// Block 0 stores, counts itself in, and the block that comes second reports the value that it sees.
extern "C" __global__ void check_fence(std::uint32_t fenced, std::uint32_t* value, std::uint32_t* arrivals, std::uint32_t* seen) {
    if (threadIdx.x != 0) return;
    if (blockIdx.x == 0) ptx::publish(value, unseen + 1);
    if (fenced) __threadfence();
    if (atomicAdd(arrivals, 1u) == 1) *seen = ptx::load_published(value);
}

ASSAY_KERNEL(check_fence, 32, 0);

namespace {

void faults(check::Case& c) {
    using emulation::Code;
    const std::pair<Wrong, Code> expected[] = {
        {shared_too_far, Code::shared_range},  {shared_null, Code::shared_range},    {shared_misaligned, Code::misaligned},
        {global_misaligned, Code::misaligned}, {unwritten_barrier, Code::race},      {overwritten, Code::race},
        {neighbour, Code::race},               {read_under_copy, Code::race},        {barrier_of_some, Code::divergent},
        {lanes_apart, Code::divergent},        {two_collectives, Code::divergent},   {partial_mask, Code::unsupported},
        {never, Code::deadlock},               {spinning, Code::budget},             {deep, Code::stack},
    };
    const check::Buffer global(4096), out(4 * threads);
    c.fill(global);
    c.settings().turns_limit = 100'000;
    for (const auto& [wrong, code] : expected) {
        std::memset(out.data(), 0, out.size());
        c.at("fault " + std::to_string(wrong));
        c.launch_to_fail(code, 3, std::uint32_t{wrong}, static_cast<const std::uint8_t*>(global.data()), out.words());
        // The process goes on, and the next launch is sound.
        c.launch(3, std::uint32_t{nothing}, static_cast<const std::uint8_t*>(global.data()), out.words());
        for (unsigned t = 0; t < threads; ++t) c.expect(out.words()[t] == (t ^ 63), "the launch after a fault gave other values");
    }
}

void refusals(check::Case& c) {
    const check::Buffer global(4096), out(4 * threads);
    std::uint32_t wrong = nothing;
    const std::uint8_t* from = global.data();
    std::uint32_t* to = out.words();
    void* arguments[] = {&wrong, &from, &to};
    const auto refused = [&](emulation::Index grid, emulation::Index block, unsigned shared) {
        return c.kernel().launch(grid, block, shared, arguments).code == emulation::Code::invalid_launch;
    };
    c.at("launches that the kernel was not written for");
    c.expect(refused({1, 1, 1}, {threads / 2, 1, 1}, shared_bytes), "fewer threads were let through");
    c.expect(refused({1, 1, 1}, {threads, 2, 1}, shared_bytes), "a flat block was made deep");
    c.expect(refused({1, 1, 1}, {threads, 1, 1}, shared_bytes + 16), "other shared memory was let through");
    c.expect(refused({0, 1, 1}, {threads, 1, 1}, shared_bytes), "an empty grid was let through");
    c.expect(refused({1, 2, 1}, {threads, 1, 1}, shared_bytes), "a flat grid was made deep");
}

/// Without a fence a store reaches other blocks only when the launch has ended.
void fences(check::Case& c) {
    c.settings().os_threads = 1;
    for (const bool fenced : {true, false}) {
        const check::Buffer value(4), arrivals(4), seen(4);
        *value.words() = unseen;
        *arrivals.words() = *seen.words() = 0;
        c.at(fenced ? "a fenced store" : "a store without a fence");
        c.launch(2, std::uint32_t{fenced}, value.words(), arrivals.words(), seen.words());
        c.expect(*seen.words() == (fenced ? unseen + 1 : unseen), "the other block saw something else");
        c.expect(*value.words() == unseen + 1, "the end of the launch did not publish the store");
    }
}

const check::Registration cases[] = {
    check::Registration({"check_faults", "each fault ends its launch, and no more", faults}),
    check::Registration({"check_faults", "refuses other blocks, grids, shared memory", refusals}),
    check::Registration({"check_fence", "a store without a fence is not seen", fences}),
};

}  // namespace
