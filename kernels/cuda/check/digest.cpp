// assay_digest and assay_subtrees: BLAKE3 trees of a power of two chunks.
#include "check.h"

#include <algorithm>

namespace {

constexpr std::uint32_t block_chunks = 128;

unsigned blocks_of(std::uint32_t chunks) { return std::max(1u, chunks / block_chunks); }

const std::uint8_t* bytes_of(const reference::Words8& words) { return reinterpret_cast<const std::uint8_t*>(words.data()); }

/// `rounds` times over the same counter, as one slot follows another.
void digest(check::Case& c, std::uint32_t chunks, int rounds) {
    c.at(std::to_string(chunks) + " chunks");
    const check::Buffer data(std::size_t{1024} * chunks), partials(32 * blocks_of(chunks)), arrivals(4), digest(32);
    *arrivals.words() = 0;
    for (int round = 0; round < rounds; ++round) {
        c.fill(data);
        c.launch(blocks_of(chunks), data.data(), chunks, partials.words(), arrivals.words(), digest.words());
        c.expect_same(digest.data(), bytes_of(reference::blake3(data.data(), data.size())), 32, "the digest");
        c.expect(*arrivals.words() == 0, "the counter of arrivals is not zero afterwards");
    }
    data.expect_guards("data");
    partials.expect_guards("partials");
    arrivals.expect_guards("arrivals");
    digest.expect_guards("digest");
}

void digests(check::Case& c) {
    for (std::uint32_t chunks = 4; chunks <= 4096; chunks *= 2) digest(c, chunks, 2);
}

// More blocks than threads: every thread merges some before the block does.
void large_digest(check::Case& c) {
    digest(c, 65536, 1);
}

void subtrees(check::Case& c) {
    for (const std::uint32_t chunks : {4u, 8u, 64u, 128u, 256u, 1024u}) {
        const check::Buffer data(std::size_t{1024} * chunks);
        c.fill(data);
        for (std::uint32_t each = 1; each <= block_chunks && each < chunks; each *= 2) {
            c.at(std::to_string(chunks) + " chunks in subtrees of " + std::to_string(each));
            const check::Buffer values(std::size_t{32} * (chunks / each));
            c.launch(blocks_of(chunks), data.data(), chunks, each, values.words());
            for (std::uint32_t i = 0; i < chunks / each; ++i)
                c.expect_same(values.data() + 32 * i, bytes_of(reference::subtree(data.data(), i * each, each)), 32, "a chaining value");
            values.expect_guards("values");
        }
    }
}

const check::Registration cases[] = {
    check::Registration({"assay_digest", "4 to 4096 chunks, twice each", digests}),
    check::Registration({"assay_digest", "65536 chunks", large_digest}),
    check::Registration({"assay_subtrees", "subtrees of 1 to 128 of 4 to 1024 chunks", subtrees}),
};

}  // namespace
