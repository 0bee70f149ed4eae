#include "ptx.h"

#include <vector>

#include "int8.h"
#include "unit.h"

namespace emulation {

namespace {

/// Sums of a tile of ROWS by COLUMNS, inner length INNER, all in 16 bits so that the compiler can use the
/// processor's pairwise multiply-add.
template <int ROWS, int COLUMNS, int INNER>
__attribute__((optimize("O3"))) void dot_products(const std::int16_t (&left)[ROWS][INNER],
                                                  const std::int16_t (&right)[COLUMNS][INNER],
                                                  std::int32_t (&sums)[ROWS][COLUMNS]) {
    for (int r = 0; r < ROWS; ++r)
        for (int c = 0; c < COLUMNS; ++c) {
            std::int32_t sum = 0;
            for (int k = 0; k < INNER; ++k) sum += left[r][k] * right[c][k];
            sums[r][c] = sum;
        }
}

/// The unit that multiplies this format here; `own` where nothing else is asked for.
const Unit& unit_of(Format format, const Unit& own) {
    const Unit* asked = block().launch().units.get(format);
    return asked ? *asked : own;
}

const Unit& named(const char* name) { return *find_unit(name); }

/// An INT8 unit whose sums live in a float: each sum of an instruction goes through the model.
template <unsigned ROWS, unsigned COLUMNS, unsigned INNER, class SumOf>
void sum_in_float(const Unit& unit, const std::int16_t (&left)[ROWS][INNER], const std::int16_t (&right)[COLUMNS][INNER], SumOf sum_of) {
    for (unsigned r = 0; r < ROWS; ++r)
        for (unsigned c = 0; c < COLUMNS; ++c) {
            Term terms[INNER];
            for (unsigned k = 0; k < INNER; ++k)
                terms[k] = product(decoded(Format::int8, static_cast<std::uint8_t>(left[r][k])),
                                   decoded(Format::int8, static_cast<std::uint8_t>(right[c][k])));
            std::int32_t& at = sum_of(r, c);
            at = static_cast<std::int32_t>(sum(unit, static_cast<float>(at), terms, INNER));
        }
}

/// Element e of C is row lane / 4 + 8·(e ≥ 2), column 2·(lane % 4) + (e odd), in every m16n8.
template <unsigned INNER>
void accumulate_m16n8(void* const* lanes, Format format, const Unit& own, const Rows<16, INNER>& left, const Rows<8, INNER>& right) {
    const Products products(unit_of(format, own), format, left, right);
    if (products.are_zero()) return;
    for (unsigned lane = 0; lane < warp_threads; ++lane)
        for (unsigned e = 0; e < 4; ++e) {
            float& at = static_cast<const MmaFloat*>(lanes[lane])->sums[e];
            at = products.sum(at, lane / 4 + 8 * (e >> 1), lane % 4 * 2 + (e & 1));
        }
}

}  // namespace

// PTX ISA, "Matrix Fragments for mma.m16n8k32": with g = lane / 4 and t = lane % 4, register i of A holds
// row g + 8·(i odd), columns 4t + 16·(i ≥ 2) …; register i of B holds rows 4t + 16·i …, column g; element
// e of C is row g + 8·(e ≥ 2), column 2t + (e odd).
void mma_m16n8k32(void* const* lanes) {
    std::int16_t left[16][32], right[8][32];
    std::int32_t sums[16][8];
    for (unsigned lane = 0; lane < warp_threads; ++lane) {
        const auto& mine = *static_cast<const MmaSm80*>(lanes[lane]);
        const unsigned g = lane / 4, t = lane % 4;
        for (unsigned i = 0; i < 4; ++i) widen(mine.left[i], &left[g + 8 * (i & 1)][4 * t + 16 * (i >> 1)]);
        for (unsigned i = 0; i < 2; ++i) widen(mine.right[i], &right[g][4 * t + 16 * i]);
    }
    if (const Unit* unit = block().launch().units.get(Format::int8))
        return sum_in_float(*unit, left, right, [&](unsigned r, unsigned c) -> std::int32_t& {
            return static_cast<const MmaSm80*>(lanes[r % 8 * 4 + c / 2])->sums[r / 8 * 2 + c % 2];
        });
    dot_products(left, right, sums);
    for (unsigned lane = 0; lane < warp_threads; ++lane) {
        const auto& mine = *static_cast<const MmaSm80*>(lanes[lane]);
        for (unsigned e = 0; e < 4; ++e) mine.sums[e] += sums[lane / 4 + 8 * (e >> 1)][lane % 4 * 2 + (e & 1)];
    }
}

// PTX ISA, "Matrix Fragments for mma.m8n8k16": A's register is row lane / 4, columns 4·(lane % 4) …; B's
// is column lane / 4, rows 4·(lane % 4) …; C's elements are row lane / 4, columns 2·(lane % 4) and next.
void mma_m8n8k16(void* const* lanes) {
    std::int16_t left[8][16], right[8][16];
    std::int32_t sums[8][8];
    for (unsigned lane = 0; lane < warp_threads; ++lane) {
        const auto& mine = *static_cast<const MmaSm75*>(lanes[lane]);
        widen(mine.left, &left[lane / 4][lane % 4 * 4]);
        widen(mine.right, &right[lane / 4][lane % 4 * 4]);
    }
    if (const Unit* unit = block().launch().units.get(Format::int8))
        return sum_in_float(*unit, left, right, [&](unsigned r, unsigned c) -> std::int32_t& {
            return static_cast<const MmaSm75*>(lanes[r * 4 + c / 2])->sums[c % 2];
        });
    dot_products(left, right, sums);
    for (unsigned lane = 0; lane < warp_threads; ++lane) {
        const auto& mine = *static_cast<const MmaSm75*>(lanes[lane]);
        for (unsigned e = 0; e < 2; ++e) mine.sums[e] += sums[lane / 4][lane % 4 * 2 + e];
    }
}

// PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type", .bf16: with g = lane / 4 and t = lane % 4,
// register i of A holds row g + 8·(i odd), columns 2t + 8·(i ≥ 2) and next, the first in the lower half; register i of
// B holds rows 2t + 8·i and next, column g.
void mma_m16n8k16_bf16(void* const* lanes) {
    Rows<16, 16> left;
    Rows<8, 16> right;
    for (unsigned lane = 0; lane < warp_threads; ++lane) {
        const auto& mine = *static_cast<const MmaFloat*>(lanes[lane]);
        const unsigned g = lane / 4, t = lane % 4;
        for (unsigned half = 0; half < 2; ++half) {
            for (unsigned i = 0; i < 4; ++i)
                left.codes[g + 8 * (i & 1)][2 * t + 8 * (i >> 1) + half] = static_cast<std::uint16_t>(mine.left[i] >> (16 * half));
            for (unsigned i = 0; i < 2; ++i) right.codes[g][2 * t + 8 * i + half] = static_cast<std::uint16_t>(mine.right[i] >> (16 * half));
        }
    }
    left.decode(Format::bf16);
    right.decode(Format::bf16);
    accumulate_m16n8(lanes, Format::bf16, named("a100"), left, right);
}

// PTX ISA, "Matrix Fragments for mma.m16n8k64", .e2m1: register i of A holds row g + 8·(i odd), columns 8t + 32·(i ≥ 2) and the
// next seven, the first lowest; register i of B holds rows 8t + 32·i and the next seven, column g. With scale_vec::2X, byte and
// thread 0, lanes 4g and 4g + 1 give the scales of rows g and g + 8 in bytes 0 and 1, lane 4g those of column g.
void mma_m16n8k64_e2m1(void* const* lanes) {
    Rows<16, 64> left;
    Rows<8, 64> right;
    for (unsigned lane = 0; lane < warp_threads; ++lane) {
        const auto& mine = *static_cast<const MmaFloat*>(lanes[lane]);
        const unsigned g = lane / 4, t = lane % 4;
        if (t < 2 && (mine.scales & 0xFFFF) != 0x7F7F) block().fail(Code::unsupported, "a scale that is not 1");
        for (unsigned b = 0; b < 8; ++b) {
            for (unsigned i = 0; i < 4; ++i) left.codes[g + 8 * (i & 1)][8 * t + 32 * (i >> 1) + b] = mine.left[i] >> (4 * b) & 0xF;
            for (unsigned i = 0; i < 2; ++i) right.codes[g][8 * t + 32 * i + b] = mine.right[i] >> (4 * b) & 0xF;
        }
    }
    left.decode(Format::e2m1);
    right.decode(Format::e2m1);
    accumulate_m16n8(lanes, Format::e2m1, named("b200-mxf4"), left, right);
}

// PTX ISA, "Matrix Fragments for mma.m16n8k8", .f16: register i of A holds row g + 8·i, columns 2t and next; B's holds
// rows 2t and next, column g.
void mma_m16n8k8_f16(void* const* lanes) {
    Rows<16, 8> left;
    Rows<8, 8> right;
    for (unsigned lane = 0; lane < warp_threads; ++lane) {
        const auto& mine = *static_cast<const MmaFloat*>(lanes[lane]);
        const unsigned g = lane / 4, t = lane % 4;
        for (unsigned half = 0; half < 2; ++half) {
            for (unsigned i = 0; i < 2; ++i) left.codes[g + 8 * i][2 * t + half] = static_cast<std::uint16_t>(mine.left[i] >> (16 * half));
            right.codes[g][2 * t + half] = static_cast<std::uint16_t>(mine.right[0] >> (16 * half));
        }
    }
    left.decode(Format::f16);
    right.decode(Format::f16);
    accumulate_m16n8(lanes, Format::f16, named("t4"), left, right);
}

// ldmatrix .x4: lane 8m + r names row r (16 bytes) of matrix m; register m of lane l gets bytes 4·(l % 4) …
// of row l / 4 of matrix m. A row is charged to the lane that reads it, not to the one that names it.
void load_matrices(void* const* lanes) {
    for (unsigned m = 0; m < 4; ++m)
        for (unsigned row = 0; row < 8; ++row) {
            const std::uint32_t address = static_cast<const LoadMatrices*>(lanes[8 * m + row])->address;
            const std::uint8_t* bytes = block().shared(address, 16, 16);
            note_read(address, 16);
            for (unsigned t = 0; t < 4; ++t)
                std::memcpy(&static_cast<const LoadMatrices*>(lanes[4 * row + t])->result[m], bytes + 4 * t, 4);
        }
}

void note_read(std::uint32_t address, unsigned bytes) {
    if (const char* wrong = block().tracker().read(address, bytes, block().thread()))
        block().fail(Code::race, "shared address %u: %s", address, wrong);
}

void note_write(std::uint32_t address, unsigned bytes) {
    if (const char* wrong = block().tracker().write(address, bytes, block().thread()))
        block().fail(Code::race, "shared address %u: %s", address, wrong);
}

// ---- cp.async: a copy lands as late as it may, when its thread waits for its group

namespace {

struct Copy {
    std::uint32_t to;
    const void* from;
};

/// Copies of one thread: those before `open` are committed, group by group.
struct Copies {
    std::vector<Copy> open;
    std::vector<std::vector<Copy>> groups;
};

struct AllCopies {
    Copies of_thread[max_threads];
};

Copies& copies() { return block().state<AllCopies>().of_thread[block().thread()]; }

}  // namespace

void copy_issue(std::uint32_t to, const void* from) {
    block().shared(to, 16, 16);
    check_global(from, 16);
    if (const char* wrong = block().tracker().copy_issued(to, 16, block().thread()))
        block().fail(Code::race, "shared address %u: %s", to, wrong);
    copies().open.push_back({to, from});
}

void copy_commit() {
    auto& mine = copies();
    mine.groups.push_back(std::move(mine.open));
    mine.open.clear();
}

void copy_wait(unsigned groups_left) {
    auto& groups = copies().groups;
    while (groups.size() > groups_left) {
        for (const auto& copy : groups.front()) {
            std::memcpy(block().shared(copy.to, 16, 16), copy.from, 16);
            block().tracker().copy_landed(copy.to, 16, block().thread());
        }
        groups.erase(groups.begin());
    }
}

}  // namespace emulation
