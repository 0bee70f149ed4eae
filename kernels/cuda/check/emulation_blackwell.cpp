// The check of Blackwell's emulation: one small product of each kind, in every swizzle, against plain arithmetic; and the
// same with one thing wrong, each of which has to end the launch with the fault that belongs to it.
#include <cstring>

#include "../device_sm100.cuh"
#include "check.h"
#include "encodings.h"

namespace {

constexpr unsigned rows = 128, columns = 256, columns_at_once = 32;
constexpr unsigned readers = 4, multiplier = 4;  // warps
constexpr unsigned threads = 5 * 32;
constexpr unsigned left_bytes = rows * 128, right_bytes = columns * 128;
constexpr unsigned shared_bytes = left_bytes + right_bytes;
constexpr std::uint32_t scales_at = 256, right_scales_at = 264;

enum Wrong : std::uint32_t {
    nothing,
    unallocated_sums,
    unallocated_load,
    allocated_later,      // after the right to it was given up
    allocated_too_much,
    kept_right,           // to allocate
    gave_right_up_twice,
    never_freed,
    freed_others,         // columns that were not allocated so
    freed_by_another,     // warp
    freed_under_load,     // before all warps have told that they have read
    other_quarter,        // a load of another warp's lanes
    lanes_apart,
    sums_off_lane,
    version_missing,
    swizzle_missing,
    descriptor_bits,
    descriptor_too_far,
    negated,
    other_format,
    half_sums,            // FP16
    other_shape,
    read_too_early,       // no wait for the bytes
    bytes_unfenced,       // no fence behind it
    barrier_unfenced,     // no barrier_init_fence
    loaded_too_early,     // no wait for the commit
    sums_unfenced,        // no fence behind it
    never_committed,
    committed_elsewhere,  // by a thread that has not multiplied
    waited_for_others,    // words
    released_unfenced,    // no fence before the arrival that lets the next multiplication start
    overwritten,          // sums, before they have been read
    copied_too_early,     // over operands that are being read
    scales_missing,
    scales_unfenced,
    scales_off_lane,
};

/// The operands and their layout: the kind of operands, the width of a row and the swizzle by its number in a descriptor.
struct Layout {
    std::uint32_t format, depth, swizzle;  // format: 0 BF16, 1 E4M3, 2 E2M1
};

struct Place {
    std::uint32_t left, right, landed, ended, read, tensor;
};

std::uint64_t descriptor(std::uint32_t address, Layout layout, std::uint32_t wrong) {
    const std::uint64_t version = wrong == version_missing ? 0 : 1, swizzle = wrong == swizzle_missing ? 0 : layout.swizzle;
    const std::uint64_t other = wrong == descriptor_bits ? std::uint64_t{1} << 52 : 0;
    return swizzle << 61 | version << 46 | std::uint64_t{8 * layout.depth / 16} << 32 | 1 << 16 | other | address / 16;
}

std::uint32_t instruction(Layout layout, std::uint32_t wrong) {
    const std::uint32_t format = (layout.format == 1 ? 0 : 1) + (wrong == other_format ? 2 : 0);
    const std::uint32_t kind = layout.format == 2 ? 1 << 23 : wrong == half_sums ? 0 : 1 << 4;
    const std::uint32_t shape = columns / 8 << 17 | (wrong == other_shape ? 64 : rows) / 16 << 24;
    return kind | format << 7 | format << 10 | shape | (wrong == negated ? 1 << 13 : 0);
}

void copy(const TensorMap& left, const TensorMap& right, Place at, Layout layout) {
    ptx::barrier_arrive_expect(at.landed, (rows + columns) * layout.depth);
    ptx::copy_box(at.left, left, at.landed, 0, 0);
    ptx::copy_box(at.right, right, at.landed, 0, 0);
}

void multiply(Place at, Layout layout, std::uint32_t wrong) {
    const std::uint64_t a = descriptor(at.left, layout, wrong), b = descriptor(at.right + (wrong == descriptor_too_far ? 1 << 17 : 0), layout, wrong);
    const std::uint32_t sums = at.tensor + (wrong == unallocated_sums ? 384 : wrong == sums_off_lane ? 32 << 16 : 0), how = instruction(layout, wrong);
    const std::uint32_t scales = at.tensor + scales_at + (wrong == scales_off_lane ? 32 << 16 : 0), right_scales = at.tensor + right_scales_at;
    for (std::uint32_t step = 0; step < layout.depth / 32; ++step) {
        if (layout.format == 0) ptx::tensor_multiply_bf16(sums, a + 2 * step, b + 2 * step, how, step > 0);
        if (layout.format == 1) ptx::tensor_multiply_e4m3(sums, a + 2 * step, b + 2 * step, how, step > 0);
        if (layout.format == 2) ptx::tensor_multiply_mxf4(sums, a + 2 * step, b + 2 * step, how, step > 0, scales, right_scales);
    }
    if (wrong != never_committed) ptx::tensor_commit(at.ended);
}

/// One thread: both rounds, the second over the sums of the first.
void multiply_all(const TensorMap& left, const TensorMap& right, Place at, Layout layout, std::uint32_t wrong) {
    copy(left, right, at, layout);
    if (wrong != read_too_early) ptx::barrier_wait(at.landed, 0);
    ptx::barrier_wait(at.read, 0);
    if (wrong != bytes_unfenced) ptx::tensor_fence_after();
    multiply(at, layout, wrong);
    if (wrong == copied_too_early) copy(left, right, at, layout);
    if (wrong != overwritten) ptx::barrier_wait(at.read, 1);
    ptx::tensor_fence_after();
    multiply(at, layout, wrong);
    if (wrong != freed_under_load) ptx::barrier_wait(at.read, 0);
    ptx::tensor_fence_after();
}

void release(Place at, bool fenced) {
    if (fenced) ptx::tensor_fence_before();
    __syncwarp();
    if (threadIdx.x % 32 == 0) ptx::barrier_arrive(at.read);
}

void read(Place at, Layout layout, std::uint32_t wrong, float* out) {
    const std::uint32_t quarter = threadIdx.x / 32, first_lane = quarter * 32 << 16;
    if (layout.format == 2 && wrong != scales_missing) ptx::tensor_fill_16(at.tensor + scales_at + first_lane, 0x7F7F7F7F);
    release(at, wrong != scales_unfenced);
    for (unsigned round = 0; round < 2; ++round) {
        if (wrong != loaded_too_early) ptx::barrier_wait(at.ended, round);
        if (wrong == committed_elsewhere && threadIdx.x == 0) ptx::tensor_commit(at.ended);
        if (wrong != sums_unfenced) ptx::tensor_fence_after();
        for (std::uint32_t column = 0; column < columns; column += columns_at_once) {
            std::uint32_t words[columns_at_once], others[columns_at_once];
            std::uint32_t from = at.tensor + first_lane + column;
            if (wrong == unallocated_load) from += 512;
            if (wrong == other_quarter) from ^= 32 << 16;
            if (wrong == lanes_apart && threadIdx.x % 32 == 5) from += 1;
            ptx::tensor_load(words, from);
            ptx::tensor_load_wait(wrong == waited_for_others ? others : words);
            std::memcpy(out + threadIdx.x * columns + column, words, sizeof words);
        }
        release(at, wrong != released_unfenced);
    }
}

}  // namespace

