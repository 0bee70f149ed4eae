#include "block.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <utility>

namespace emulation {

namespace {

constexpr std::size_t stack_bytes = 64 * 1024;
constexpr std::size_t arena_bytes = shared_base + shared_limit_bytes;
constexpr std::uint8_t poison = 0xCD;
/// At the far end of each stack: gone when a kernel's frame was too large for it.
constexpr std::uint64_t stack_mark = 0x5AFE57AC4B077011;

unsigned round_up(unsigned value, unsigned to) { return (value + to - 1) / to * to; }

}  // namespace

thread_local Block* current_block = nullptr;
thread_local Index thread_index, block_index, block_size, grid_size;

Block::Block()
    : stacks_(static_cast<std::uint8_t*>(std::aligned_alloc(64, stack_bytes * max_threads))),
      shared_(static_cast<std::uint8_t*>(std::aligned_alloc(1024, round_up(arena_bytes, 1024)))),
      tracker_(arena_bytes) {
    if (!stacks_ || !shared_) throw std::bad_alloc();
}

Block::~Block() {
    std::free(stacks_);
    std::free(shared_);
}

LaunchResult Block::run(const Launch& launch, Index index) {
    launch_ = &launch;
    index_ = index;
    threads_ = launch.block.x;
    result_ = {};
    turns_ = 0;
    static_arrays_.clear();
    states_.clear();
    end_checks_.clear();
    shared_end_ = shared_base + round_up(launch.dynamic_bytes, 128);
    std::memset(shared_ + shared_base, poison, launch.dynamic_bytes);
    tracker_.begin();
    std::fill(std::begin(waiting_at_), std::end(waiting_at_), 0);

    current_block = this;
    block_index = index;
    block_size = launch.block;
    grid_size = launch.grid;
    prepare_threads();
    schedule_warps();
    check_stacks();
    check_end();
    current_block = nullptr;
    return std::move(result_);
}

void Block::prepare_threads() {
    finished_ = 0;
    fibers_.resize(threads_);
    warps_.assign(threads_ / warp_threads, Warp{});
    for (unsigned i = 0; i < threads_; ++i) {
        std::uint8_t* stack = stacks_ + i * stack_bytes;
        std::memcpy(stack, &stack_mark, sizeof stack_mark);
        prepare(fibers_[i].context, stack, stack_bytes, &Block::enter);
        fibers_[i].state = Thread::State::runnable;
    }
}

void Block::enter() {
    Block& self = block();
    self.launch_->body();
    ++self.finished_;
    self.fibers_[self.current_].state = Thread::State::done;
    self.leave();
}

void Block::leave() {
    switch_to(fibers_[current_].context, scheduler_);
    __builtin_unreachable();  // nothing resumes a fiber that is done or abandoned
}

// ---- the scheduler

void Block::schedule_warps() {
    const unsigned count = static_cast<unsigned>(warps_.size());
    const bool shuffled = launch_->schedule.order == Order::shuffled;
    const bool reverse = launch_->schedule.order == Order::reverse;
    Draw draw(launch_->schedule.seed ^ (std::uint64_t{index_.x} << 20));
    std::vector<unsigned> order(count);
    std::iota(order.begin(), order.end(), 0);
    if (reverse) std::reverse(order.begin(), order.end());

    // A warp keeps its turn as long as it gets on, so that warps drift as far apart as they can. Twice
    // around without a step means that no warp can go on, in any order.
    unsigned position = 0, idle = 0;
    while (finished_ < threads_ && result_.code == Code::ok) {
        if (position == 0 && shuffled)
            for (unsigned i = count; i > 1; --i) std::swap(order[i - 1], order[draw.below(i)]);
        const bool backwards = reverse || (shuffled && draw.next() % 2);
        const bool progress = turn(order[position], backwards);
        idle = progress ? 0 : idle + 1;
        if (!progress || (shuffled && draw.next() % 4 == 0)) position = (position + 1) % count;
        if (idle > 2 * count) return describe_standstill();
        if (++turns_ > launch_->turns_limit) return set_fault(Code::budget, "still running after its budget of turns");
    }
}

/// Resumes each lane of `warp` that can run. Whether any could.
bool Block::turn(unsigned warp, bool backwards) {
    bool progress = false;
    for (unsigned i = 0; i < warp_threads && result_.code == Code::ok; ++i) {
        const unsigned lane = backwards ? warp_threads - 1 - i : i;
        const unsigned thread = warp * warp_threads + lane;
        if (!can_run(fibers_[thread])) continue;
        progress = true;
        resume(thread);
    }
    return progress;
}

bool Block::can_run(Thread& thread) {
    if (thread.state == Thread::State::waiting && thread.ready(thread.ready_argument)) return true;
    return thread.state == Thread::State::runnable;
}

void Block::resume(unsigned thread) {
    fibers_[thread].state = Thread::State::runnable;
    current_ = thread;
    thread_index = {thread, 0, 0};
    switch_to(scheduler_, fibers_[thread].context);
}

void Block::suspend(Thread::State state) {
    fibers_[current_].state = state;
    switch_to(fibers_[current_].context, scheduler_);
}

// ---- waiting

void Block::collective(Warp::Compute compute, void* argument) {
    Warp& warp = warps_[current_ / warp_threads];
    if (warp.arrived != 0 && warp.compute != compute)
        fail(Code::divergent, "lanes of one warp at different collectives");
    warp.compute = compute;
    warp.arguments[current_ % warp_threads] = argument;
    warp.arrived |= 1u << (current_ % warp_threads);
    if (warp.arrived != full_warp) return suspend(Thread::State::collective);
    warp.arrived = 0;
    compute(warp.arguments);
    const unsigned first = current_ / warp_threads * warp_threads;
    for (unsigned i = first; i < first + warp_threads; ++i) fibers_[i].state = Thread::State::runnable;
}

void Block::barrier(unsigned id, unsigned count) {
    if (id >= max_barriers) fail(Code::unsupported, "barrier %u does not exist", id);
    if (count == 0 || count > threads_ || count % warp_threads != 0)
        fail(Code::divergent, "barrier %u for %u of %u threads", id, count, threads_);
    if (waiting_at_[id] != 0 && expected_at_[id] != count)
        fail(Code::divergent, "barrier %u for %u threads, but others wait there for %u", id, count, expected_at_[id]);
    expected_at_[id] = count;
    if (++waiting_at_[id] == count) return release(id);
    fibers_[current_].barrier = static_cast<std::uint8_t>(id);
    suspend(Thread::State::barrier);
}

void Block::release(unsigned id) {
    if (waiting_at_[id] == threads_) tracker_.block_barrier();
    waiting_at_[id] = 0;
    for (auto& fiber : fibers_)
        if (fiber.state == Thread::State::barrier && fiber.barrier == id) fiber.state = Thread::State::runnable;
}

void Block::wait_until(bool (*ready)(const void*), const void* argument) {
    step();
    if (ready(argument)) return;
    fibers_[current_].ready = ready;
    fibers_[current_].ready_argument = argument;
    suspend(Thread::State::waiting);
}

void Block::step() {
    if (++turns_ > launch_->turns_limit) fail(Code::budget, "still running after its budget of turns");
}

void Block::fence() {
    auto kept = std::remove_if(unfenced_.begin(), unfenced_.end(), [this](const UnfencedStore& store) {
        if (store.thread != current_) return false;
        __atomic_store_n(store.where, store.value, __ATOMIC_RELAXED);
        return true;
    });
    unfenced_.erase(kept, unfenced_.end());
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

// ---- faults

void Block::set_fault(Code code, const char* text) {
    char where[160];
    std::snprintf(where, sizeof where, "%s, block %u, thread %u: ", launch_->kernel, index_.x, current_);
    result_ = {code, std::string(name_of(code)) + " in " + where + text};
}

void Block::fail(Code code, const char* format, ...) {
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    set_fault(code, text);
    leave();
}

void Block::describe_standstill() {
    unsigned at_barrier = 0, at_collective = 0, waiting = 0;
    for (const auto& fiber : fibers_) {
        at_barrier += fiber.state == Thread::State::barrier;
        at_collective += fiber.state == Thread::State::collective;
        waiting += fiber.state == Thread::State::waiting;
    }
    char text[200];
    std::snprintf(text, sizeof text, "nobody can go on: %u threads at a barrier, %u at a warp collective, %u waiting, %u done",
                  at_barrier, at_collective, waiting, finished_);
    const bool divergent = waiting == 0;
    set_fault(divergent ? Code::divergent : Code::deadlock, text);
}

void Block::check_stacks() {
    for (unsigned i = 0; i < threads_; ++i) {
        if (std::memcmp(stacks_ + i * stack_bytes, &stack_mark, sizeof stack_mark) == 0) continue;
        current_ = i;
        return set_fault(Code::stack, "its frame is larger than a fiber's stack");
    }
}

void Block::check_end() {
    for (const auto check : end_checks_) {
        if (result_.code != Code::ok) return;
        if (const char* wrong = check()) set_fault(Code::tensor_memory, wrong);
    }
}

// ---- shared memory

std::uint8_t* Block::shared(std::uint32_t address, unsigned bytes, unsigned alignment) {
    if (address < shared_base || address > shared_end_ || shared_end_ - address < bytes)
        fail(Code::shared_range, "%u bytes at %u of %u to %u", bytes, address, shared_base, shared_end_);
    if (address % alignment != 0) fail(Code::misaligned, "shared address %u, not a multiple of %u", address, alignment);
    return shared_ + address;
}

std::uint32_t Block::address_of(const void* pointer) {
    const auto* byte = static_cast<const std::uint8_t*>(pointer);
    if (byte < shared_ + shared_base || byte > shared_ + shared_end_)
        fail(Code::shared_range, "a pointer that is not to shared memory");
    return static_cast<std::uint32_t>(byte - shared_);
}

std::uint8_t* Block::dynamic_shared() { return shared_ + shared_base; }

std::uint8_t* Block::static_shared(const void* key, unsigned bytes, unsigned alignment) {
    for (const auto& array : static_arrays_)
        if (array.key == key) return shared_ + array.offset;
    const unsigned offset = round_up(shared_end_, std::max(alignment, 16u));
    if (offset + bytes > arena_bytes) fail(Code::invalid_launch, "more shared memory than any GPU has");
    shared_end_ = offset + round_up(bytes, 4);
    std::memset(shared_ + offset, poison, bytes);
    static_arrays_.push_back({key, offset});
    return shared_ + offset;
}

}  // namespace emulation
