"""The same GPU through Vulkan: the same bits, and how much slower than through CUDA."""
import json

from . import cases
from .report import Report
from .tools import Tools

# The stages whose rates are compared.
STAGES = ["product", "pass", "leaves", "digests", "probe"]


def run(tools: Tools, report: Report) -> None:
    """Vectors and random cases by every kind of products, then the rates beside CUDA's; nothing where Vulkan is not."""
    listed = tools.run([tools.miner, "devices", "--backend", "wgpu", "--json", *tools.key()])
    if listed.returncode != 0:
        report.text(f"no Vulkan here, nothing is compared: {listed.stderr.strip()}")
        return
    for device in json.loads(listed.stdout)["devices"]:
        report.text(f"{device['name']}: {device['detail']}")
    for dot in ("packed", "plain", "cooperative"):
        flags = ["--backend", "wgpu", "--wgpu-dot", dot]
        cases.vectors_with(tools, report, f"Vulkan, {dot}", flags)
        cases.random_with(tools, report, f"Vulkan, {dot}", flags)
    ratios(tools, report)


def ratios(tools: Tools, report: Report) -> None:
    """Rates of the fastest device through each, measured one right after the other."""
    n = "256" if tools.quick else "8192"
    rates = {}
    for backend, family in (("wgpu", []), ("cuda", ["--kernels", tools.gpus()[0].families[0]])):
        command = [tools.miner, "bench", "--backend", backend, "--n", n, "--json", *tools.key(), *family]
        done = tools.run([*command, "--rounds", "1" if tools.quick else "7"])
        if not report.check(f"bench through {backend}", done.returncode == 0, done.stderr):
            return
        figures = [figure for device in json.loads(done.stdout)["devices"] for figure in device["figures"]]
        rates[backend] = {stage: [f["rate_per_s"] for f in figures if f["stage"] == stage] for stage in STAGES}
    report.text(f"through Vulkan / through CUDA at n = {n}, the fastest of each:")
    for stage in STAGES:
        ours, theirs = (max(rates[backend][stage], default=None) for backend in ("wgpu", "cuda"))
        if ours is None or theirs is None:
            report.text(f"  {stage}: not measured")
        else:
            report.text(f"  {stage}: {ours:.4g} / {theirs:.4g} = {ours / theirs:.3f}")