extern "C" __global__ void check_blackwell(const __grid_constant__ TensorMap left, const __grid_constant__ TensorMap right, std::uint32_t wrong,
                                           std::uint32_t format, std::uint32_t depth, std::uint32_t swizzle, float* out) {
    ASSAY_DYNAMIC_SHARED(bytes);
    ASSAY_SHARED(std::uint64_t, barriers, 3);
    ASSAY_SHARED(std::uint32_t, tensor, 2);
    const std::uint32_t first = ptx::shared_address(barriers);
    Place at{ptx::shared_address(bytes), ptx::shared_address(bytes) + left_bytes, first, first + 8, first + 16, 0};
    const unsigned warp = threadIdx.x / 32;
    if (threadIdx.x == 0) {
        ptx::barrier_init(at.landed, 1);
        ptx::barrier_init(at.ended, 1);
        ptx::barrier_init(at.read, readers);
        if (wrong != barrier_unfenced) ptx::barrier_init_fence();
    }
    if (warp == multiplier) {
        ptx::tensor_allocate<512>(ptx::shared_address(tensor));
        if (wrong == allocated_too_much) ptx::tensor_allocate<32>(ptx::shared_address(tensor + 1));
        if (wrong != kept_right) ptx::tensor_allocate_no_more();
        if (wrong == gave_right_up_twice) ptx::tensor_allocate_no_more();
        if (wrong == allocated_later) ptx::tensor_allocate<32>(ptx::shared_address(tensor + 1));
    }
    __syncthreads();
    at.tensor = ptx::load_shared(tensor);
    const Layout layout{format, depth, swizzle};
    if (warp < readers) {
        read(at, layout, wrong, out);
        if (wrong == freed_by_another && warp == 0) ptx::tensor_free<512>(at.tensor);
    } else {
        if (ptx::elect_one()) multiply_all(left, right, at, layout, wrong);
        __syncwarp();
        if (wrong == freed_others) ptx::tensor_free<256>(at.tensor);
        if (wrong != never_freed && wrong != freed_by_another) ptx::tensor_free<512>(at.tensor);
    }
}

