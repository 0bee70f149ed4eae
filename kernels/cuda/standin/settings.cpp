#include "settings.h"

#include <cstdlib>
#include <sstream>
#include <stdexcept>

namespace standin {

namespace {

std::string text(const char* name, const char* otherwise) {
    const char* value = std::getenv(name);
    return value ? value : otherwise;
}

template <class T, class Parse>
std::vector<T> list(const std::string& text, Parse parse) {
    std::vector<T> values;
    std::stringstream stream(text);
    for (std::string piece; std::getline(stream, piece, ',');) values.push_back(parse(piece));
    return values;
}

unsigned capability(const std::string& text) {
    const auto point = text.find('.');
    return unsigned(std::stoul(text.substr(0, point)) * 10 + std::stoul(text.substr(point + 1)));
}

std::vector<unsigned> visible(unsigned devices) {
    std::vector<unsigned> found;
    if (const char* asked = std::getenv("CUDA_VISIBLE_DEVICES")) {
        // As the driver reads it: up to the first entry that names no GPU.
        for (int index : list<int>(asked, [](const std::string& piece) { return std::atoi(piece.c_str()); })) {
            if (index < 0 || unsigned(index) >= devices) break;
            found.push_back(unsigned(index));
        }
        return found;
    }
    for (unsigned i = 0; i < devices; ++i) found.push_back(i);
    return found;
}

Settings read() {
    Settings s;
    s.devices = unsigned(std::stoul(text("ASSAY_STANDIN_DEVICES", "2")));
    s.memory_bytes = list<std::uint64_t>(text("ASSAY_STANDIN_MEMORY_MIB", "256"),
                                         [](const std::string& piece) { return std::stoull(piece) << 20; });
    s.capability = list<unsigned>(text("ASSAY_STANDIN_CAPABILITY", "8.0"), capability);
    s.name = list<std::string>(text("ASSAY_STANDIN_NAME", "Stand-in GPU"), [](const std::string& piece) { return piece; });
    s.mode = list<int>(text("ASSAY_STANDIN_MODE", "0"), [](const std::string& piece) { return std::stoi(piece); });
    s.integrated = list<int>(text("ASSAY_STANDIN_INTEGRATED", "0"), [](const std::string& piece) { return std::stoi(piece); });
    s.peers = list<int>(text("ASSAY_STANDIN_PEERS", "0"), [](const std::string& piece) { return std::stoi(piece); });
    s.driver_version = std::stoi(text("ASSAY_STANDIN_DRIVER", "12000"));
    s.seed = std::stoull(text("ASSAY_STANDIN_SEED", "1"));
    s.faults = text("ASSAY_STANDIN_FAULT", "");
    s.once = text("ASSAY_STANDIN_ONCE", "");
    s.log = text("ASSAY_STANDIN_LOG", "");
    const std::string units = text("ASSAY_STANDIN_UNIT", "");
    if (!emulation::parse_units(units.c_str(), s.units)) throw std::invalid_argument("ASSAY_STANDIN_UNIT: " + units);
    s.visible = visible(s.devices);
    return s;
}

}  // namespace

const Settings& Settings::get() {
    // Never destroyed: streams may still run when the process ends.
    static const auto* settings = new Settings(read());
    return *settings;
}

}  // namespace standin
