#include "faults.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <mutex>
#include <sstream>
#include <utility>
#include <vector>

#include "settings.h"

namespace trouble {

namespace {

struct Planned {
    std::string name;
    int device;  // -1: any
    unsigned call;
    bool and_later;
    Effect effect;
    unsigned calls = 0;
};

std::mutex mutex;
std::uint64_t taken_bytes = 0;

constexpr std::pair<const char*, VkResult> results[] = {
    {"VK_ERROR_OUT_OF_HOST_MEMORY", VK_ERROR_OUT_OF_HOST_MEMORY},
    {"VK_ERROR_OUT_OF_DEVICE_MEMORY", VK_ERROR_OUT_OF_DEVICE_MEMORY},
    {"VK_ERROR_INITIALIZATION_FAILED", VK_ERROR_INITIALIZATION_FAILED},
    {"VK_ERROR_DEVICE_LOST", VK_ERROR_DEVICE_LOST},
    {"VK_ERROR_MEMORY_MAP_FAILED", VK_ERROR_MEMORY_MAP_FAILED},
    {"VK_ERROR_EXTENSION_NOT_PRESENT", VK_ERROR_EXTENSION_NOT_PRESENT},
    {"VK_ERROR_FEATURE_NOT_PRESENT", VK_ERROR_FEATURE_NOT_PRESENT},
    {"VK_ERROR_INCOMPATIBLE_DRIVER", VK_ERROR_INCOMPATIBLE_DRIVER},
    {"VK_ERROR_TOO_MANY_OBJECTS", VK_ERROR_TOO_MANY_OBJECTS},
    {"VK_ERROR_FRAGMENTED_POOL", VK_ERROR_FRAGMENTED_POOL},
    {"VK_ERROR_OUT_OF_POOL_MEMORY", VK_ERROR_OUT_OF_POOL_MEMORY},
    {"VK_ERROR_UNKNOWN", VK_ERROR_UNKNOWN},
};

[[noreturn]] void refuse_entry(const std::string& entry) {
    refuse("ASSAY_VULKAN_FAULT has an entry that is not FUNCTION:CALL:EFFECT: " + entry);
}

Effect effect_of(const std::string& text, const std::string& entry) {
    using Kind = Effect::Kind;
    for (const auto& [name, result] : results)
        if (text == name) return {Kind::result, result, 0};
    if (text == "hang") return {Kind::hang};
    if (text == "block") return {Kind::block};
    if (text == "skip") return {Kind::skip};
    if (text == "spoil") return {Kind::spoil};
    if (text == "exit") return {Kind::exit};
    if (text.starts_with("tenant"))
        return {Kind::tenant, VK_SUCCESS, std::uint64_t(std::strtoull(text.c_str() + 6, nullptr, 10)) << 20};
    refuse_entry(entry);
}

std::vector<Planned> parse() {
    std::vector<Planned> all;
    std::stringstream stream(Settings::get().faults);
    for (std::string entry; std::getline(stream, entry, ';');) {
        std::stringstream pieces(entry);
        std::string name, call, effect;
        if (!std::getline(pieces, name, ':') || !std::getline(pieces, call, ':') || !std::getline(pieces, effect))
            refuse_entry(entry);
        const auto at = name.find('@');
        const int device = at == std::string::npos ? -1 : std::atoi(name.c_str() + at + 1);
        const unsigned first = unsigned(std::atoi(call.c_str()));
        if (first == 0) refuse_entry(entry);
        all.push_back({name.substr(0, at), device, first, call.ends_with('+'), effect_of(effect, entry)});
    }
    return all;
}

/// Whether no fault happened before, where only one is to happen.
bool is_first() {
    const auto& path = Settings::get().once;
    if (path.empty()) return true;
    const int file = open(path.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    if (file < 0) return false;
    close(file);
    return true;
}

std::vector<Planned>& planned() {
    static auto& all = *new std::vector<Planned>(parse());
    return all;
}

Effect counted(const std::string& name, int device) {
    std::lock_guard lock(mutex);
    Effect effect;
    for (auto& entry : planned()) {
        if (entry.name != name || (entry.device >= 0 && entry.device != device)) continue;
        ++entry.calls;
        if (entry.calls == entry.call || (entry.and_later && entry.calls > entry.call)) effect = entry.effect;
    }
    if (effect.kind == Effect::Kind::none || !is_first()) return {};
    if (effect.kind == Effect::Kind::tenant) taken_bytes = effect.bytes;
    return effect;
}

}  // namespace

void check_faults(bool (*is_wrapped)(const std::string&)) {
    std::lock_guard lock(mutex);
    for (const auto& entry : planned())
        if (!is_wrapped(entry.name)) refuse("ASSAY_VULKAN_FAULT names what the layer does not wrap: " + entry.name);
}

Effect fault_at(const std::string& name, int device) {
    const Effect effect = counted(name, device);
    if (effect.kind == Effect::Kind::exit) std::_Exit(9);
    while (effect.kind == Effect::Kind::block) pause();
    return effect;
}

std::uint64_t tenant_bytes() {
    std::uint64_t mib = 0;
    if (const auto& path = Settings::get().tenant; !path.empty()) std::ifstream(path) >> mib;
    std::lock_guard lock(mutex);
    return taken_bytes + (mib << 20);
}

}  // namespace trouble
