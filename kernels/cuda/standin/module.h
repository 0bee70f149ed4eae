// Modules: PTX, read as far as a launch needs it. The parameters that the PTX declares for a kernel are copied from the
// caller, so that a caller and its PTX that disagree show here as they do on a GPU.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "../emulation/registry.h"
#include "device.h"

namespace standin {

struct Function {
    const emulation::Kernel* kernel;
    std::vector<std::size_t> argument_bytes;
    unsigned allowed_shared_bytes = 48 << 10;
    Device* device;
    int carveout_percent = -1;  // the driver's default
};

class Module {
public:
    /// 0, or CUDA's error: the text is not PTX, or for another GPU, or newer than the driver.
    static unsigned load(Device& device, const char* ptx, std::unique_ptr<Module>& module);
    /// Null when the PTX has no such entry, or no kernel is emulated under its name.
    Function* find(const char* name);

private:
    Device* device_;
    std::string ptx_;
    std::vector<std::unique_ptr<Function>> functions_;
};

/// The options of cuModuleLoadDataEx that ask for the compiler's logs.
class JitLogs {
public:
    /// False where the driver refuses: an option that is not known here, or a buffer without a size.
    bool take(unsigned count, const int* options, void** values);
    /// Fills the buffers, cut to their sizes and ended by a zero, and writes back how many bytes each has.
    void write(unsigned code, const char* ptx);

private:
    struct Log {
        char* buffer = nullptr;
        void** bytes = nullptr;  // in: the size, in place of a pointer; out: the bytes filled
        void write(const std::string& text);
    };
    Log info_, error_;
    bool verbose_ = false;
};

}  // namespace standin
