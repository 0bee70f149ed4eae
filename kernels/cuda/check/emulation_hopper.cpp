// The check of Hopper's emulation: one small product, in every swizzle, against plain arithmetic; and the same
// with one thing wrong, each of which has to end the launch with the fault that belongs to it.
#include <cstring>

#include "../device_sm90.cuh"
#include "check.h"

namespace {

constexpr unsigned threads = 128;  // one warpgroup
constexpr unsigned rows = 64, columns = 256;
constexpr unsigned left_bytes = rows * 128, right_bytes = columns * 128;
constexpr unsigned shared_bytes = left_bytes + right_bytes;

enum Wrong : std::uint32_t {
    nothing,
    barrier_unmade,
    barrier_made_twice,
    barrier_for_nobody,
    arrival_too_many,
    parity_of_two,
    bytes_too_many,       // expected: the phase never ends
    bytes_beyond_count,
    map_unknown,
    box_misaligned,
    box_too_far,
    box_over_box,
    barrier_unfenced,     // no barrier_init_fence
    read_too_early,       // no barrier_wait
    descriptor_bits,
    descriptor_too_far,
    lanes_apart,
    warps_apart,
    unfenced,             // no wgmma_fence
    fenced_others,        // a wgmma_fence for other accumulators
    sums_touched,
    sums_of_two,
    waited_for_others,    // a wgmma_wait_all for other accumulators
    copied_too_early,     // the next copy before wgmma_wait_all
    ring_misaligned,      // require_alignment
};

/// How the operands lie: the width of a row in shared memory, and the swizzle by its number in a descriptor.
struct Layout {
    std::uint32_t depth, swizzle;
};

std::uint64_t descriptor(std::uint32_t address, std::uint32_t operand_rows, Layout layout) {
    // Without a swizzle rows are 16 bytes wide and a second half lies behind all rows of the first.
    const std::uint64_t leading = layout.swizzle == 0 ? operand_rows * 16 : 16, stride = 8 * (layout.swizzle == 0 ? 16 : layout.depth);
    return std::uint64_t{layout.swizzle} << 62 | stride / 16 << 32 | leading / 16 << 16 | address / 16;
}

struct Place {
    std::uint32_t left, right, barrier;
};

/// Starts the copies of both operands: whole rows, or 16 bytes of each at a time.
void copy(const TensorMap& left, const TensorMap& right, Place at, Layout layout, std::uint32_t wrong) {
    const std::uint32_t width = layout.swizzle == 0 ? 16 : layout.depth;
    std::uint32_t bytes = (rows + columns) * layout.depth;
    if (wrong == bytes_too_many) bytes += 16;
    ptx::barrier_arrive_expect(at.barrier, wrong == bytes_beyond_count ? 1 << 20 : bytes);
    if (wrong == arrival_too_many) ptx::barrier_arrive(at.barrier);
    for (std::uint32_t c = 0; c < layout.depth; c += width) {
        const std::uint32_t to = at.left + c * rows + (wrong == box_misaligned ? 64 : 0) + (wrong == box_too_far ? 1 << 20 : 0);
        ptx::copy_box(to, wrong == map_unknown ? TensorMap{} : left, at.barrier, c, 0);
        ptx::copy_box(wrong == box_over_box ? at.left : at.right + c * columns, right, at.barrier, c, 0);
    }
}

/// Starts the products of one stage; `wrong` is this thread's.
void start(std::int32_t (&sums)[128], Place at, Layout layout, std::uint32_t wrong) {
    std::uint64_t a = descriptor(at.left, rows, layout), b = descriptor(at.right, columns, layout);
    if (wrong == descriptor_bits) a |= std::uint64_t{1} << 49;
    if (wrong == descriptor_too_far) b += 0x2000;
    if ((wrong == lanes_apart && threadIdx.x % 32 == 7) || (wrong == warps_apart && threadIdx.x >= 96)) a += 2;
    std::int32_t others[128] = {};
    if (wrong != unfenced) ptx::wgmma_fence(wrong == fenced_others ? others : sums);
    for (std::uint32_t step = 0; step < layout.depth / 32; ++step) {
        ptx::wgmma_m64n256k32(wrong == sums_of_two && step == 1 ? others : sums, a + 2 * step, b + 2 * step, step > 0);
        if (wrong == sums_touched) ++sums[0];
    }
    ptx::wgmma_commit();
}

}  // namespace

extern "C" __global__ void check_hopper(const __grid_constant__ TensorMap left, const __grid_constant__ TensorMap right,
                                        std::uint32_t wrong, std::uint32_t depth, std::uint32_t swizzle, std::int32_t* out) {
    ASSAY_DYNAMIC_SHARED(bytes);
    ASSAY_SHARED(std::uint64_t, barriers, 2);
    const Layout layout{depth, swizzle};
    const Place at{ptx::shared_address(bytes), ptx::shared_address(bytes) + left_bytes, ptx::shared_address(barriers)};
    const unsigned t = threadIdx.x;
    if (t == 0) {
        ptx::require_alignment<1024>(at.left + (wrong == ring_misaligned ? 512 : 0));
        ptx::barrier_init(at.barrier, wrong == barrier_for_nobody ? 0 : 1);
        if (wrong == barrier_made_twice) ptx::barrier_init(at.barrier, 1);
        if (wrong != barrier_unfenced) ptx::barrier_init_fence();
    }
    __syncthreads();
    if (t < 32 && ptx::elect_one()) copy(left, right, at, layout, wrong);
    if (wrong != read_too_early) ptx::barrier_wait(at.barrier + (wrong == barrier_unmade ? 8 : 0), wrong == parity_of_two ? 2 : 0);
    std::int32_t sums[128];
    start(sums, at, layout, wrong);
    if (wrong == copied_too_early && t == 0) copy(left, right, at, layout, nothing);
    std::int32_t others[128] = {};
    ptx::wgmma_wait_all(wrong == waited_for_others ? others : sums);
    for (unsigned i = 0; i < 128; ++i)
        out[(t / 32 * 16 + t % 32 / 4 + i / 2 % 2 * 8) * columns + i / 4 * 8 + t % 4 * 2 + i % 2] = sums[i];
}

