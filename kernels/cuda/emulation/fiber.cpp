#include "fiber.h"

#include <cstdint>

namespace emulation {

#ifdef ASSAY_FIBERS_X86_64

// The registers that the System V ABI has a callee save go onto the stack that is left; the other stack's come back.
asm(R"(
    .text
    .globl assay_emulation_switch
    .hidden assay_emulation_switch
    .type assay_emulation_switch, @function
assay_emulation_switch:
    push %rbp
    push %rbx
    push %r12
    push %r13
    push %r14
    push %r15
    mov %rsp, (%rdi)
    mov %rsi, %rsp
    pop %r15
    pop %r14
    pop %r13
    pop %r12
    pop %rbx
    pop %rbp
    ret
    .size assay_emulation_switch, . - assay_emulation_switch
)");

void prepare(Context& context, void* stack, std::size_t stack_bytes, void (*entry)()) {
    // The first switch pops six registers and returns into `entry`, which then finds the stack as after a
    // call: 8 bytes off a multiple of 16.
    const auto top = (reinterpret_cast<std::uintptr_t>(stack) + stack_bytes) & ~std::uintptr_t{63};
    auto** frame = reinterpret_cast<void**>(top) - 8;
    for (int i = 0; i < 6; ++i) frame[i] = nullptr;
    frame[6] = reinterpret_cast<void*>(entry);
    frame[7] = nullptr;
    context.stack_pointer = frame;
}

#else

void prepare(Context& context, void* stack, std::size_t stack_bytes, void (*entry)()) {
    getcontext(&context.state);
    context.state.uc_stack.ss_sp = stack;
    context.state.uc_stack.ss_size = stack_bytes;
    context.state.uc_link = nullptr;
    makecontext(&context.state, entry, 0);
}

#endif

}  // namespace emulation
