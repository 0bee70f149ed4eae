// wgmma of hopper.h: operands through their descriptors, accumulators by the PTX ISA's fragment table.
#include <algorithm>
#include <cstring>

#include "hopper_state.h"
#include "int8.h"

namespace emulation {

namespace {

constexpr unsigned warpgroup_warps = 4;
constexpr unsigned warp_rows = 16, columns = 256, inner = 32;  // of one warp's part of m64n256k32
constexpr std::int32_t poison = 0x5EEDFACE;

WarpProducts& my_warp() { return hopper().warps[block().thread() / warp_threads]; }

/// PTX ISA, "Matrix descriptor", with its meaning here.
struct Descriptor {
    std::uint32_t start, leading_bytes, stride_bytes, swizzle_bytes;

    explicit Descriptor(std::uint64_t bits) {
        constexpr std::uint32_t swizzles[4] = {0, 128, 64, 32};
        start = field(bits, 0);
        leading_bytes = field(bits, 16);
        stride_bytes = field(bits, 32);
        swizzle_bytes = swizzles[bits >> 62];
        // Bits between the fields, and the base offset: for operands that begin off their swizzle's pattern.
        if (bits & 0x3FFEC000C000C000)
            block().fail(Code::unsupported, "a matrix descriptor with other bits: %016llx", static_cast<unsigned long long>(bits));
    }

    static std::uint32_t field(std::uint64_t bits, unsigned at) {
        return static_cast<std::uint32_t>(bits >> at & 0x3FFF) << 4;
    }

    /// The 16 bytes at `piece` (of two) of a row. Rows lie in groups of eight.
    std::uint32_t address(unsigned row, unsigned piece) const {
        const std::uint32_t group = start + row / 8 * stride_bytes;
        if (swizzle_bytes == 0) return group + piece * leading_bytes + row % 8 * 16;
        return swizzled(group + row % 8 * swizzle_bytes + piece * 16, swizzle_bytes);
    }

