// assay_keystream: leaves, and starts of probe rounds.
#include "check.h"

namespace {

void run(check::Case& c) {
    const std::uint64_t streams[] = {0, 1, (1u << 20) - 1, 0xFFFFFFFF, 0x100000000, 0xFEDCBA9876543210, c.random().next()};
    for (const std::uint64_t stream : streams)
        // Whole blocks of threads, parts of a warp, and a leaf of n = 256.
        for (const std::uint32_t blocks : {1u, 3u, 31u, 32u, 33u, 64u, 255u, 256u, 257u, 1000u, 1024u}) {
            c.at("stream " + std::to_string(stream) + ", " + std::to_string(blocks) + " blocks");
            const auto key = c.random_words();
            const check::Buffer out(std::size_t{64} * blocks);
            c.launch((blocks + 255) / 256, out.data(), key, stream, blocks);
            c.expect_same(out.data(), reference::keystream(key, stream, blocks).data(), out.size(), "the keystream");
            out.expect_guards("the keystream");
        }
}

const check::Registration cases({"assay_keystream", "7 streams, 1 to 1024 blocks", run});

}  // namespace
