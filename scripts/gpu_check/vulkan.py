"""The same GPU through Vulkan: the same bits, and how much slower than through CUDA."""

import json
import random
import secrets

from . import bench, cases
from .report import Report
from .tools import Tools

# The stages whose rates are compared.
STAGES = ["product", "pass", "leaves", "digests", "probe"]
DOTS = ["packed", "plain", "cooperative"]
SIZES = [256, 512, 1024, 2048]


def run(tools: Tools, report: Report) -> None:
    """Vectors and random cases by every kind of products, then the rates beside CUDA's; nothing where Vulkan is not."""
    listed = tools.run([tools.miner, "devices", "--backend", "wgpu", "--json", *tools.key()])
    if listed.returncode != 0:
        report.headline(f"no Vulkan here, nothing is compared: {listed.stderr.strip()[-300:]}")
        return
    for device in json.loads(listed.stdout)["devices"]:
        report.headline(f"{device['name']}: {device['detail']}")
    for dot in DOTS[:1] if tools.quick else DOTS:
        compare(tools, report, dot)
    ratios(tools, report)


def compare(tools: Tools, report: Report, dot: str) -> None:
    """Vectors and random cases by one kind of products, in one run of the program."""
    flags = ["--backend", "wgpu", "--wgpu-dot", dot]
    names = cases.QUICK if tools.quick else cases.CHALLENGES
    vectors = [cases.read(tools, name) for name in names]
    seed = secrets.randbits(32)
    report.text(f"seed {seed}")
    draw = random.Random(seed)
    sizes = [256] if tools.quick else SIZES
    drawn = [cases.draw_challenge(draw, n, 1, tools.quick) for n in sizes]
    probes = cases.draw_probes(draw, tools.quick)
    expected = tools.work(drawn, probes, ["--backend", "cpu"])
    titles = [*names, *(f"random n = {n}" for n in sizes)]
    wanted = [*({"evidence": vector["evidence"]} for vector in vectors), *expected]
    found, error = tools.work_until_error([*(vector["challenge"] for vector in vectors), *drawn], probes, flags)
    for title, a, b in zip(titles, wanted, found):
        cases.check(report, f"{title}, Vulkan, {dot}", a, b)
    for title in titles[len(found) :]:
        report.check(f"{title}, Vulkan, {dot}: no result", False, error)


def ratios(tools: Tools, report: Report) -> None:
    """Rates of the fastest device through each, measured one right after the other."""
    n = "256" if tools.quick else "8192"
    rates = {}
    for backend, family in (("wgpu", []), ("cuda", ["--kernels", tools.gpus[0].families["int8"][0]])):
        command = [tools.miner, "bench", "--backend", backend, "--n", n, "--json", *tools.key(), *family]
        done = tools.run([*command, *(bench.QUICK_FLAGS if tools.quick else bench.ROUGH_FLAGS)], limit_s=120)
        if not report.check(f"bench through {backend}", done.returncode == 0, done.stderr):
            return
        devices = json.loads(done.stdout)["devices"]
        report.keep(f"bench-{backend}.json", done.stdout)
        rates[backend] = {
            stage: max((r for r in (bench.rate(device, stage) for device in devices) if r), default=None)
            for stage in STAGES
        }
    report.headline(f"through Vulkan / through CUDA at n = {n}, the fastest of each:")
    for stage in STAGES:
        ours, theirs = (rates[backend][stage] for backend in ("wgpu", "cuda"))
        if ours is None or theirs is None:
            report.headline(f"  {stage}: not measured")
        else:
            report.headline(f"  {stage}: {ours:.4g} / {theirs:.4g} = {ours / theirs:.3f}")
