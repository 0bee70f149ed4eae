#include "product.h"

#include <cstring>

#include "limits.h"

namespace check {

namespace {

constexpr std::uint32_t slots_held = 4;

class ProductCase {
public:
    ProductCase(Case& c, const Launcher& launcher, std::uint32_t n)
        : case_(c), launcher_(launcher), n_(n), slots_(std::size_t{slots_held} * n * n) {
        case_.fill(slots_);
    }

    std::uint8_t* slot(std::uint32_t u) const { return slots_.data() + std::size_t{u} * n_ * n_; }
    std::size_t slot_bytes() const { return std::size_t{n_} * n_; }
    std::uint32_t tiles() const { return n_ / case_.kernel().tile_rows * (n_ / case_.kernel().tile_columns); }

    /// Computes slot u in `launches` parts and compares it, and all that must not have changed.
    void run(std::uint32_t earlier, std::uint32_t previous, std::uint32_t u, unsigned launches) {
        case_.at("n = " + std::to_string(n_) + ", slot " + std::to_string(u) + " from " + std::to_string(earlier) + " and " +
                 std::to_string(previous) + " in " + std::to_string(launches) + " launches");
        reference::Bytes expected(slots_.data(), slots_.data() + slots_.size());
        const auto product = reference::product(slot(earlier), slot(previous), n_, u);
        std::memcpy(expected.data() + u * slot_bytes(), product.data(), product.size());
        std::memset(slot(u), 0xEE, slot_bytes());
        std::uint32_t first = 0;
        for (unsigned i = 0; i < launches; ++i) {
            const std::uint32_t end = static_cast<std::uint32_t>(std::uint64_t{tiles()} * (i + 1) / launches);
            if (end > first) launcher_(case_, {slot(earlier), slot(previous), slot(u), nullptr, n_, n_, n_, 0, u, first, end - first});
            first = end;
        }
        case_.expect_same(slots_.data(), expected.data(), expected.size(), "the slots");
        slots_.expect_guards("the slots");
    }

    void set(std::uint32_t u, int value) { std::memset(slot(u), value, slot_bytes()); }

private:
    Case& case_;
    const Launcher& launcher_;
    std::uint32_t n_;
    Buffer slots_;
};

/// The sums themselves, of rows longer than the matrix is wide and of shorter ones, in two launches.
void raw(Case& c, const Launcher& launcher) {
    constexpr std::uint32_t n = 512;
    for (const std::uint32_t depth : {256u, 1024u}) {
        c.at("n = 512, rows of " + std::to_string(depth) + " bytes");
        const Buffer left(n * depth), right(n * depth), sums(std::size_t{4} * n * n), slot(n * n);
        c.fill(left);
        c.fill(right);
        std::memset(slot.data(), 0xEE, slot.size());
        const std::uint32_t rows = c.kernel().tile_rows, columns = c.kernel().tile_columns, tiles = n / rows * (n / columns);
        for (const auto& [first, count] : {std::pair{0u, 1u}, {1u, tiles - 1}})
            launcher(c, {left.data(), right.data(), slot.data(), sums.words() + first * rows * columns, n, depth, depth, 1, 2, first, count});
        const auto expected = reference::sums_by_tile(left.data(), right.data(), n, depth, rows, columns);
        c.expect_same(sums.data(), reinterpret_cast<const std::uint8_t*>(expected.data()), sums.size(), "the sums");
        for (std::size_t i = 0; i < slot.size(); ++i) c.expect(slot.data()[i] == 0xEE, "raw sums were mixed as well");
        sums.expect_guards("the sums");
    }
}

/// Every arrangement of parents that can be: a leaf and a product, twice the same slot.
void small(Case& c, const Launcher& launcher) {
    ProductCase product(c, launcher, 256);
    product.run(0, 1, 2, 1);
    product.run(0, 2, 3, 1);
    product.run(1, 2, 3, 1);
    product.run(1, 1, 2, 1);
}

/// The ends of a byte's range, where a sign or a carry that goes astray shows.
void extremes(Case& c, const Launcher& launcher) {
    ProductCase product(c, launcher, 256);
    for (const auto& [left, right] : {std::pair{0, 0}, {-128, -128}, {-128, 127}, {127, -128}, {-1, -128}, {0, -128}}) {
        product.set(0, left);
        product.set(1, right);
        product.run(0, 1, 2, 1);
    }
    // Both ends, at random.
    for (std::size_t i = 0; i < product.slot_bytes(); ++i) {
        product.slot(0)[i] = c.random().next() % 2 ? 0x80 : 0x7F;
        product.slot(1)[i] = c.random().next() % 2 ? 0x80 : 0x7F;
    }
    product.run(0, 1, 2, 1);
}

/// One element that is not zero in each parent: where it shows, the indices are right.
void single(Case& c, const Launcher& launcher) {
    ProductCase product(c, launcher, 256);
    for (int i = 0; i < 6; ++i) {
        product.set(0, 0);
        product.set(1, 0);
        const unsigned k = c.random().below(256);
        product.slot(0)[c.random().below(256) * 256 + k] = 0x80;
        product.slot(1)[c.random().below(256) * 256 + k] = 0x7D;
        product.run(0, 1, 2, 1);
    }
}

void cut(Case& c, const Launcher& launcher) {
    ProductCase product(c, launcher, 512);
    product.run(0, 1, 2, 2);
    product.run(1, 2, 3, 3);
    product.run(0, 2, 3, 100);
}

void large(Case& c, const Launcher& launcher) {
    ProductCase product(c, launcher, 1024);
    product.run(1, 2, 3, 2);
}

}  // namespace

ProductCases::ProductCases(const char* kernel, Launcher launcher) {
    const auto add = [&](const char* title, void (*run)(Case&, const Launcher&)) {
        Registration({kernel, title, [=](Case& c) { run(c, launcher); }});
    };
    add("n = 256, every choice of parents", small);
    add("n = 256, -128, 127, 0 and mixtures", extremes);
    add("n = 256, single elements", single);
    add("n = 512, cut into launches", cut);
    add("n = 512, raw sums", raw);
    add("n = 1024", large);
    add("n = 32768, the last tile, the largest sums", largest_matrix);
}

void launch_tiles(Case& c, const ProductLaunch& p) { c.launch(p.tiles, p); }

namespace {

const ProductCases families[] = {
    {"assay_product_dp4a", launch_tiles},
    {"assay_product_mma_sm75", launch_tiles},
    {"assay_product_mma_sm80", launch_tiles},
};

}  // namespace

}  // namespace check