ASSAY_KERNEL(check_blackwell, threads, shared_bytes);

namespace {

/// Both operands in a matrix of their own, and maps of them.
class Operands {
public:
    Operands(check::Case& c, Layout layout)
        : layout_(layout), left_(rows * layout.depth), right_(columns * layout.depth), out_(4 * rows * columns) {
        // Every code of E4M3 but its NaN; of BF16 small integers.
        for (const check::Buffer* to : {&left_, &right_}) {
            c.fill(*to);
            for (std::size_t i = 0; i < to->size(); ++i) {
                std::uint8_t& byte = to->data()[i];
                if (layout.format == 0) byte = i % 2 ? 0x40 | (byte & 0x81) : byte & 0xF0;
                if (layout.format == 1) byte = static_cast<std::uint8_t>((byte & 0x9F) + 0x20);
            }
        }
    }

    void launch(check::Case& c, std::uint32_t wrong, emulation::Code code) {
        std::memset(out_.data(), 0xEE, out_.size());
        const auto out = reinterpret_cast<float*>(out_.data());
        const TensorMap left = map(left_, rows), right = map(right_, columns);
        if (code == emulation::Code::ok) c.launch(1, left, right, wrong, layout_.format, layout_.depth, layout_.swizzle, out);
        else c.launch_to_fail(code, 1, left, right, wrong, layout_.format, layout_.depth, layout_.swizzle, out);
    }

    void expect_products(check::Case& c) {
        const unsigned bits = layout_.format == 0 ? 16 : layout_.format == 1 ? 8 : 4, terms = layout_.depth * 8 / bits;
        const auto decode = [&](const check::Buffer& from, unsigned operand_rows) {
            std::vector<double> values;
            for (unsigned i = 0; i < operand_rows * terms; ++i) values.push_back(value(from, i, bits));
            return values;
        };
        const auto x = decode(left_, rows), y = decode(right_, columns);
        for (unsigned r = 0; r < rows; ++r)
            for (unsigned k = 0; k < columns; ++k) {
                double sum = 0;
                for (unsigned i = 0; i < terms; ++i) sum += x[r * terms + i] * y[k * terms + i];
                float got;
                std::memcpy(&got, out_.data() + 4 * (r * columns + k), sizeof got);
                c.expect(got == sum, ("row " + std::to_string(r) + ", column " + std::to_string(k) + " is " + std::to_string(got) + ", not " + std::to_string(sum)).c_str());
            }
        out_.expect_guards("the sums");
    }

private:
    static double value(const check::Buffer& from, unsigned i, unsigned bits) {
        const std::uint8_t* bytes = from.data();
        if (bits == 16) return check::value_of(bytes[2 * i] | bytes[2 * i + 1] << 8, 8, 7);
        if (bits == 8) return check::value_of(bytes[i], 4, 3);
        return check::value_of(bytes[i / 2] >> (i % 2 * 4) & 0xF, 2, 1);
    }

