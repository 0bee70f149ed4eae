// The cases of the products that take tensor maps and sum integers: those of every family, launched with every size of a
// persistent grid; and the refusals of the twin of the driver's encoding.
#include "../emulation/hopper.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "product.h"

namespace check {

namespace {

constexpr const char *kernel = "assay_product_wgmma_sm90a", *blackwell = "assay_product_tcgen05_int8_sm100a";

/// cuTensorMapEncodeTiled's arguments as the backend gives them for one operand.
struct Request {
    std::uint64_t sizes[2], strides_bytes[1];
    std::uint32_t box[2], element_strides[2] = {1, 1};
    emulation::MapRequest fields;

    Request(const void* matrix, std::uint32_t n, std::uint32_t depth, std::uint32_t rows)
        : sizes{depth, n}, strides_bytes{depth}, box{128, rows},
          fields{0, 2, matrix, sizes, strides_bytes, box, element_strides, 0, 3} {}
    Request(const Request&) = delete;  // fields point into it

    TensorMap encode() const {
        TensorMap map;
        if (!emulation::encode_map(map, fields)) throw Failure{"the tensor map is refused"};
        return map;
    }
};

void launch_on(Case& c, unsigned grid, const ProductLaunch& p) {
    const TensorMap left = Request(p.left, p.n, p.depth, c.kernel().tile_rows).encode();
    const TensorMap right = Request(p.right, p.n, p.depth, c.kernel().tile_columns).encode();
    c.launch(grid, left, right, p);
}

}  // namespace

/// Any grid from one block to one for each tile: a block takes several tiles, and some blocks one more.
void launch_mapped(Case& c, const ProductLaunch& p) { launch_on(c, 1 + c.random().below(p.tiles), p); }

namespace {

const ProductCases families[] = {{kernel, launch_mapped}, {blackwell, launch_mapped}};

/// One block and all tiles: the ring of stages goes round many times.
void one_block(Case& c) {
    constexpr std::uint32_t n = 512;
    Buffer slots(std::size_t{3} * n * n);
    c.fill(slots);
    std::uint8_t *earlier = slots.data(), *previous = earlier + n * n, *slot = previous + n * n;
    const auto expected = reference::product(earlier, previous, n, 2);
    const std::uint32_t tiles = n / c.kernel().tile_rows * (n / c.kernel().tile_columns);
    c.at("n = 512, one block");
    launch_on(c, 1, {earlier, previous, slot, nullptr, n, n, n, 0, 2, 0, tiles});
    c.expect_same(slot, expected.data(), expected.size(), "slot 2");
    slots.expect_guards("the slots");
}

/// The digest of a slot beside some tiles of a product of zeros, in any grid; twice, over the same counters; of n = 8192,
/// whose tree has three levels above the groups, once.
void hashed(Case& c) {
    for (const std::uint32_t n : {256u, 512u, 1024u, 2048u, 8192u}) {
        c.at("n = " + std::to_string(n));
        const Buffer zeros(n * n), slot(n * n), before(n * n), digest(32);
        // Of groups, and of values merged from them: a 31st more at most.
        const std::uint32_t groups = n * n / 32768, counters = groups / 31 + 2;
        const Buffer partials(std::size_t{32} * (groups + counters)), arrivals(std::size_t{4} * counters);
        std::memset(zeros.data(), 0, zeros.size());
        std::memset(arrivals.data(), 0, arrivals.size());
        // In 64 blocks, a value of a higher level is there before the others have groups.
        const std::vector<std::uint32_t> of_tiles = n == 8192 ? std::vector{1u} : n == 2048 ? std::vector{1u, 64u} : std::vector{1u, 2u};
        for (const std::uint32_t tiles : of_tiles) {
            c.fill(before);
            ProductLaunch p{zeros.data(), zeros.data(), slot.data(), nullptr, n, 256, 256, 0, 2, 0, tiles};
            p.hashed = before.data();
            p.partials = partials.words();
            p.arrivals = arrivals.words();
            p.digest = digest.words();
            if (tiles == 64) launch_on(c, 64, p);
            else launch_mapped(c, p);
            const auto expected = reference::blake3(before.data(), before.size());
            c.expect_same(digest.data(), reinterpret_cast<const std::uint8_t*>(expected.data()), 32, "the digest");
            const std::uint32_t* const counted = arrivals.words();
            c.expect(std::count(counted, counted + counters, 0u) == counters, "a counter of arrivals is not zero afterwards");
        }
        partials.expect_guards("the partial values");
        arrivals.expect_guards("the counters");
        digest.expect_guards("the digest");
    }
}

void refused_maps(Case& c) {
    Buffer slots(4096);
    const auto refused = [&](const char* what, auto change) {
        Request request(slots.data(), 256, 256, 128);
        change(request);
        TensorMap map;
        c.expect(!emulation::encode_map(map, request.fields), what);
    };
    refused("a base off 16 bytes is taken", [&](Request& r) { r.fields.address = slots.data() + 8; });
    refused("a pitch off 16 bytes is taken", [](Request& r) { r.strides_bytes[0] = 264; });
    refused("a box of 512 rows is taken", [](Request& r) { r.box[1] = 512; });
    refused("a box wider than its swizzle is taken", [](Request& r) { r.box[0] = 256; });
    refused("an empty matrix is taken", [](Request& r) { r.sizes[1] = 0; });
    refused("an unknown swizzle is taken", [](Request& r) { r.fields.swizzle = 9; });
    refused("elements of four bytes are taken", [](Request& r) { r.fields.data_type = 2; });
}

const Registration registrations[] = {
    Registration({kernel, "n = 512, one block", one_block}),
    Registration({blackwell, "n = 512, one block", one_block}),
    Registration({kernel, "a slot hashed beside a product", hashed}),
    Registration({blackwell, "a slot hashed beside a product", hashed}),
    Registration({kernel, "tensor maps that the driver refuses", refused_maps}),
};

}  // namespace

}  // namespace check
