// Fibers: one stack for each CUDA thread, switched by hand on x86-64, by ucontext elsewhere.
// swapcontext would do everywhere, but saves the signal mask with a system call at each switch, and a
// product switches millions of times.
#pragma once
#include <cstddef>

#if defined(__x86_64__) && !defined(ASSAY_FIBERS_UCONTEXT)
#define ASSAY_FIBERS_X86_64
#else
#include <ucontext.h>
#endif

namespace emulation {

struct Context {
#ifdef ASSAY_FIBERS_X86_64
    void* stack_pointer = nullptr;
#else
    ucontext_t state;
#endif
};

/// Makes `context` start `entry` on `stack` at the first switch to it. `entry` must never return.
void prepare(Context& context, void* stack, std::size_t stack_bytes, void (*entry)());

#ifdef ASSAY_FIBERS_X86_64
extern "C" void assay_emulation_switch(void** save, void* load);
inline void switch_to(Context& from, Context& to) { assay_emulation_switch(&from.stack_pointer, to.stack_pointer); }
#else
inline void switch_to(Context& from, Context& to) { swapcontext(&from.state, &to.state); }
#endif

}  // namespace emulation