    TensorMap map(const check::Buffer& buffer, std::uint32_t operand_rows) const {
        // In the driver's order: none, 32, 64, 128 bytes.
        const int swizzle = layout_.depth == 128 ? 3 : layout_.depth == 64 ? 2 : 1;
        const std::uint64_t sizes[] = {layout_.depth, operand_rows}, strides_bytes[] = {layout_.depth};
        const std::uint32_t box[] = {layout_.depth, operand_rows}, element_strides[] = {1, 1};
        TensorMap map;
        if (!emulation::encode_map(map, {0, 2, buffer.data(), sizes, strides_bytes, box, element_strides, 0, swizzle}))
            throw check::Failure{"the tensor map is refused"};
        return map;
    }

    Layout layout_;
    check::Buffer left_, right_, out_;
};

void layouts(check::Case& c) {
    for (std::uint32_t format = 0; format < 3; ++format)
        for (const auto& [depth, swizzle] : {std::pair{128u, 2u}, {64u, 4u}, {32u, 6u}}) {
            c.at("format " + std::to_string(format) + ", swizzle " + std::to_string(swizzle));
            Operands operands(c, {format, depth, swizzle});
            operands.launch(c, nothing, emulation::Code::ok);
            operands.expect_products(c);
        }
}

void faults(check::Case& c) {
    using emulation::Code;
    const std::pair<Wrong, Code> expected[] = {
        {unallocated_sums, Code::tensor_memory},  {unallocated_load, Code::tensor_memory}, {allocated_later, Code::tensor_memory},
        {allocated_too_much, Code::tensor_memory}, {kept_right, Code::tensor_memory},      {gave_right_up_twice, Code::tensor_memory},
        {never_freed, Code::tensor_memory},       {freed_others, Code::tensor_memory},     {freed_by_another, Code::tensor_memory},
        {freed_under_load, Code::race},           {other_quarter, Code::tensor_memory},    {lanes_apart, Code::divergent},
        {sums_off_lane, Code::tensor_memory},     {version_missing, Code::unsupported},    {swizzle_missing, Code::unsupported},
        {descriptor_bits, Code::unsupported},     {descriptor_too_far, Code::shared_range}, {negated, Code::unsupported},
        {other_format, Code::unsupported},        {half_sums, Code::unsupported},          {other_shape, Code::unsupported},
        {read_too_early, Code::race},             {bytes_unfenced, Code::race},            {barrier_unfenced, Code::race},
        {loaded_too_early, Code::race},           {sums_unfenced, Code::race},             {never_committed, Code::deadlock},
        {committed_elsewhere, Code::unsupported},        {waited_for_others, Code::race},
        {released_unfenced, Code::race},          {overwritten, Code::race},               {copied_too_early, Code::race},
    };
    const std::pair<Wrong, Code> of_scales[] = {
        {scales_missing, Code::tensor_memory}, {scales_unfenced, Code::race}, {scales_off_lane, Code::unsupported}};
    const auto each = [&](Layout layout, const auto& all) {
        Operands operands(c, layout);
        for (const auto& [wrong, code] : all) {
            c.at("fault " + std::to_string(wrong));
            operands.launch(c, wrong, code);
            operands.launch(c, nothing, Code::ok);
            operands.expect_products(c);
        }
    };
    each({0, 64, 4}, expected);
    each({2, 32, 6}, of_scales);
}

const check::Registration cases[] = {
    check::Registration({"check_blackwell", "a product of each kind in every swizzle", layouts}),
    check::Registration({"check_blackwell", "each fault ends its launch, and no more", faults}),
};

}  // namespace
