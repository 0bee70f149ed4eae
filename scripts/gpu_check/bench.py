"""`assay-miner bench`: one run beside the clocks, its figures, all families, and variants of kernels."""

import json
import pathlib

from . import clocks, cublaslt
from .report import Report
from .tools import KINDS, NoResult, Tools

# Slots of a pass at each size: as many as let a challenge's pass and this one differ little.
QUICK_FLAGS = ["--slots", "4", "--sample-ms", "1", "--rounds", "1"]
# Rounds and milliseconds of a sample where figures are only to be seen, not judged.
ROUGH_FLAGS = ["--rounds", "3", "--sample-ms", "200"]
VARIANT_SIZE = 8192


def measure(tools: Tools, report: Report, name: str, flags: list, limit_s: float, gpu=None) -> list:
    """Figures of each device of one run, which is a failed check when it fails; its JSON is kept."""
    command = [tools.miner, "bench", "--backend", "cuda", "--json", *tools.key(), *flags]
    with clocks.recorded(tools, report, name):
        done = tools.run(command, gpu, limit_s, cublaslt.folders())
    if not report.check(f"bench {name}", done.returncode == 0, f"{' '.join(command)}\n{done.stderr[-4000:]}"):
        return []
    report.text(done.stderr.rstrip())
    document = json.loads(done.stdout)
    report.keep(f"bench-{name}.json", done.stdout)
    report.figures[name] = document
    return document["devices"]


def rate(device: dict, stage: str, kind: "str | None" = None, n: "int | None" = None) -> "float | None":
    """The best rate of a stage in a run, of a kind and size where these are given; None where it was not measured."""
    precision = None if kind is None else KINDS[kind]
    rates = [
        figure["rate_per_s"]
        for figure in device["figures"]
        if figure["stage"] == stage and precision in (None, figure["precision"]) and n in (None, figure["n"])
    ]
    return max(rates, default=None)


def run(tools: Tools, report: Report) -> None:
    """All stages, families and kinds, as a table and a chart."""
    chart = report.files / "bench.svg"
    command = [tools.miner, "bench", "--backend", "cuda", "--kinds", ",".join(KINDS), "--svg", str(chart), *tools.key()]
    command += ["--n", "256", *QUICK_FLAGS] if tools.quick else ["--n", "1024,2048,4096,8192", *ROUGH_FLAGS]
    done = tools.run(command, limit_s=300, libraries=cublaslt.folders())
    if report.check("bench", done.returncode == 0, done.stderr[-4000:]):
        report.text(done.stdout.rstrip())
        report.headline(f"tables: {report.keep('bench.txt', done.stdout)}")


def variants(tools: Tools, report: Report, folder: "pathlib.Path | None") -> None:
    """Other PTX in place of the built-in one, each folder beside the built-in kernels, measured before and after."""
    if folder is None:
        report.headline("no variants: --ptx names a folder of folders with .ptx files")
        return
    folders = sorted({path.parent for path in folder.rglob("*.ptx")})
    report.check(f"{folder} holds .ptx files", bool(folders), "none found")
    baseline = stages(tools, report, "variant-none", [])
    for path in folders:
        name = path.relative_to(folder).as_posix().replace("/", "-") or "variant"
        try:
            found = stages(tools, report, f"variant-{name}", ["--ptx", str(path)])
        except NoResult as error:
            report.check(f"variant {name}", False, str(error))
            continue
        ratios = [f"{key} {found[key] / baseline[key]:.3f}" for key in sorted(found) if baseline.get(key)]
        report.headline(f"{name} / built-in: {', '.join(ratios)}")
    again = stages(tools, report, "variant-none-again", [])
    drift = [f"{key} {again[key] / baseline[key]:.3f}" for key in sorted(again) if baseline.get(key)]
    report.headline(f"built-in again / built-in: {', '.join(drift)}")


def stages(tools: Tools, report: Report, name: str, flags: list) -> dict:
    """Rates by stage, kind and kernel of the first GPU."""
    gpu = tools.gpus[0]
    kinds = [kind for kind in KINDS if gpu.families.get(kind)]
    chosen = sorted({gpu.families[kind][0] for kind in kinds})
    size = ["--n", "256", *QUICK_FLAGS] if tools.quick else ["--n", str(VARIANT_SIZE), *ROUGH_FLAGS]
    flags = [*size, "--kinds", ",".join(kinds), "--kernels", ",".join(chosen), *flags]
    devices = measure(tools, report, name, flags, 120, gpu)
    names = {number: kind for kind, number in KINDS.items()}
    title = lambda f: " ".join(part for part in (f["stage"], names.get(f["precision"]), f["kernel"]) if part)  # noqa: E731
    return {title(figure): figure["rate_per_s"] for device in devices for figure in device["figures"]}
