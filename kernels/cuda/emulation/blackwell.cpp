// Tensor memory and the order of tcgen05's operations of blackwell.h; tensor.cpp has the multiplication.
#include "blackwell.h"

#include <algorithm>

#include "ptx.h"
#include "tensor_state.h"

namespace emulation {

namespace {

constexpr std::uint32_t poison = 0x5EEDFACE;

unsigned my_warp() { return block().thread() / warp_threads; }

void check_allocated(const Tensor& state, const Columns& columns) {
    if (!state.is_allocated(columns))
        block().fail(Code::tensor_memory, "columns %u to %u, which are not allocated", columns.begin, columns.end);
}

/// The columns that a warp names; the lane must be the first of its quarter.
Columns my_columns(const Tensor& state, std::uint32_t address, std::uint32_t count) {
    const std::uint32_t own = my_warp() % 4 * quarter_lanes;
    if (address >> 16 != own) block().fail(Code::tensor_memory, "lane %u, where this warp reaches %u to %u", address >> 16, own, own + quarter_lanes - 1);
    const std::uint32_t column = address & 0xFFFF;
    check_allocated(state, {column, column + count});
    return {column, column + count};
}

/// Whether this warp has been told that all multiplications with these sums have ended.
void check_summed(const Tensor& state, const Columns& columns) {
    const Clock& heard = state.warps[my_warp()].heard;
    for (const auto& request : state.requests)
        if (!request.is_commit && request.multiplication.sums.meets(columns))
            block().fail(Code::race, "an access to sums that a tcgen05.mma is still writing");
    for (const auto& past : state.past)
        if (past.time > heard.of_tensor() && past.multiplication.sums.meets(columns))
            block().fail(Code::race, "an access to sums, and no barrier and fence say that their tcgen05.mma has ended");
}

/// Whether this warp has been told of all accesses of others to these columns that are in its way.
void check_accessed(const Tensor& state, const Columns& columns, bool stores_only) {
    const unsigned warp = my_warp();
    const Clock& heard = state.warps[warp].heard;
    for (const auto& access : state.accesses) {
        if (access.warp == warp || (stores_only && !access.is_store) || !access.columns.meets(columns)) continue;
        if (!access.is_fenced || access.time > heard.of_warp(access.warp))
            block().fail(Code::race, "columns that another warp has accessed, and no fences and barrier between");
    }
    for (unsigned other = 0; other < state.warps.size() && !stores_only; ++other)
        for (const auto& load : state.warps[other].loads)
            if (columns.meets({load.column, load.column + words_of_load})) block().fail(Code::race, "columns that a warp is still loading");
}

/// Words that nothing has written: the load came too early, though nothing was there yet to race with.
void check_written(const Tensor& state, const Columns& columns) {
    const auto summed = [&](const PastMultiplication& past) { return past.multiplication.sums.meets(columns); };
    const auto stored = [&](const Access& access) { return access.is_store && access.columns.meets(columns); };
    if (std::none_of(state.past.begin(), state.past.end(), summed) && std::none_of(state.accesses.begin(), state.accesses.end(), stored))
        block().fail(Code::race, "a load of columns that nothing has written");
}

void note_access(Tensor& state, const Columns& columns, bool is_store) {
    const unsigned warp = my_warp();
    const auto replaced = [&](const Access& old) {
        return old.warp == warp && old.is_store == is_store && old.columns.begin >= columns.begin && old.columns.end <= columns.end;
    };
    state.accesses.erase(std::remove_if(state.accesses.begin(), state.accesses.end(), replaced), state.accesses.end());
    state.accesses.push_back({warp, columns, is_store, false, 0});
    state.warps[warp].fenced_lanes = 0;
}

/// Returns the lanes' common arguments, which must agree.
std::uint32_t agreed(void* const* lanes) {
    const std::uint32_t value = *static_cast<const std::uint32_t*>(lanes[0]);
    for (unsigned lane = 1; lane < warp_threads; ++lane)
        if (*static_cast<const std::uint32_t*>(lanes[lane]) != value) block().fail(Code::divergent, "lanes of one warp with different addresses");
    return value;
}

void check_issuer(Tensor& state) {
    if (!state.has_issuer) state.issuer = block().thread();
    state.has_issuer = true;
    // A commit tells of its own thread's multiplications only.
    if (state.issuer != block().thread()) block().fail(Code::unsupported, "tcgen05.mma and commits of threads %u and %u", state.issuer, block().thread());
}

void note_end(Tensor& state, const Multiplication& m) {
    for (auto& past : state.past)
        if (past.multiplication.product.left == m.product.left && past.multiplication.product.right == m.product.right &&
            past.multiplication.sums.begin == m.sums.begin) {
            past.time = state.time;
            return;
        }
    state.past.push_back({m, state.time});
}

/// The oldest request is done. Runs in the scheduler too, where no fault may be raised.
void do_one(Hopper& hopper, Tensor& state) {
    const Request request = state.requests.front();
    state.requests.pop_front();
    if (request.is_commit) {
        Barrier& barrier = hopper.barriers[request.barrier];
        if (barrier.pending == 0) {
            hopper.late_fault = "a commit arrives at a barrier that expects no more arrivals in this phase";
            return;
        }
        barrier.telling.hear_tensor(state.time++);
        --barrier.pending;
        end_phase_if_complete(hopper, barrier);
        return;
    }
    if (const char* fault = multiply(state, hopper.shared, block().launch().units, request.multiplication)) {
        hopper.late_fault = fault;
        hopper.late_code = Code::tensor_memory;
    }
    note_end(state, request.multiplication);
}

const char* left_behind() {
    const Tensor& state = tensor();
    if (!state.requests.empty()) return "the block has ended, but its tcgen05.mma and commits have not";
    if (!state.allocated.empty()) return "the block has ended with columns that it did not free";
    if (state.has_allocated && state.may_allocate) return "the block has ended and kept the right to allocate";
    return nullptr;
}

}  // namespace

Tensor& tensor() {
    Tensor& state = block().state<Tensor>();
    if (state.words.empty()) state.begin();
    return state;
}

void Tensor::begin() {
    words.assign(tensor_lanes * tensor_columns, poison);
    warps.resize(block().threads() / warp_threads);
    hopper().has_tensor = true;
    block().at_end(left_behind);
}

bool Tensor::is_allocated(const Columns& columns) const {
    return std::any_of(allocated.begin(), allocated.end(),
                       [&](const Columns& range) { return range.begin <= columns.begin && columns.end <= range.end; });
}

// ---- for hopper.cpp

void tensor_some(Hopper& hopper) {
    if (!hopper.has_tensor) return;
    Tensor& state = tensor();
    while (!state.requests.empty() && hopper.draw.next() % 2) do_one(hopper, state);
}

void tensor_all_of(Hopper& hopper, std::size_t barrier) {
    if (!hopper.has_tensor) return;
    Tensor& state = tensor();
    const auto commits = [&] {
        return std::any_of(state.requests.begin(), state.requests.end(),
                           [&](const Request& request) { return request.is_commit && request.barrier == barrier; });
    };
    while (commits()) do_one(hopper, state);
}

bool tensor_may_read(std::uint32_t begin, std::uint32_t end, const Clock& by) {
    if (!hopper().has_tensor) return false;
    const Tensor& state = tensor();
    for (const auto& request : state.requests)
        if (!request.is_commit && reads(request.multiplication, begin, end)) return true;
    for (const auto& past : state.past)
        if (past.time > by.of_tensor() && reads(past.multiplication, begin, end)) return true;
    return false;
}

// ---- tensor memory

void tensor_allocate(std::uint32_t to, std::uint32_t columns) {
    struct Ask {
        std::uint32_t to, columns;
    } mine{to, columns};
    block().collective([](void* const* lanes) {
        agreed(lanes);
        const Ask& ask = *static_cast<const Ask*>(lanes[0]);
        Tensor& state = tensor();
        if (!state.may_allocate) block().fail(Code::tensor_memory, "an allocation after the right to it was given up");
        if (state.has_allocated && state.allocator != my_warp()) block().fail(Code::tensor_memory, "allocations by two warps");
        std::uint32_t begin = 0;
        for (const auto& range : state.allocated) begin = std::max(begin, range.end);
        // It would wait for a block that has as much; there is only this one.
        if (begin + ask.columns > tensor_columns) block().fail(Code::tensor_memory, "%u columns beside %u", ask.columns, begin);
        state.allocated.push_back({begin, begin + ask.columns});
        state.allocator = my_warp();
        state.has_allocated = true;
        std::uint8_t* word = block().shared(ask.to, 4, 4);
        note_write(ask.to, 4);
        std::memcpy(word, &begin, sizeof begin);
    }, &mine);
}

void tensor_allocate_no_more() {
    block().collective([](void* const*) {
        if (!tensor().may_allocate) block().fail(Code::tensor_memory, "the right to allocate given up twice");
        tensor().may_allocate = false;
    }, nullptr);
}

void tensor_free(std::uint32_t address, std::uint32_t columns) {
    Columns mine{address, address + columns};
    block().collective([](void* const* lanes) {
        agreed(lanes);
        const Columns& asked = *static_cast<const Columns*>(lanes[0]);
        Tensor& state = tensor();
        const auto same = [&](const Columns& range) { return range.begin == asked.begin && range.end == asked.end; };
        const auto found = std::find_if(state.allocated.begin(), state.allocated.end(), same);
        if (found == state.allocated.end()) block().fail(Code::tensor_memory, "columns %u to %u freed, which were not allocated so", asked.begin, asked.end);
        if (state.allocator != my_warp()) block().fail(Code::tensor_memory, "columns freed by another warp than allocated them");
        check_summed(state, asked);
        check_accessed(state, asked, false);
        state.allocated.erase(found);
    }, &mine);
}

void tensor_fence_before() {
    Tensor& state = tensor();
    const unsigned warp = my_warp();
    state.warps[warp].fenced_lanes |= 1u << lane();
    if (state.warps[warp].fenced_lanes != full_warp) return;
    for (auto& access : state.accesses)
        if (access.warp == warp && !access.is_fenced) {
            access.is_fenced = true;
            access.time = hopper().warps[warp].clock.of_warp(warp);
        }
}

void tensor_fence_after() { tensor().warps[my_warp()].heard = hopper().warps[my_warp()].clock; }

namespace {

struct Load {
    std::uint32_t address;
    std::uint32_t* words;
};

void load_all(void* const* lanes) {
    const std::uint32_t address = agreed(lanes);
    Tensor& state = tensor();
    const Columns columns = my_columns(state, address, words_of_load);
    check_summed(state, columns);
    check_accessed(state, columns, true);
    check_written(state, columns);
    PendingLoad pending{{}, columns.begin};
    for (unsigned i = 0; i < warp_threads; ++i) {
        pending.words[i] = static_cast<const Load*>(lanes[i])->words;
        std::fill_n(pending.words[i], words_of_load, poison);
    }
    state.warps[my_warp()].loads.push_back(pending);
    state.warps[my_warp()].fenced_lanes = 0;
}

void wait_for_loads(void* const* lanes) {
    Tensor& state = tensor();
    TensorWarp& mine = state.warps[my_warp()];
    const std::uint32_t first_lane = my_warp() % 4 * quarter_lanes;
    for (const auto& load : mine.loads) {
        for (unsigned i = 0; i < warp_threads; ++i) {
            if (load.words[i] != lanes[i]) block().fail(Code::race, "a wait for other words than those that are being loaded");
            for (unsigned w = 0; w < words_of_load; ++w) load.words[i][w] = state.word(first_lane + i, load.column + w);
        }
        note_access(state, {load.column, load.column + words_of_load}, false);
    }
    mine.loads.clear();
}

struct Fill {
    std::uint32_t address, word;
};

void fill_all(void* const* lanes) {
    const std::uint32_t address = agreed(lanes);
    Tensor& state = tensor();
    const Columns columns = my_columns(state, address, columns_of_fill);
    check_summed(state, columns);
    for (unsigned i = 0; i < warp_threads; ++i)
        for (std::uint32_t column = columns.begin; column < columns.end; ++column)
            state.word((address >> 16) + i, column) = static_cast<const Fill*>(lanes[i])->word;
    note_access(state, columns, true);
}

}  // namespace

void tensor_load(std::uint32_t* words, std::uint32_t address) {
    Load mine{address, words};
    block().collective(load_all, &mine);
}

void tensor_load_wait(std::uint32_t* words) { block().collective(wait_for_loads, words); }

void tensor_fill(std::uint32_t address, std::uint32_t word) {
    Fill mine{address, word};
    block().collective(fill_all, &mine);
}

// ---- tcgen05.mma

void tensor_multiply(const TensorProduct& product) {
    block().step();
    Tensor& state = tensor();
    Hopper& all = hopper();
    check_issuer(state);
    check_late_fault();
    const Multiplication m = decoded(product);
    for (const auto& columns : {m.sums, m.left_scales, m.right_scales})
        if (columns.end > 0) check_allocated(state, columns);
    const Clock& heard = state.warps[my_warp()].heard;
    for (const auto& box : all.boxes)
        if (box.time > heard.of_barrier(box.barrier) && reads(m, box.begin, box.end))
            block().fail(Code::race, "a tcgen05.mma on what a copy may still be writing: no barrier and fence say that it has landed");
    check_accessed(state, m.sums, false);
    for (const auto& columns : {m.left_scales, m.right_scales})
        if (columns.end > 0) check_accessed(state, columns, true);
    state.requests.push_back({false, m, 0});
    tensor_some(all);
}

void tensor_commit(std::uint32_t address) {
    block().step();
    Tensor& state = tensor();
    Hopper& all = hopper();
    check_issuer(state);
    check_late_fault();
    const Barrier& barrier = barrier_at(address);
    if (!barrier.seen_by_copies) block().fail(Code::race, "a commit on a barrier that no fence has shown to it");
    state.requests.push_back({true, {}, static_cast<std::size_t>(&barrier - all.barriers.data())});
    tensor_some(all);
}

}  // namespace emulation
