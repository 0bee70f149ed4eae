// Memory barriers, TMA and register reallocation of hopper.h; wgmma.cpp has the rest.
#include "hopper.h"

#include <algorithm>
#include <cstring>

#include "hopper_state.h"
#include "ptx.h"

namespace emulation {

namespace {

constexpr std::uint64_t map_mark = 0xA55A714E50434D41;
/// PTX ISA, "tx-count": the largest count of bytes of a barrier.
constexpr std::int64_t most_bytes = (1 << 20) - 1;
constexpr std::uint32_t pieces_of_box = 4, rows_of_swizzle = 8;

/// Copies a piece to where its map's swizzle puts it: within every 1024 bytes, the 16-byte column XOR the row.
void land(Hopper& state, const Piece& piece) {
    const TensorMap& map = piece.map;
    for (std::uint32_t r = piece.first_row; r < piece.first_row + piece.rows; ++r)
        for (std::uint32_t c = 0; c < map.box_columns; c += 16) {
            std::uint8_t* to = state.shared + swizzled(piece.to + r * map.box_columns + c, map.swizzle_bytes);
            const std::uint64_t row = std::uint64_t{piece.row} + r, column = std::uint64_t{piece.column} + c;
            if (row < map.rows && column < map.columns) std::memcpy(to, map.base + row * map.pitch_bytes + column, 16);
            else std::memset(to, 0, 16);
        }
    Barrier& barrier = state.barriers[piece.barrier];
    barrier.bytes -= std::int64_t{piece.rows} * map.box_columns;
    if (barrier.bytes < -most_bytes) state.late_fault = "more bytes landed than a barrier can count";
    end_phase_if_complete(state, barrier);
}

void land_at(Hopper& state, std::size_t index) {
    const Piece piece = state.pieces[index];
    state.pieces.erase(state.pieces.begin() + static_cast<std::ptrdiff_t>(index));
    land(state, piece);
}

void land_some(Hopper& state) {
    while (!state.pieces.empty() && state.draw.next() % 2)
        land_at(state, state.draw.below(static_cast<unsigned>(state.pieces.size())));
}

void land_all_of(Hopper& state, std::size_t barrier) {
    for (std::size_t i = state.pieces.size(); i-- > 0;)
        if (state.pieces[i].barrier == barrier) land_at(state, i);
}

struct Wait {
    Hopper* state;
    std::size_t barrier;
    std::uint32_t parity;
    bool asked_before;
};

/// Also runs in the scheduler, which has no thread to blame: no fault may be raised here. When a thread asks
/// again, nothing else may be left to happen but copies and tcgen05.mma: those for its barrier end.
bool phase_ended(const void* argument) {
    auto& wait = *static_cast<Wait*>(const_cast<void*>(argument));
    land_some(*wait.state);
    tensor_some(*wait.state);
    if (wait.asked_before) {
        land_all_of(*wait.state, wait.barrier);
        tensor_all_of(*wait.state, wait.barrier);
    }
    wait.asked_before = true;
    return wait.state->barriers[wait.barrier].phase != wait.parity || wait.state->late_fault;
}

}  // namespace

Hopper& hopper() {
    Hopper& state = block().state<Hopper>();
    if (!state.shared) state.begin();
    return state;
}

void Hopper::begin() {
    shared = block().shared(shared_base, 0, 1) - shared_base;
    draw = Draw(block().launch().schedule.seed ^ (std::uint64_t{block().index().x} << 32) ^ 0x90);
    const unsigned threads = block().threads();
    warps.resize(threads / warp_threads);
    for (unsigned i = 0; i < warps.size(); ++i) warps[i].clock.step_warp(i);
    warpgroups.resize((threads + 127) / 128);
}

std::uint32_t swizzled(std::uint32_t address, std::uint32_t swizzle_bytes) {
    const std::uint32_t columns = swizzle_bytes / 16;
    return columns == 0 ? address : address ^ ((address >> 7) & (columns - 1)) << 4;
}

void require_alignment(std::uint32_t address, std::uint32_t bytes) {
    if (address % bytes != 0) block().fail(Code::misaligned, "shared address %u, required to be a multiple of %u", address, bytes);
}

// ---- barriers

Barrier& barrier_at(std::uint32_t address) {
    block().shared(address, 8, 8);
    for (auto& barrier : hopper().barriers)
        if (barrier.address == address) {
            note_read(address, 8);
            return barrier;
        }
    block().fail(Code::barrier, "shared address %u is no barrier", address);
}

void check_late_fault() {
    if (const char* fault = hopper().late_fault) block().fail(hopper().late_code, "%s", fault);
}

void end_phase_if_complete(Hopper& state, Barrier& barrier) {
    if (barrier.pending != 0 || barrier.bytes != 0) return;
    barrier.phase ^= 1;
    barrier.telling.step_barrier(static_cast<std::size_t>(&barrier - state.barriers.data()));
    barrier.told = barrier.telling;
    barrier.pending = barrier.arrivals;
}

void barrier_init(std::uint32_t address, std::uint32_t arrivals) {
    block().shared(address, 8, 8);
    note_write(address, 8);
    auto& barriers = hopper().barriers;
    if (arrivals == 0 || arrivals > most_bytes) block().fail(Code::barrier, "a barrier for %u arrivals", arrivals);
    if (barriers.size() == most_barriers) block().fail(Code::unsupported, "more than %u memory barriers", most_barriers);
    for (const auto& barrier : barriers)
        if (barrier.address == address) block().fail(Code::barrier, "a barrier is made twice");
    barriers.push_back({address, arrivals, arrivals, 0, 0, block().thread(), false, {}, {}});
}

void barrier_init_fence() {
    for (auto& barrier : hopper().barriers)
        if (barrier.maker == block().thread()) barrier.seen_by_copies = true;
}

void barrier_arrive(std::uint32_t address, std::uint32_t expected_bytes) {
    block().step();
    Barrier& barrier = barrier_at(address);
    check_late_fault();
    barrier.bytes += expected_bytes;
    if (barrier.bytes > most_bytes) block().fail(Code::barrier, "a barrier expects more bytes than it can count");
    // All have arrived, but the phase's bytes have not: another arrival is one too many.
    if (barrier.pending == 0) block().fail(Code::barrier, "more than %u arrivals in one phase", barrier.arrivals);
    const unsigned warp = block().thread() / warp_threads;
    Clock& clock = hopper().warps[warp].clock;
    barrier.telling.hear(clock);
    clock.step_warp(warp);
    --barrier.pending;
    end_phase_if_complete(hopper(), barrier);
}

void barrier_wait(std::uint32_t address, std::uint32_t parity) {
    if (parity > 1) block().fail(Code::barrier, "parity %u", parity);
    const Barrier& barrier = barrier_at(address);
    Hopper& state = hopper();
    Wait wait{&state, static_cast<std::size_t>(&barrier - state.barriers.data()), parity, false};
    block().wait_until(phase_ended, &wait);
    check_late_fault();
    state.warps[block().thread() / warp_threads].clock.hear(barrier.told);
}

bool elect_one() {
    block().collective([](void* const*) {}, nullptr);
    // Which lane is the hardware's choice: here the schedule's.
    return lane() == block().launch().schedule.seed % warp_threads;
}

// ---- TMA

bool encode_map(TensorMap& map, const MapRequest& request) {
    constexpr int bytes = 0, no_interleave = 0, most_swizzle = 3;
    if (request.data_type != bytes || request.rank != 2 || request.interleave != no_interleave) return false;
    if (request.swizzle < 0 || request.swizzle > most_swizzle) return false;
    const std::uint32_t swizzle_bytes = request.swizzle == 0 ? 0 : 16u << request.swizzle;
    if (reinterpret_cast<std::uintptr_t>(request.address) % 16 != 0) return false;
    if (request.strides_bytes[0] % 16 != 0 || request.strides_bytes[0] >= std::uint64_t{1} << 40) return false;
    for (int i = 0; i < 2; ++i) {
        if (request.sizes[i] == 0 || request.sizes[i] > std::uint64_t{1} << 32) return false;
        if (request.box[i] == 0 || request.box[i] > 256 || request.element_strides[i] != 1) return false;
    }
    if (request.box[0] % 16 != 0 || (swizzle_bytes != 0 && request.box[0] > swizzle_bytes)) return false;
    map = {map_mark, static_cast<const std::uint8_t*>(request.address), request.sizes[0], request.sizes[1],
           request.strides_bytes[0], request.box[0], request.box[1], swizzle_bytes, {}};
    return true;
}

void check_map(const TensorMap& map) {
    if (map.mark != map_mark) block().fail(Code::unsupported, "a tensor map that was never encoded");
    if (reinterpret_cast<std::uintptr_t>(&map) % 64 != 0) block().fail(Code::misaligned, "a tensor map at %p", &map);
}

void copy_box(std::uint32_t to, const TensorMap& map, std::uint32_t address, std::uint32_t column, std::uint32_t row) {
    check_map(map);
    const std::uint32_t bytes = map.box_columns * map.box_rows;
    block().shared(to, bytes, 128);
    const Barrier& barrier = barrier_at(address);
    if (!barrier.seen_by_copies) block().fail(Code::race, "a copy on a barrier that no fence has shown to copies");
    Hopper& state = hopper();
    if (state.copied(to, to + bytes)) block().fail(Code::race, "a copy to where another one is under way");
    const unsigned warp = block().thread() / warp_threads;
    if (state.may_be_read(to, to + bytes, warp) || tensor_may_read(to, to + bytes, state.warps[warp].clock))
        block().fail(Code::race, "a copy to what a wgmma or tcgen05.mma may still be reading: no barrier says that it has ended");
    const auto index = static_cast<std::size_t>(&barrier - state.barriers.data());
    state.note_box({to, to + bytes, index, barrier.telling.of_barrier(index) + 1});
    const std::uint32_t rows = std::max(map.box_rows / pieces_of_box, rows_of_swizzle);
    for (std::uint32_t first = 0; first < map.box_rows; first += rows)
        state.pieces.push_back({to, first, std::min(rows, map.box_rows - first), column, row, index, map});
    land_some(state);
}

bool Hopper::copied(std::uint32_t begin, std::uint32_t end) const {
    return std::any_of(pieces.begin(), pieces.end(), [&](const Piece& piece) {
        const std::uint32_t from = piece.to + piece.first_row * piece.map.box_columns;
        return from < end && begin < from + piece.rows * piece.map.box_columns;
    });
}

void Hopper::note_box(const Box& box) {
    const auto within = [&](const Box& old) { return old.begin >= box.begin && old.end <= box.end; };
    boxes.erase(std::remove_if(boxes.begin(), boxes.end(), within), boxes.end());
    boxes.push_back(box);
}

}  // namespace emulation