ASSAY_KERNEL(check_hopper, threads, shared_bytes);

namespace {

/// Both operands in a matrix of their own, and maps of them.
class Operands {
public:
    Operands(check::Case& c, Layout layout) : layout_(layout), left_(rows * layout.depth), right_(columns * layout.depth), out_(4 * rows * columns) {
        c.fill(left_);
        c.fill(right_);
    }

    void launch(check::Case& c, std::uint32_t wrong, emulation::Code code) {
        std::memset(out_.data(), 0xEE, out_.size());
        const auto out = reinterpret_cast<std::int32_t*>(out_.data());
        if (code == emulation::Code::ok) c.launch(1, map(left_, rows), map(right_, columns), wrong, layout_.depth, layout_.swizzle, out);
        else c.launch_to_fail(code, 1, map(left_, rows), map(right_, columns), wrong, layout_.depth, layout_.swizzle, out);
    }

    void expect_products(check::Case& c) {
        std::vector<std::int32_t> expected(rows * columns);
        for (unsigned r = 0; r < rows; ++r)
            for (unsigned k = 0; k < columns; ++k)
                for (unsigned i = 0; i < layout_.depth; ++i)
                    expected[r * columns + k] += static_cast<std::int8_t>(left_.data()[r * layout_.depth + i]) *
                                                 static_cast<std::int8_t>(right_.data()[k * layout_.depth + i]);
        c.expect_same(out_.data(), reinterpret_cast<const std::uint8_t*>(expected.data()), out_.size(), "the sums");
        out_.expect_guards("the sums");
    }

private:
    TensorMap map(const check::Buffer& buffer, std::uint32_t operand_rows) const {
        // In the driver's order: none, 32, 64, 128 bytes; in a descriptor's: none, 128, 64, 32.
        const int swizzle = layout_.swizzle == 0 ? 0 : 4 - static_cast<int>(layout_.swizzle);
        const std::uint64_t sizes[] = {layout_.depth, operand_rows}, strides_bytes[] = {layout_.depth};
        const std::uint32_t box[] = {layout_.swizzle == 0 ? 16 : layout_.depth, operand_rows}, element_strides[] = {1, 1};
        TensorMap map;
        if (!emulation::encode_map(map, {0, 2, buffer.data(), sizes, strides_bytes, box, element_strides, 0, swizzle}))
            throw check::Failure{"the tensor map is refused"};
        return map;
    }

    Layout layout_;
    check::Buffer left_, right_, out_;
};

void layouts(check::Case& c) {
    for (const Layout layout : {Layout{128, 1}, Layout{64, 2}, Layout{32, 3}, Layout{32, 0}}) {
        c.at("swizzle " + std::to_string(layout.swizzle));
        Operands operands(c, layout);
        operands.launch(c, nothing, emulation::Code::ok);
        operands.expect_products(c);
    }
}

void faults(check::Case& c) {
    using emulation::Code;
    const std::pair<Wrong, Code> expected[] = {
        {barrier_unmade, Code::barrier},          {barrier_made_twice, Code::barrier},  {barrier_for_nobody, Code::barrier},
        {arrival_too_many, Code::barrier},        {parity_of_two, Code::barrier},       {bytes_too_many, Code::deadlock},
        {bytes_beyond_count, Code::barrier},      {map_unknown, Code::unsupported},     {box_misaligned, Code::misaligned},
        {box_too_far, Code::shared_range},        {box_over_box, Code::race},           {barrier_unfenced, Code::race},
        {read_too_early, Code::race},             {descriptor_bits, Code::unsupported}, {descriptor_too_far, Code::shared_range},
        {lanes_apart, Code::divergent},           {warps_apart, Code::divergent},       {unfenced, Code::race},
        {fenced_others, Code::race},              {waited_for_others, Code::race},      {ring_misaligned, Code::misaligned},
        {sums_touched, Code::race},               {sums_of_two, Code::unsupported},     {copied_too_early, Code::race},
    };
    Operands operands(c, {128, 1});
    for (const auto& [wrong, code] : expected) {
        c.at("fault " + std::to_string(wrong));
        operands.launch(c, wrong, code);
        operands.launch(c, nothing, Code::ok);
        operands.expect_products(c);
    }
}

const check::Registration cases[] = {
    check::Registration({"check_hopper", "a product in every swizzle", layouts}),
    check::Registration({"check_hopper", "each fault ends its launch, and no more", faults}),
};

}  // namespace
