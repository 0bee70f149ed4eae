"""Nsight Compute's counters of a product, the digests and a probe."""

import shutil

from .report import Report
from .tools import NoResult, Tools

# A kernel's name, and how many of its launches of each grid go by before the one that is measured. Launches of a pass are
# sized by time, so that they are small here, where each is slow; the stage of products has whole ones.
KERNELS = {"product": ("assay_product", 1), "digest": ("assay_digest", 2), "probe": ("assay_probe", 2)}
LIMIT_S = 90


def run(tools: Tools, report: Report) -> None:
    """The first GPU, with its preferred family. Clocks are left as they are."""
    program = shutil.which("ncu")
    if program is None:
        report.headline("not run: ncu is not on this machine")
        return
    for name, (kernel, skipped) in KERNELS.items():
        one(tools, report, program, name, kernel, skipped)


def one(tools: Tools, report: Report, program: str, name: str, kernel: str, skipped: int) -> None:
    """One launch with all sections: the file for ncu-ui, and its pages as text."""
    gpu = tools.gpus[0]
    out = report.files / f"ncu-{name}"
    command = [program, "--clock-control", "none", "--target-processes", "all", "--kernel-name", f"regex:{kernel}"]
    command += [
        "--filter-mode",
        "per-launch-config",
        "--launch-skip",
        str(skipped),
        "--launch-count",
        "1",
        "--set",
        "full",
        "--force-overwrite",
        "--export",
        str(out),
    ]
    command += [tools.miner, "bench", "--backend", "cuda", "--kernels", gpu.families["int8"][0], *tools.key()]
    command += ["--n", "256" if tools.quick else "8192", "--rounds", "1", "--sample-ms", "50"]
    done = tools.run(command, gpu, LIMIT_S)
    path = out.with_suffix(".ncu-rep")
    if not report.check(
        f"ncu of {kernel}", path.exists(), f"exit code {done.returncode}\n{(done.stdout + done.stderr)[-4000:]}"
    ):
        return
    try:
        pages = tools.output([program, "--import", str(path), "--page", "details"])
        report.headline(f"{kernel}: {report.keep(f'ncu-{name}.txt', pages)}; {figures(pages)}")
    except NoResult as error:
        report.text(str(error))


def figures(pages: str) -> str:
    """Those that say most, of the details."""
    wanted = ("Duration", "Registers Per Thread", "Memory Throughput", "Compute (SM) Throughput", "Achieved Occupancy")
    lines = [" ".join(line.split()) for line in pages.splitlines()]
    return ", ".join(
        next(line for line in lines if line.startswith(name))
        for name in wanted
        if any(line.startswith(name) for line in lines)
    )
