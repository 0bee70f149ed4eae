// The cases of the product for Hopper: those of every family, launched with tensor maps and with every size
// of a persistent grid; and what the twin of the driver's encoding refuses.
#include "../emulation/hopper.h"
#include "product.h"

namespace check {

namespace {

constexpr const char* kernel = "assay_product_wgmma_sm90a";

/// cuTensorMapEncodeTiled's arguments as the backend gives them for all slots as one matrix.
struct Request {
    std::uint64_t sizes[2], strides_bytes[1];
    std::uint32_t box[2], element_strides[2] = {1, 1};
    emulation::MapRequest fields;

    Request(const void* slots, std::uint32_t count, std::uint32_t n, std::uint32_t rows)
        : sizes{n, std::uint64_t{count} * n}, strides_bytes{n}, box{128, rows},
          fields{0, 2, slots, sizes, strides_bytes, box, element_strides, 0, 3} {}
    Request(const Request&) = delete;  // fields point into it

    TensorMap encode() const {
        TensorMap map;
        if (!emulation::encode_map(map, fields)) throw Failure{"the tensor map is refused"};
        return map;
    }
};

/// Any grid from one block to one for each tile: a block takes several tiles, and some blocks one more.
void launch(Case& c, const ProductLaunch& p) {
    const TensorMap left = Request(p.slots, p.count, p.n, c.kernel().tile_rows).encode();
    const TensorMap right = Request(p.slots, p.count, p.n, c.kernel().tile_columns).encode();
    const unsigned grid = 1 + c.random().below(p.tiles);
    c.launch(grid, left, right, p.slots, p.n, p.earlier, p.previous, p.u, p.first_tile, p.tiles);
}

const ProductCases family(kernel, launch);

/// One block and all tiles: the ring of stages goes round many times.
void one_block(Case& c) {
    constexpr std::uint32_t n = 512;
    Buffer slots(std::size_t{3} * n * n);
    c.fill(slots);
    const auto expected = reference::product(slots.data(), slots.data() + n * n, n, 2);
    const TensorMap left = Request(slots.data(), 3, n, c.kernel().tile_rows).encode();
    const TensorMap right = Request(slots.data(), 3, n, c.kernel().tile_columns).encode();
    const std::uint32_t tiles = n / c.kernel().tile_rows * (n / c.kernel().tile_columns);
    c.at("n = 512, one block");
    c.launch(1, left, right, slots.data(), n, 0u, 1u, 2u, 0u, tiles);
    c.expect_same(slots.data() + 2 * n * n, expected.data(), expected.size(), "slot 2");
    slots.expect_guards("the slots");
}

void refused_maps(Case& c) {
    Buffer slots(4096);
    const auto refused = [&](const char* what, auto change) {
        Request request(slots.data(), 1, 256, 128);
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
    Registration({kernel, "tensor maps that the driver refuses", refused_maps}),
};

}  // namespace

}  // namespace check
