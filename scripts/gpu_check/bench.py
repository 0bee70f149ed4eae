"""The benchmarks, as text in the report and as JSON and a chart beside it."""
import json

from .report import Report
from .tools import Tools


def run(tools: Tools, report: Report) -> None:
    """All devices, all families."""
    command = [tools.miner, "bench", "--backend", "cuda", *tools.key()]
    command += ["--n", "256", "--rounds", "1"] if tools.quick else ["--rounds", "7"]
    chart = f"{report.stem}.svg"
    text = tools.run([*command, "--svg", chart])
    if not report.check("bench", text.returncode == 0, text.stderr):
        return
    report.text(text.stdout.rstrip())
    if not tools.quick:
        goals(tools, report)


def goals(tools: Tools, report: Report) -> None:
    """The goals at n = 8192, measured once more, and kept as JSON."""
    done = tools.run([tools.miner, "bench", "--backend", "cuda", "--n", "8192", "--rounds", "9", "--json", *tools.key()])
    if not report.check("bench as JSON", done.returncode == 0, done.stderr):
        return
    with open(f"{report.stem}.json", "w", encoding="utf-8") as file:
        file.write(done.stdout)
    for device in json.loads(done.stdout)["devices"]:
        figures = device["figures"]
        rate = lambda stage: max((f["rate_per_s"] for f in figures if f["stage"] == stage), default=None)  # noqa: E731
        report.text(f"{device['name']} at n = 8192:")
        for name, stage, peer, goal in [
            ("product / cuBLASLt", "product", "peer", 1.0),
            ("pass / cuBLASLt", "pass", "peer", 0.95),
            ("probe / copy on the device", "probe", "device-copy", 0.6),
        ]:
            ours, theirs = rate(stage), rate(peer)
            if ours is None or theirs is None:
                report.text(f"  {name}: not measured")
            else:
                reached = "reached" if ours / theirs >= goal else "not reached"
                report.text(f"  {name}: {ours / theirs:.3f} (goal {goal}: {reached})")
