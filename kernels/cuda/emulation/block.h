// One thread block on one OS thread: a fiber for each CUDA thread, its warps, barriers and shared memory.
//
// A fiber runs until it has to wait: for the other lanes of its warp (`collective`), for the block
// (`barrier`), or for a condition (`wait_until`). The scheduler (schedule.h, Block::run) then picks the
// next one. Nothing preempts a fiber, so the primitives need no locks within a block.
//
// To add a primitive: deposit its operands with `collective` if the whole warp takes part, or do it at
// once; keep data that must outlast the call in `state<T>()`, not in objects on the fiber's stack, which is
// abandoned when a launch fails; call `step()` in each loop that a kernel could spin on.
#pragma once
#include <cstdarg>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "fault.h"
#include "fiber.h"
#include "schedule.h"
#include "tracker.h"
#include "unit.h"

namespace emulation {

constexpr unsigned warp_threads = 32;
constexpr unsigned max_threads = 1024;
constexpr unsigned max_warps = max_threads / warp_threads;
constexpr unsigned max_barriers = 16;
constexpr unsigned full_warp = 0xFFFFFFFF;

/// Shared memory of a block: as much as any GPU gives one. Its addresses start above 0, so that a null
/// address is a fault; dynamic memory first, aligned as the kernels ask for, then static arrays.
constexpr unsigned shared_limit_bytes = 227 * 1024;
constexpr unsigned shared_base = 1024;

struct Index {
    unsigned x = 0, y = 0, z = 0;
};

struct Thread {
    enum class State : std::uint8_t { runnable, collective, barrier, waiting, done };
    Context context;
    State state = State::done;
    std::uint8_t barrier = 0;
    bool (*ready)(const void*) = nullptr;
    const void* ready_argument = nullptr;
};

struct Warp {
    using Compute = void (*)(void* const arguments[warp_threads]);
    Compute compute = nullptr;
    std::uint32_t arrived = 0;
    void* arguments[warp_threads] = {};
};

/// A store that other blocks may see only once its thread has passed a fence, or the launch has ended.
struct UnfencedStore {
    unsigned thread;
    std::uint32_t* where;
    std::uint32_t value;
};

/// The part of a launch that its blocks have to know.
struct Launch {
    const char* kernel = "?";
    Index grid, block;
    unsigned dynamic_bytes = 0;
    std::function<void()> body;
    Schedule schedule;
    std::uint64_t turns_limit = 0;
    Units units;
};

class Block {
public:
    Block();
    ~Block();
    Block(const Block&) = delete;
    Block& operator=(const Block&) = delete;

    /// Runs one block of `launch` to its end, or to its first fault.
    LaunchResult run(const Launch& launch, Index index);
    /// Stores that no fence has published; the launch does so when all blocks have ended.
    std::vector<UnfencedStore>& unfenced() { return unfenced_; }

    // The rest is for primitives, on a fiber.

    unsigned thread() const { return current_; }
    unsigned threads() const { return threads_; }
    Index index() const { return index_; }
    const Launch& launch() const { return *launch_; }
    Tracker& tracker() { return tracker_; }

    /// Waits until all 32 lanes of the warp have come here with the same `compute`. The last one to come
    /// runs it over everyone's arguments (it may write through them: their fibers stand still); then all go on.
    void collective(Warp::Compute compute, void* argument);
    /// Waits until `count` threads have come to barrier `id`. Barrier 0 is __syncthreads.
    void barrier(unsigned id, unsigned count);
    /// Waits until `ready(argument)` holds; only other threads of this block can make it so.
    void wait_until(bool (*ready)(const void*), const void* argument);
    /// Counts towards the watchdog's budget.
    void step();
    void fence();
    /// Called when all threads of the block have ended: gives the fault, or null.
    void at_end(const char* (*check)()) { end_checks_.push_back(check); }
    /// Ends the launch. Does not return: the fibers are abandoned.
    [[noreturn]] void fail(Code code, const char* format, ...) __attribute__((format(printf, 3, 4)));

    /// Where `address` lies, checked: `bytes` of this block's shared memory, aligned to `alignment`.
    std::uint8_t* shared(std::uint32_t address, unsigned bytes, unsigned alignment);
    std::uint32_t address_of(const void* pointer);
    std::uint8_t* dynamic_shared();
    /// The static array that belongs to `key`: the same for all threads of the block.
    std::uint8_t* static_shared(const void* key, unsigned bytes, unsigned alignment);

    /// A primitive's own state for this block: made at the first call, destroyed when the next block starts.
    template <class T>
    T& state() {
        static char key;
        for (auto& entry : states_)
            if (entry.key == &key) return *static_cast<T*>(entry.object.get());
        states_.push_back({&key, std::shared_ptr<void>(std::make_shared<T>())});
        return *static_cast<T*>(states_.back().object.get());
    }

private:
    struct StaticArray {
        const void* key;
        unsigned offset;
    };
    struct State {
        const void* key;
        std::shared_ptr<void> object;
    };

    static void enter();
    void prepare_threads();
    void schedule_warps();
    bool turn(unsigned warp, bool backwards);
    bool can_run(Thread& thread);
    void resume(unsigned thread);
    void suspend(Thread::State state);
    [[noreturn]] void leave();
    void release(unsigned barrier);
    void describe_standstill();
    void set_fault(Code code, const char* text);
    void check_stacks();
    void check_end();

    const Launch* launch_ = nullptr;
    Index index_;
    unsigned threads_ = 0, current_ = 0, finished_ = 0;
    std::uint64_t turns_ = 0;
    LaunchResult result_;
    Context scheduler_;
    std::vector<Thread> fibers_;
    std::vector<Warp> warps_;
    unsigned waiting_at_[max_barriers] = {}, expected_at_[max_barriers] = {};
    std::uint8_t* stacks_;
    std::uint8_t* shared_;
    unsigned shared_end_ = 0;
    std::vector<StaticArray> static_arrays_;
    std::vector<UnfencedStore> unfenced_;
    std::vector<State> states_;
    std::vector<const char* (*)()> end_checks_;
    Tracker tracker_;
};

/// The block whose fiber runs on this OS thread.
extern thread_local Block* current_block;
/// CUDA's built-in variables.
extern thread_local Index thread_index, block_index, block_size, grid_size;

inline Block& block() { return *current_block; }

}  // namespace emulation