    /// Whether rows `first` to `first + rows` touch these addresses; whole groups count.
    bool touches(unsigned first, unsigned rows, std::uint32_t begin, std::uint32_t end) const {
        const std::uint32_t group_bytes = swizzle_bytes == 0 ? 128 : 8 * swizzle_bytes;
        for (unsigned row = first; row < first + rows; row += 8) {
            const std::uint32_t from = (start + row / 8 * stride_bytes) & ~(group_bytes - 1);
            if (from < end && begin < from + group_bytes) return true;
        }
        return false;
    }
};

unsigned first_row(unsigned warp) { return warp % warpgroup_warps * warp_rows; }

bool reads(unsigned warp, const Product& product, std::uint32_t begin, std::uint32_t end) {
    return Descriptor(product.left).touches(first_row(warp), warp_rows, begin, end) ||
           Descriptor(product.right).touches(0, columns, begin, end);
}

/// INT8 rows as 16 bits, so that the compiler can use the processor's pairwise multiply-add.
template <unsigned ROWS>
void gather(std::int16_t (&to)[ROWS][inner], const Descriptor& from, unsigned first) {
    for (unsigned row = 0; row < ROWS; ++row)
        for (unsigned piece = 0; piece < inner / 16; ++piece) {
            const std::uint8_t* bytes = block().shared(from.address(first + row, piece), 16, 16);
            for (unsigned i = 0; i < 16; i += 4) {
                std::uint32_t word;
                std::memcpy(&word, bytes + i, 4);
                widen(word, &to[row][piece * 16 + i]);
            }
        }
}

__attribute__((optimize("O3"))) std::int32_t dot(const std::int16_t (&left)[inner], const std::int16_t (&right)[inner]) {
    std::int32_t sum = 0;
    for (unsigned k = 0; k < inner; ++k) sum += left[k] * right[k];
    return sum;
}

/// The sum of row r and column c of a warp's part (PTX ISA, "Register Fragments for wgmma", D).
std::int32_t& sum_at(WarpProducts& mine, unsigned r, unsigned c) {
    const unsigned lane = r % 8 * 4 + c % 8 / 2, index = c / 8 * 4 + r / 8 * 2 + c % 2;
    return mine.sums[lane * WarpProducts::sums_of_lane + index];
}

/// BF16 rows: 32 bytes are 16 operands, the first lowest.
template <unsigned ROWS>
void gather(Rows<ROWS, inner / 2>& to, const Descriptor& from, unsigned first) {
    for (unsigned row = 0; row < ROWS; ++row)
        for (unsigned piece = 0; piece < inner / 16; ++piece)
            std::memcpy(&to.codes[row][piece * 8], block().shared(from.address(first + row, piece), 16, 16), 16);
    to.decode(Format::bf16);
}

void multiply_bf16(WarpProducts& mine, unsigned warp, const Product& product) {
    static const Unit& own = *find_unit("hopper");
    const Unit* asked = block().launch().units.get(Format::bf16);
    const Unit& unit = asked ? *asked : own;
    Rows<warp_rows, inner / 2> left;
    Rows<columns, inner / 2> right;
    gather(left, Descriptor(product.left), first_row(warp));
    gather(right, Descriptor(product.right), 0);
    const Products products(unit, Format::bf16, left, right);
    if (products.are_zero() && product.accumulate) return;
    for (unsigned r = 0; r < warp_rows; ++r)
        for (unsigned c = 0; c < columns; ++c) {
            float sum = 0;
            if (product.accumulate) std::memcpy(&sum, &sum_at(mine, r, c), sizeof sum);
            sum = products.sum(sum, r, c);
            std::memcpy(&sum_at(mine, r, c), &sum, sizeof sum);
        }
}

void multiply(WarpProducts& mine, unsigned warp, const Product& product) {
    if (product.bf16) return multiply_bf16(mine, warp, product);
    std::int16_t left[warp_rows][inner], right[columns][inner];
    gather(left, Descriptor(product.left), first_row(warp));
    gather(right, Descriptor(product.right), 0);
    for (unsigned r = 0; r < warp_rows; ++r)
        for (unsigned c = 0; c < columns; ++c) {
            std::int32_t& sum = sum_at(mine, r, c);
            const auto before = static_cast<std::uint32_t>(product.accumulate ? sum : 0);
            sum = static_cast<std::int32_t>(before + static_cast<std::uint32_t>(dot(left[r], right[c])));
        }
}

struct Issue {
    std::int32_t* sums;
    Product product;
};

bool same(const Product& a, const Product& b) {
    return a.left == b.left && a.right == b.right && a.accumulate == b.accumulate && a.bf16 == b.bf16;
}

void check_alike(void* const* lanes, unsigned warp, WarpProducts& mine, const Product& product) {
    for (unsigned lane = 1; lane < warp_threads; ++lane)
        if (!same(static_cast<const Issue*>(lanes[lane])->product, product))
            block().fail(Code::divergent, "lanes of one warp with different wgmma");
    auto& issued = hopper().warpgroups[warp / warpgroup_warps].issued;
    if (mine.issued == issued.size()) issued.push_back(product);
    if (!same(issued[mine.issued++], product)) block().fail(Code::divergent, "warps of one warpgroup with different wgmma");
}

/// Takes the accumulators away from the kernel, or makes sure that it has left them alone since.
void hold_sums(void* const* lanes, WarpProducts& mine) {
    constexpr unsigned count = WarpProducts::sums_of_lane;
    const bool fresh = mine.lanes[0] == nullptr;
    mine.sums.resize(warp_threads * count);
    for (unsigned lane = 0; lane < warp_threads; ++lane) {
        std::int32_t* sums = static_cast<const Issue*>(lanes[lane])->sums;
        if (fresh) {
            if (sums != mine.fenced[lane]) block().fail(Code::race, "a wgmma on accumulators that no wgmma_fence has ordered");
            mine.lanes[lane] = sums;
            std::copy_n(sums, count, &mine.sums[lane * count]);
            std::fill_n(sums, count, poison);
        } else if (sums != mine.lanes[lane]) {
            block().fail(Code::unsupported, "two sets of accumulators under way in one warp");
        } else if (!std::all_of(sums, sums + count, [](std::int32_t sum) { return sum == poison; })) {
            block().fail(Code::race, "accumulators written while a wgmma on them is under way");
        }
    }
}

void issue(void* const* lanes) {
    const unsigned warp = block().thread() / warp_threads;
    const Product product = static_cast<const Issue*>(lanes[0])->product;
    WarpProducts& mine = my_warp();
    check_alike(lanes, warp, mine, product);
    for (const auto& box : hopper().boxes)
        if (box.time > mine.clock.of_barrier(box.barrier) && reads(warp, product, box.begin, box.end))
            block().fail(Code::race, "a wgmma on what a copy may still be writing: no barrier says that it has landed");
    hold_sums(lanes, mine);
    mine.open.push_back(product);
}

void give_back_sums(WarpProducts& mine) {
    for (unsigned lane = 0; lane < warp_threads; ++lane) {
        std::copy_n(&mine.sums[lane * WarpProducts::sums_of_lane], WarpProducts::sums_of_lane, mine.lanes[lane]);
        mine.lanes[lane] = nullptr;
        mine.fenced[lane] = nullptr;
    }
}

void note_end(WarpProducts& mine, const Product& product, std::uint32_t time) {
    for (auto& past : mine.past)
        if (past.product.left == product.left && past.product.right == product.right) {
            past.time = time;
            return;
        }
    mine.past.push_back({product, time});
}

void finish(WarpProducts& mine, unsigned groups_left) {
    const unsigned warp = block().thread() / warp_threads;
    while (mine.groups.size() > groups_left) {
        for (const auto& product : mine.groups.front()) {
            multiply(mine, warp, product);
            note_end(mine, product, mine.clock.of_warp(warp));
        }
        mine.groups.pop_front();
    }
}

void finish_all(void* const* lanes) {
    WarpProducts& mine = my_warp();
    finish(mine, 0);
    if (!mine.open.empty()) return;  // never committed: they stay pending
    for (unsigned lane = 0; lane < warp_threads; ++lane)
        if (mine.lanes[lane] && mine.lanes[lane] != lanes[lane])
            block().fail(Code::race, "a wait for other accumulators than those of the pending wgmma");
    if (mine.lanes[0]) give_back_sums(mine);
}

}  // namespace

bool Hopper::may_be_read(std::uint32_t begin, std::uint32_t end, unsigned by) const {
    for (unsigned warp = 0; warp < warps.size(); ++warp) {
        const auto touches = [&](const Product& product) { return reads(warp, product, begin, end); };
        const WarpProducts& mine = warps[warp];
        if (std::any_of(mine.open.begin(), mine.open.end(), touches)) return true;
        for (const auto& group : mine.groups)
            if (std::any_of(group.begin(), group.end(), touches)) return true;
        for (const auto& past : mine.past)
            if (past.time > warps[by].clock.of_warp(warp) && touches(past.product)) return true;
    }
    return false;
}

void wgmma_fence(std::int32_t* sums) {
    block().collective([](void* const* lanes) {
        for (unsigned lane = 0; lane < warp_threads; ++lane) my_warp().fenced[lane] = static_cast<const std::int32_t*>(lanes[lane]);
    }, sums);
}

void wgmma_commit() {
    block().collective([](void* const*) {
        my_warp().groups.push_back(std::move(my_warp().open));
        my_warp().open.clear();
    }, nullptr);
}

void wgmma_wait(unsigned groups_left) {
    block().collective([](void* const* lanes) { finish(my_warp(), *static_cast<const unsigned*>(lanes[0])); }, &groups_left);
}

void wgmma_wait_all(std::int32_t* sums) { block().collective(finish_all, sums); }

void wgmma(std::int32_t* sums, std::uint64_t left, std::uint64_t right, bool accumulate, bool bf16) {
    if (block().threads() % 128 != 0) block().fail(Code::unsupported, "wgmma in a block of %u threads", block().threads());
    Issue mine{sums, {left, right, accumulate, bf16}};
    block().collective(issue, &mine);
}

}  // namespace emulation
