#include "ptx.h"

#include <vector>

#include "int8.h"

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
    dot_products(left, right, sums);
    for (unsigned lane = 0; lane < warp_threads; ++lane) {
        const auto& mine = *static_cast<const MmaSm75*>(lanes[lane]);
        for (unsigned e = 0; e < 2; ++e) mine.sums[e] += sums[lane / 4][lane % 4 * 2 + e];
    }
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
