#include "module.h"

#include <algorithm>
#include <cstring>
#include <regex>

namespace standin {

namespace {

constexpr unsigned invalid_ptx = 218, unsupported_version = 222, no_binary = 209;

/// Bytes of each parameter of an entry, in order, from its declaration.
std::vector<std::size_t> parameters(const std::string& declaration) {
    std::vector<std::size_t> sizes;
    static const std::regex parameter(R"(\.param\s+(?:\.align\s+\d+\s+)?\.([bsuf])(\d+)\s+[\w$]+(?:\[(\d+)\])?)");
    for (std::sregex_iterator found(declaration.begin(), declaration.end(), parameter), end; found != end; ++found) {
        const std::size_t bytes = std::stoul((*found)[2]) / 8;
        sizes.push_back((*found)[3].matched ? bytes * std::stoul((*found)[3]) : bytes);
    }
    return sizes;
}

}  // namespace

unsigned Module::load(Device& device, const char* ptx, std::unique_ptr<Module>& module) {
    const std::string text = ptx;
    static const std::regex version(R"(\.version\s+(\d+)\.(\d+))"), target(R"(\.target\s+sm_(\d+)([af]?))");
    std::smatch found;
    if (!std::regex_search(text, found, version)) return invalid_ptx;
    // PTX 8.0 came with CUDA 12.0, and each later minor version with one of CUDA's, but for 12.6, which had none; 9.0 with 13.0.
    const int cuda = Settings::get().driver_version / 10, minor = cuda % 100;
    const int newest = cuda >= 1300 ? 90 + minor : 80 + minor - (minor >= 6 ? 1 : 0);
    if (std::stoi(found[1]) * 10 + std::stoi(found[2]) > newest) return unsupported_version;
    if (!std::regex_search(text, found, target)) return invalid_ptx;
    const unsigned needed = unsigned(std::stoul(found[1]));
    // For this architecture alone, for the later ones of its family, or for all later ones.
    const bool exact = found[2] == "a", family = found[2] == "f";
    if (exact ? needed != device.capability : needed > device.capability) return no_binary;
    if (family && needed / 10 != device.capability / 10) return no_binary;
    module = std::make_unique<Module>();
    module->device_ = &device;
    module->ptx_ = text;
    return 0;
}

Function* Module::find(const char* name) {
    const auto start = ptx_.find(".entry " + std::string(name) + "(");
    if (start == std::string::npos) return nullptr;
    const auto* kernel = emulation::find(name);
    if (!kernel) return nullptr;
    const std::string declaration = ptx_.substr(start, ptx_.find(')', start) - start);
    functions_.push_back(std::make_unique<Function>(Function{kernel, parameters(declaration), 48 << 10, device_}));
    return functions_.back().get();
}

bool JitLogs::take(unsigned count, const int* options, void** values) {
    enum { info_buffer = 3, info_bytes = 4, error_buffer = 5, error_bytes = 6, log_verbose = 12 };
    for (unsigned i = 0; i < count; ++i) {
        switch (options[i]) {
            case info_buffer: info_.buffer = static_cast<char*>(values[i]); break;
            case info_bytes: info_.bytes = values + i; break;
            case error_buffer: error_.buffer = static_cast<char*>(values[i]); break;
            case error_bytes: error_.bytes = values + i; break;
            case log_verbose: verbose_ = values[i] != nullptr; break;
            default: return false;
        }
    }
    return !info_.buffer == !info_.bytes && !error_.buffer == !error_.bytes;
}

void JitLogs::write(unsigned code, const char* ptx) {
    std::string compiled;
    static const std::regex entry(R"(\.entry\s+([\w$]+))");
    for (std::cregex_iterator found(ptx, ptx + std::strlen(ptx), entry), end; found != end; ++found)
        compiled += "ptxas info    : Compiling entry function '" + (*found)[1].str() + "'\n";
    // Without log_verbose the compiler only reports unusual findings.
    info_.write(code == 0 && verbose_ ? compiled : "");
    error_.write(code == 0 ? "" : "ptxas stand-in, line 1; fatal   : error " + std::to_string(code) + "\n");
}

void JitLogs::Log::write(const std::string& text) {
    if (!buffer) return;
    const auto room = reinterpret_cast<std::uintptr_t>(*bytes);
    const std::size_t filled = room == 0 ? 0 : std::min<std::size_t>(text.size(), room - 1);
    std::memcpy(buffer, text.data(), filled);
    if (room > 0) buffer[filled] = 0;
    *bytes = reinterpret_cast<void*>(filled);
}

}  // namespace standin
