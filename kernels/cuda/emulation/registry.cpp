#include "registry.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>

namespace emulation {

namespace {

// A function's, so that it is there before the first file registers.
std::vector<Kernel>& all() {
    static std::vector<Kernel> kernels;
    return kernels;
}

/// Blocks are large (stacks, shared memory): they are kept from launch to launch.
class Pool {
public:
    std::unique_ptr<Block> take() {
        std::lock_guard lock(mutex_);
        if (free_.empty()) return std::make_unique<Block>();
        auto block = std::move(free_.back());
        free_.pop_back();
        return block;
    }
    void give(std::unique_ptr<Block> block) {
        std::lock_guard lock(mutex_);
        free_.push_back(std::move(block));
    }

private:
    std::mutex mutex_;
    std::vector<std::unique_ptr<Block>> free_;
};

Pool& pool() {
    static auto* pool = new Pool;  // never destroyed: a launch may outlive static objects at exit
    return *pool;
}

/// The order in which blocks of a grid start.
std::vector<unsigned> block_order(unsigned blocks, const Schedule& schedule) {
    std::vector<unsigned> order(blocks);
    for (unsigned i = 0; i < blocks; ++i) order[i] = schedule.order == Order::reverse ? blocks - 1 - i : i;
    Draw draw(schedule.seed);
    if (schedule.order == Order::shuffled)
        for (unsigned i = blocks; i > 1; --i) std::swap(order[i - 1], order[draw.below(i)]);
    return order;
}

/// The state that the OS threads of one launch share.
struct Progress {
    std::vector<unsigned> order;
    std::atomic<unsigned> next{0};
    std::atomic<bool> failed{false};
    std::mutex mutex;
    LaunchResult result;
    std::vector<UnfencedStore> unfenced;
};

void work(const Launch& launch, Progress& progress) {
    auto block = pool().take();
    for (unsigned i; !progress.failed && (i = progress.next++) < progress.order.size();) {
        LaunchResult result = block->run(launch, {progress.order[i], 0, 0});
        if (result) continue;
        std::lock_guard lock(progress.mutex);
        if (!progress.failed.exchange(true)) progress.result = std::move(result);
    }
    std::lock_guard lock(progress.mutex);
    auto& stores = block->unfenced();
    progress.unfenced.insert(progress.unfenced.end(), stores.begin(), stores.end());
    stores.clear();
    pool().give(std::move(block));
}

LaunchResult refuse(const Kernel& kernel, const char* what, unsigned given, unsigned expected) {
    char text[200];
    std::snprintf(text, sizeof text, "invalid launch of %s: %s %u, not %u", kernel.name, what, given, expected);
    return {Code::invalid_launch, text};
}

}  // namespace

const std::vector<Kernel>& kernels() { return all(); }

const Kernel* find(const char* name) {
    for (const auto& kernel : all())
        if (std::strcmp(kernel.name, name) == 0) return &kernel;
    return nullptr;
}

Registration::Registration(const Kernel& kernel) { all().push_back(kernel); }

LaunchResult Kernel::launch(Index grid, Index block, unsigned shared, void* const* arguments,
                            const Settings& settings) const {
    if (block.x != threads) return refuse(*this, "threads", block.x, threads);
    if (block.y != 1 || block.z != 1) return refuse(*this, "a second dimension of the block of", block.y * block.z, 1);
    if (grid.y != 1 || grid.z != 1) return refuse(*this, "a second dimension of the grid of", grid.y * grid.z, 1);
    if (shared != shared_bytes) return refuse(*this, "bytes of shared memory", shared, shared_bytes);
    if (grid.x == 0) return refuse(*this, "blocks", 0, 1);

    Launch launch{name, grid, block, shared, [&] { body(arguments); }, settings.schedule, settings.turns_limit, settings.units};
    Progress progress;
    progress.order = block_order(grid.x, settings.schedule);
    unsigned workers = settings.os_threads ? settings.os_threads : std::max(1u, std::thread::hardware_concurrency());
    workers = std::min(workers, grid.x);
    std::vector<std::thread> others;
    for (unsigned i = 1; i < workers; ++i) others.emplace_back([&] { work(launch, progress); });
    work(launch, progress);
    for (auto& other : others) other.join();
    // The end of a launch makes every store visible.
    for (const auto& store : progress.unfenced) *store.where = store.value;
    return std::move(progress.result);
}

}  // namespace emulation
