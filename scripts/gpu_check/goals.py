"""The goals of speed: products and passes beside cuBLASLt, over as many slots as a challenge has."""

from . import bench, cublaslt
from .report import Report
from .tools import KINDS, Tools

# Matrix sizes, the kinds of work measured at each, and how long that may take.
SIZES = {8192: (["int8", "f16", "fp8", "fp4"], 200), 16384: (["int8", "f16"], 160)}
# The kinds that have a peer and goals.
JUDGED = ["int8", "f16"]
# Product and peer stand next to each other in each of three rounds, with samples of many launches.
FLAGS = ["--rounds", "3", "--sample-ms", "500"]
# Of a pass: what one slot more or less costs is below the goals' last digit.
SLOTS = 128
RATIOS = [("product", "peer", 1.0), ("pass", "product", 0.98), ("pass", "peer", 0.98)]
PROBE_GOAL = 0.6


def run(tools: Tools, report: Report) -> None:
    """Each GPU at each size."""
    folders = cublaslt.folders()
    report.text("cuBLASLt: " + (", ".join(folders) or f"not found in {', '.join(cublaslt.patterns())}"))
    sizes = {256: (list(KINDS), 60)} if tools.quick else SIZES
    reached = []
    for gpu in tools.gpus:
        for n, (kinds, limit_s) in sizes.items():
            kinds = [kind for kind in kinds if gpu.families.get(kind)]
            chosen = sorted({gpu.families[kind][0] for kind in kinds})
            flags = ["--n", str(n), "--kinds", ",".join(kinds), "--kernels", ",".join(chosen)]
            flags += bench.QUICK_FLAGS if tools.quick else [*FLAGS, "--slots", str(slots(gpu, n))]
            for device in bench.measure(tools, report, f"goals-n{n}-gpu{gpu.index}", flags, limit_s, gpu):
                reached += judge(report, device, n, kinds)
    report.headline(f"goals reached: {sum(reached)} of {len(reached)}")


def slots(gpu, n: int) -> int:
    """128, or as many as four fifths of the free memory hold."""
    return max(8, min(SLOTS, gpu.free_bytes * 4 // 5 // (n * n)))


def judge(report: Report, device: dict, n: int, kinds: list) -> list:
    """Says each ratio beside its goal; whether each goal was reached. A peer that is missing is a failed check."""
    reached = []
    for kind in kinds:
        rates = {stage: bench.rate(device, stage, kind, n) for stage in ("product", "pass", "peer")}
        said = [f"{stage} {tera:.1f} TOPS" for stage, tera in ((s, r / 1e12) for s, r in rates.items() if r)]
        goals = RATIOS if kind in JUDGED else RATIOS[1:2]
        for ours, theirs, goal in RATIOS:
            if rates[ours] and rates[theirs]:
                ratio = rates[ours] / rates[theirs]
                verdict = (
                    ""
                    if (ours, theirs, goal) not in goals
                    else f" (goal {goal}: {'reached' if ratio >= goal else 'NOT REACHED'})"
                )
                said.append(f"{ours}/{'cuBLASLt' if theirs == 'peer' else theirs} {ratio:.3f}{verdict}")
                reached += [ratio >= goal] if verdict else []
        report.headline(f"{kind}, n = {n}: {', '.join(said) or 'not measured'}")
        if kind in JUDGED:
            why = device.get("no_peer") or "no figure of it"
            report.check(f"cuBLASLt beside {kind} at n = {n}", rates["peer"] is not None, why)
            if rates["peer"] is None:
                report.headline(f"cuBLASLt: not measured for {kind}: {why}")
    return reached + judge_probe(report, device)


def judge_probe(report: Report, device: dict) -> list:
    """The probe beside a copy within the device."""
    ours, theirs = bench.rate(device, "probe"), bench.rate(device, "device-copy")
    if not ours or not theirs:
        return []
    ratio = ours / theirs
    verdict = "reached" if ratio >= PROBE_GOAL else "NOT REACHED"
    report.headline(f"probe {ours / 1e9:.0f} GB/s, probe/copy {ratio:.3f} (goal {PROBE_GOAL}: {verdict})")
    return [ratio >= PROBE_GOAL]
