// Operands of every kind of work in every encoding that a unit takes, against values written from docs/WORK.md and codes
// found by looking for the value among all codes of the format.
#include <cstring>

#include "check.h"
#include "encodings.h"

namespace check {

namespace {

/// The expansions that the backend asks for: kinds that their unit does not take as they are.
const struct {
    unsigned precision;
    std::vector<unsigned> encodings;
} kinds[] = {{1, {1, 2}}, {2, {1, 2}}, {5, {0, 1, 2, 3}}, {6, {0, 3}}};

void every_operand(Case& c) {
    // All bytes in order, all of them at random places, and a last block that is not whole.
    for (const std::size_t bytes : {std::size_t{256}, std::size_t{256 * 40}}) {
        const Buffer slot(bytes);
        c.fill(slot);
        for (unsigned i = 0; i < 256; ++i) slot.data()[i] = static_cast<std::uint8_t>(i);
        for (const auto& kind : kinds)
            for (const unsigned number : kind.encodings) {
                const Encoding& encoding = encodings[number];
                c.at("precision " + std::to_string(kind.precision) + " as " + encoding.name);
                const std::size_t out_bytes = bytes * reference::operands(kind.precision, 0).size() * encoding.bits / 8;
                const Buffer out(out_bytes);
                std::memset(out.data(), 0xEE, out.size());
                const auto pieces = static_cast<std::uint32_t>(out_bytes / 16);
                c.launch((pieces + 255) / 256, static_cast<const std::uint8_t*>(slot.data()), out.data(), pieces, std::uint32_t{kind.precision},
                         encoding.number);
                const std::uint8_t* at = out.data();
                for (std::size_t i = 0; i < bytes; ++i)
                    for (const int operand : reference::operands(kind.precision, slot.data()[i])) {
                        std::uint32_t code = 0;
                        std::memcpy(&code, at, encoding.bits / 8);
                        at += encoding.bits / 8;
                        c.expect(encoding.value(code) == operand, ("byte " + std::to_string(slot.data()[i]) + " is " + std::to_string(encoding.value(code)) +
                                                                   ", not " + std::to_string(operand)).c_str());
                    }
                out.expect_guards("the operands");
            }
    }
}

const Registration cases[] = {
    Registration({"assay_expand", "every byte of every kind in every encoding", every_operand}),
};

}  // namespace

}  // namespace check
