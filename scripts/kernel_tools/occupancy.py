"""How many blocks of a kernel a multiprocessor holds at once, and the table that says so.

The limits are those of NVIDIA's CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"; the
arithmetic and the granularities are those of cuda_occupancy.h in the CUDA toolkit: registers are given to a warp in
units of 256 and a quarter of the file lies with each quarter of a multiprocessor; shared memory is given to a block in
units of 128 bytes (Turing: 256), with 1 KiB more for the system since Ampere.
"""

from dataclasses import dataclass

WARP = 32
REGISTERS = 65536
REGISTER_UNIT = 256
QUARTERS = 4


@dataclass(frozen=True)
class Limits:
    """What one multiprocessor of a compute capability has."""

    warps: int
    blocks: int
    shared_kib: int
    shared_per_block_kib: int
    shared_unit: int = 128
    reserved: int = 1024


LIMITS = {
    "sm_75": Limits(32, 16, 64, 64, shared_unit=256, reserved=0),
    "sm_80": Limits(64, 32, 164, 163),
    "sm_86": Limits(48, 16, 100, 99),
    "sm_89": Limits(48, 24, 100, 99),
    "sm_90a": Limits(64, 32, 228, 227),
    "sm_100a": Limits(64, 32, 228, 227),
    "sm_103a": Limits(64, 32, 228, 227),
    "sm_120a": Limits(48, 24, 100, 99),
}


def _up(value, unit):
    return -(-value // unit) * unit


def blocks(kernel, dynamic_shared):
    """Resident blocks of a kernel on a multiprocessor, and what holds them down."""
    limits = LIMITS[kernel.target]
    warps = -(-kernel.threads // WARP)
    warp_registers = _up(kernel.registers * WARP, REGISTER_UNIT)
    shared = _up(kernel.static_shared + dynamic_shared + limits.reserved, limits.shared_unit)
    bounds = {
        "blocks": limits.blocks,
        "threads": limits.warps // warps,
        "registers": REGISTERS // QUARTERS // warp_registers * QUARTERS // warps,
        "shared memory": limits.shared_kib * 1024 // shared if shared else limits.blocks,
    }
    if kernel.static_shared + dynamic_shared > limits.shared_per_block_kib * 1024:
        bounds["shared memory"] = 0
    if warp_registers * _up(warps, QUARTERS) > REGISTERS:
        bounds["registers"] = 0
    least = min(bounds.values())
    return least, " and ".join(name for name, bound in bounds.items() if bound == least)


def table(rows):
    """The Markdown table of (Resources, dynamic shared memory) pairs."""
    lines = ["| kernel | target | threads | registers | shared memory, static + dynamic | spills | blocks | warps | share | bound by |",
             "|---|---|--:|--:|--:|--:|--:|--:|--:|---|"]
    for kernel, dynamic in rows:
        count, bound = blocks(kernel, dynamic)
        warps = count * -(-kernel.threads // WARP)
        share = 100 * warps // LIMITS[kernel.target].warps
        lines.append(f"| `{kernel.kernel}` | {kernel.target} | {kernel.threads} | {kernel.registers} | "
                     f"{kernel.static_shared} + {dynamic} | {kernel.spills} | {count} | {warps} | {share} % | {bound} |")
    return "\n".join(lines) + "\n"
