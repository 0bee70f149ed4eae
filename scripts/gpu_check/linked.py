"""The linked probe where there is one GPU: with the processor as the other device, and with the GPU as two devices."""

import json

from . import cases
from .report import Report
from .tools import Tools

# Linked probes over two shares of different sizes; the GPU gets the larger one.
VECTORS = ["linked-probe-k6", "signed-linked"]
# What a device logs whose walks read other devices' memory.
MAPPED = "walks read the memory of the other devices"
# What one logs whose slots no other process maps.
PLAIN = 'by="cuMemAlloc"'


def run(tools: Tools, report: Report) -> None:
    """The vectors over processor and GPU, and the kernel that walks over the memory of two devices."""
    for gpu in tools.gpus:
        for name in VECTORS:
            by_both(tools, report, gpu, name)
        with_itself(tools, report, gpu)


def by_both(tools: Tools, report: Report, gpu, name: str) -> None:
    """A vector whose states go to and fro between the processor and the GPU."""
    vector = cases.read(tools, name)
    expected = {key: vector[key] for key in ("evidence", "answer") if key in vector}
    flags = ["--backend", "cpu,cuda", "--cpu-memory", "64MiB", *cases.NO_FLOAT_UNITS]
    found, error = tools.work_until_error([vector["challenge"]], [vector["probe"]], flags, gpu)
    title = f"{name}, cpu and GPU {gpu.index}"
    if error:
        report.check(title, False, error)
    else:
        cases.check(report, title, expected, found[0])


def with_itself(tools: Tools, report: Report, gpu) -> None:
    """Two workers of the GPU, each of which maps the other's slots: export, import, the kernel, all but the link. The first
    walks are compared with an exchange of states."""
    size = ["--n", "256", "--rounds", "1"] if tools.quick else ["--n", "4096", "--rounds", "3"]
    command = [tools.miner, "bench", "--backend", "cuda", "--link", "--twice", "--json", "--log", "debug", *size]
    done = tools.run([*command, *cases.NO_FLOAT_UNITS, *tools.key()], gpu)
    where = report.keep(f"linked-twice-gpu{gpu.index}.log", done.stderr)
    title = f"a linked probe of GPU {gpu.index} with itself"
    if report.check(title, done.returncode == 0, done.stderr[-4000:]):
        if PLAIN in done.stderr:
            report.headline(f"the driver shares no memory between processes: states are exchanged: {where}")
        else:
            report.check(f"{title}, over mapped memory", MAPPED in done.stderr, f"states were exchanged: {where}")
        probe = json.loads(done.stdout)["link"]["probe"]
        report.headline(f"GPU {gpu.index} with itself: {probe['bytes_per_s'] / 1e9:.4g} GB/s crossed, no link between: {where}")
