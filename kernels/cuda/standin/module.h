// Modules: PTX, read as far as a launch needs it. What the PTX says of a kernel's parameters is what is copied from the
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
    /// 0, or CUDA's error: the PTX is none, or for another GPU, or newer than the driver.
    static unsigned load(Device& device, const char* ptx, std::unique_ptr<Module>& module);
    /// Null when the PTX has no such entry, or no kernel is emulated under its name.
    Function* find(const char* name);

private:
    Device* device_;
    std::string ptx_;
    std::vector<std::unique_ptr<Function>> functions_;
};

}  // namespace standin
