#include "log.h"

#include <fcntl.h>
#include <unistd.h>

#include <string>

#include "settings.h"

namespace trouble {

void log(const char* function, unsigned device, std::initializer_list<std::uint64_t> figures) {
    const auto& path = Settings::get().log;
    if (path.empty()) return;
    static const int file = open(path.c_str(), O_CREAT | O_APPEND | O_WRONLY | O_CLOEXEC, 0600);
    std::string line = std::string(function) + '@' + std::to_string(device);
    for (auto figure : figures) line += ' ' + std::to_string(figure);
    line += '\n';
    if (write(file, line.data(), line.size()) != ssize_t(line.size())) refuse("cannot write to " + path);
}

}  // namespace trouble
