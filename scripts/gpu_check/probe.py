"""The probe over more and more of the memory, with both ways to take it: where the rate falls, the TLB ends."""

from . import bench
from .report import Report
from .tools import Tools

# GB; those that do not fit are not asked for.
SIZES = [1, 4, 16, 32, 48, 64, 96, 128]
QUICK_SIZES = [0.0005, 0.001]
# Slots by cuMemCreate and cuMemMap, and by cuMemAlloc.
ALLOCATORS = ["map", "plain"]
LIMIT_S = 60


def run(tools: Tools, report: Report) -> None:
    """Each GPU, each allocator."""
    for gpu in tools.gpus:
        sizes = [size for size in (QUICK_SIZES if tools.quick else SIZES) if size * 1e9 <= 0.95 * gpu.free_bytes]
        for allocator in ALLOCATORS:
            flags = ["--probe-gb", ",".join(map(str, sizes)), "--allocator", allocator]
            flags += ["--rounds", "1", "--sample-ms", "1"] if tools.quick else ["--rounds", "3", "--sample-ms", "300"]
            name = f"probe-{allocator}-gpu{gpu.index}"
            for device in bench.measure(tools, report, name, flags, LIMIT_S, gpu):
                figures = [figure for figure in device["figures"] if figure["stage"] == "probe"]
                rates = [f"{figure['bytes'] / 1e9:.3g} GB: {figure['rate_per_s'] / 1e9:.4g}" for figure in figures]
                report.check(
                    f"a rate of each size, {allocator}, GPU {gpu.index}", len(figures) == len(sizes), str(rates)
                )
                report.headline(f"{allocator}, GB/s over {', '.join(rates)}")
