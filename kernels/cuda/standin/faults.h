// Faults at chosen calls. ASSAY_STANDIN_FAULT holds entries NAME:CALL:EFFECT with semicolons between. NAME is a
// function of the driver or a kernel, with @DEVICE behind it for one device's calls alone; CALL counts from 1, and a +
// behind it means that call and all later ones.
//
//   EFFECT        of a function                           of a kernel's launch
//   NUMBER        it returns that error                   the launch returns that error
//   stickyNUMBER  the device fails with it from then on   the same, once the launch is reached in its stream
//   hang          a copy never ends                       the stream never gets past it
//   skip          it does nothing, and says it did        the same
//   flip          a copy to the host gets one wrong bit   -
//   tenantMIB     another process takes so many MiB       the same, once it is called
//   exit          the process is killed                   the same
#pragma once
#include <cstdint>
#include <string>

namespace standin {

struct Effect {
    enum class Kind { none, code, sticky, hang, skip, flip, tenant, exit };
    Kind kind = Kind::none;
    std::uint64_t value = 0;
    explicit operator bool() const { return kind != Kind::none; }
};

/// What happens at this call of `name` for `device` (-1: no device). Counts it.
Effect fault_at(const std::string& name, int device);

}  // namespace standin
