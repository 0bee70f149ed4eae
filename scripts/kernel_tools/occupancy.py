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
    """Resident blocks of a kernel on a multiprocessor."""
    limits = LIMITS[kernel.target]
    warps = -(-kernel.threads // WARP)
    warp_registers = _up(kernel.registers * WARP, REGISTER_UNIT)
    shared = _up(kernel.static_shared + dynamic_shared + limits.reserved, limits.shared_unit)
    count = min(limits.blocks, limits.warps // warps, REGISTERS // QUARTERS // warp_registers * QUARTERS // warps)
    if shared:
        count = min(count, limits.shared_kib * 1024 // shared)
    is_too_large = kernel.static_shared + dynamic_shared > limits.shared_per_block_kib * 1024
    return 0 if is_too_large or warp_registers * _up(warps, QUARTERS) > REGISTERS else count


def table(rows):
    """The Markdown table of (Resources, dynamic shared memory) pairs: a row for each kernel, targets alike together."""
    kernels = {}
    for kernel, dynamic in rows:
        count = blocks(kernel, dynamic)
        share = 100 * count * -(-kernel.threads // WARP) // LIMITS[kernel.target].warps
        row = (kernel.kernel, kernel.threads, kernel.static_shared, dynamic)
        found = f"{kernel.registers}×{count} ({share}%)"
        kernels.setdefault(row, {}).setdefault(found, []).append(kernel.target.removeprefix("sm_"))
    lines = ["| kernel | threads | shared memory, static + dynamic | registers × blocks (share of warps) |", "|---|--:|--:|---|"]
    for (name, threads, static, dynamic), groups in kernels.items():
        found = ", ".join(f"sm_{'/'.join(targets)} {figures}" for figures, targets in groups.items())
        lines.append(f"| `{name}` | {threads} | {static} + {dynamic} | {found} |")
    return "\n".join(lines) + "\n"
