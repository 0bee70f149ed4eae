// The hardware that the stand-in driver pretends to be: read once, from the environment.
//
//   ASSAY_STANDIN_DEVICES      how many GPUs; 2
//   ASSAY_STANDIN_MEMORY_MIB   memory of each, commas between; the last one serves the rest; 256
//   ASSAY_STANDIN_CAPABILITY   compute capability of each, likewise; 8.0
//   ASSAY_STANDIN_NAME         name of each, likewise; "Stand-in GPU"
//   ASSAY_STANDIN_MODE         compute mode of each, likewise; 0
//   ASSAY_STANDIN_INTEGRATED   1 for a GPU in the host's memory, likewise; 0
//   ASSAY_STANDIN_PEERS        whether each has memory that other processes can map, likewise: 0 no, 1 its own but it reaches
//                              no other's, 2 yes, 3 yes but it reads something else there; 0
//   ASSAY_STANDIN_DRIVER       what cuDriverGetVersion gives; 12000
//   ASSAY_STANDIN_SEED         of the delays between streams and of the order of warps and blocks; 1
//   ASSAY_STANDIN_FAULT        faults, semicolons between (faults.h)
//   ASSAY_STANDIN_ONCE         a file that the first fault makes; while it is there, no fault happens, in any process
//   ASSAY_STANDIN_UNIT         matrix units, FORMAT:UNIT with commas between (emulation/unit.h); those of the instructions'
//                              first architectures
//   ASSAY_STANDIN_LOG          a file that gets a line for each module load, each recorded event and each launch, with the
//                              priority of the stream and the kernel's carveout (-1: none was asked for)
//   CUDA_VISIBLE_DEVICES       as the driver has it, numbers only
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "../emulation/unit.h"

namespace standin {

struct Settings {
    unsigned devices;
    std::vector<std::uint64_t> memory_bytes;
    std::vector<unsigned> capability;   // 10 · major + minor
    std::vector<std::string> name;
    std::vector<int> mode;
    std::vector<int> integrated;
    std::vector<int> peers;
    int driver_version;
    std::uint64_t seed;
    std::string faults;
    std::string once;
    std::string log;
    emulation::Units units;
    std::vector<unsigned> visible;      // the GPUs that this process sees, in its order

    static const Settings& get();
};

/// The value of a device: its own, or the last one given.
template <class T>
const T& of(const std::vector<T>& values, unsigned device) {
    return values[device < values.size() ? device : values.size() - 1];
}

}  // namespace standin
