// Address space as large as a GPU's memory, of which a case touches little: slots whose offsets need more
// than 32 bits, matrices of the largest size.
#pragma once
#include <sys/mman.h>

#include "check.h"

namespace check {

class Sparse {
public:
    explicit Sparse(std::size_t bytes)
        : bytes_(bytes),
          memory_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
        if (memory_ == MAP_FAILED) throw Failure{"cannot reserve " + std::to_string(bytes >> 30) + " GiB of address space"};
    }
    ~Sparse() { munmap(memory_, bytes_); }
    Sparse(const Sparse&) = delete;
    Sparse& operator=(const Sparse&) = delete;

    std::uint8_t* data() const { return static_cast<std::uint8_t*>(memory_); }

private:
    std::size_t bytes_;
    void* memory_;
};

}  // namespace check
