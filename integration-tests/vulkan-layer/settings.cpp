#include "settings.h"

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <sstream>

namespace trouble {

namespace {

std::string text(const std::string& name) {
    const char* value = std::getenv(("ASSAY_VULKAN_" + name).c_str());
    return value ? value : "";
}

template <class T>
PerDevice<T> list(const std::string& name, const std::function<T(const std::string&)>& parse) {
    std::vector<std::optional<T>> values;
    const std::string all = text(name);
    // A comma at the end leaves the last device as it is.
    std::stringstream stream(all.ends_with(',') ? all + ',' : all);
    for (std::string piece; std::getline(stream, piece, ',');) {
        try {
            values.push_back(piece.empty() ? std::optional<T>() : parse(piece));
        } catch (const std::exception&) {
            refuse("ASSAY_VULKAN_" + name + " has a value that is not understood: " + piece);
        }
    }
    return PerDevice<T>(std::move(values));
}

std::string itself(const std::string& piece) { return piece; }

std::uint64_t number(const std::string& piece) {
    std::size_t read = 0;
    const std::uint64_t value = std::stoull(piece, &read, 0);
    if (read != piece.size()) throw std::invalid_argument(piece);
    return value;
}

std::uint32_t number32(const std::string& piece) { return std::uint32_t(number(piece)); }

std::uint64_t mib(const std::string& piece) { return number(piece) << 20; }

VkPhysicalDeviceType type(const std::string& piece) {
    if (piece == "discrete") return VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
    if (piece == "integrated") return VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU;
    if (piece == "virtual") return VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU;
    if (piece == "cpu") return VK_PHYSICAL_DEVICE_TYPE_CPU;
    if (piece == "other") return VK_PHYSICAL_DEVICE_TYPE_OTHER;
    throw std::invalid_argument(piece);
}

std::string pci(const std::string& piece) {
    pci_address(piece);
    return piece;
}

std::string none(const std::string& piece) {
    if (piece != "none") throw std::invalid_argument(piece);
    return piece;
}

std::array<std::uint8_t, VK_UUID_SIZE> uuid(const std::string& piece) {
    std::array<std::uint8_t, VK_UUID_SIZE> bytes;
    if (piece.size() != 2 * bytes.size()) throw std::invalid_argument(piece);
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = std::uint8_t(std::stoul(piece.substr(2 * i, 2), nullptr, 16));
    return bytes;
}

Settings read() {
    Settings s;
    s.name = list<std::string>("NAME", itself);
    s.type = list<VkPhysicalDeviceType>("TYPE", type);
    s.vendor = list<std::uint32_t>("VENDOR", number32);
    s.device = list<std::uint32_t>("DEVICE", number32);
    s.pci = list<std::string>("PCI", pci);
    s.uuid = list<std::array<std::uint8_t, VK_UUID_SIZE>>("UUID", uuid);
    s.max_binding_bytes = list<std::uint64_t>("MAX_BINDING", number);
    s.max_buffer_bytes = list<std::uint64_t>("MAX_BUFFER", number);
    s.max_storage_buffers = list<std::uint64_t>("MAX_STORAGE_BUFFERS", number);
    s.max_shared_bytes = list<std::uint64_t>("MAX_SHARED", number);
    s.max_invocations = list<std::uint64_t>("MAX_INVOCATIONS", number);
    s.memory_bytes = list<std::uint64_t>("MEMORY_MIB", mib);
    s.budget = list<std::string>("BUDGET", none);
    s.conformance = list<std::string>("CONFORMANCE", none);
    s.tenant = text("TENANT");
    s.faults = text("FAULT");
    s.once = text("ONCE");
    s.when = text("WHEN");
    s.log = text("LOG");
    return s;
}

}  // namespace

const Settings& Settings::get() {
    // Never destroyed: the driver's threads may still run when the process ends.
    static const auto* settings = new Settings(read());
    return *settings;
}

std::optional<PciAddress> pci_address(const std::string& text) {
    if (text == "none") return {};
    PciAddress address{};
    char rest = 0;
    const int read = std::sscanf(text.c_str(), "%x:%x:%x.%x%c", &address.domain, &address.bus, &address.device,
                                 &address.function, &rest);
    if (read != 4) throw std::invalid_argument(text);
    return address;
}

void refuse(const std::string& why) {
    std::fprintf(stderr, "the layer of the Vulkan tests: %s\n", why.c_str());
    std::abort();
}

}  // namespace trouble
