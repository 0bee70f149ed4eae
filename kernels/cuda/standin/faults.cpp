#include "faults.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <sstream>
#include <vector>

#include "settings.h"

namespace standin {

namespace {

struct Planned {
    std::string name;
    int device = -1;  // any
    unsigned call;
    bool and_later;
    Effect effect;
    unsigned calls = 0;
};

[[noreturn]] void refuse(const std::string& entry) {
    // A fault that is not understood would be a test that tests nothing.
    std::fprintf(stderr, "stand-in driver: ASSAY_STANDIN_FAULT has an entry that is not NAME:CALL:EFFECT: %s\n", entry.c_str());
    std::abort();
}

Effect effect_of(const std::string& text, const std::string& entry) {
    using Kind = Effect::Kind;
    auto number = [&](std::size_t after) { return std::uint64_t(std::strtoull(text.c_str() + after, nullptr, 10)); };
    if (text.starts_with("sticky")) return {Kind::sticky, number(6)};
    if (text.starts_with("tenant")) return {Kind::tenant, number(6) << 20};
    if (text == "hang") return {Kind::hang, 0};
    if (text == "skip") return {Kind::skip, 0};
    if (text == "flip") return {Kind::flip, 0};
    if (text == "exit") return {Kind::exit, 0};
    if (!text.empty() && text.find_first_not_of("0123456789") == std::string::npos) return {Kind::code, number(0)};
    refuse(entry);
}

std::vector<Planned> parse() {
    std::vector<Planned> all;
    std::stringstream stream(Settings::get().faults);
    for (std::string entry; std::getline(stream, entry, ';');) {
        std::stringstream pieces(entry);
        std::string name, call, effect;
        if (!std::getline(pieces, name, ':') || !std::getline(pieces, call, ':') || !std::getline(pieces, effect)) refuse(entry);
        Planned planned{};
        const auto at = name.find('@');
        planned.device = at == std::string::npos ? -1 : std::atoi(name.c_str() + at + 1);
        planned.name = name.substr(0, at);
        planned.call = unsigned(std::atoi(call.c_str()));
        planned.and_later = call.ends_with('+');
        planned.effect = effect_of(effect, entry);
        if (planned.call == 0) refuse(entry);
        all.push_back(planned);
    }
    return all;
}

/// Whether no fault happened before, where only one is to happen.
bool is_first() {
    const auto& path = Settings::get().once;
    if (path.empty()) return true;
    const int file = open(path.c_str(), O_CREAT | O_EXCL | O_WRONLY, 0600);
    if (file < 0) return false;
    close(file);
    return true;
}

}  // namespace

Effect fault_at(const std::string& name, int device) {
    static std::mutex mutex;
    std::lock_guard lock(mutex);
    static auto& planned = *new std::vector<Planned>(parse());
    Effect effect;
    for (auto& entry : planned) {
        if (entry.name != name || (entry.device >= 0 && entry.device != device)) continue;
        ++entry.calls;
        if (entry.calls == entry.call || (entry.and_later && entry.calls > entry.call)) effect = entry.effect;
    }
    if (effect && !is_first()) return {};
    if (effect.kind == Effect::Kind::exit) std::_Exit(9);
    return effect;
}

}  // namespace standin
