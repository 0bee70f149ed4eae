"""compute-sanitizer over a small challenge with a probe, for every family."""
import json
import re
import shutil

from .report import Report
from .tools import Tools

TOOLS = ["memcheck", "racecheck", "initcheck", "synccheck"]
# Each process that the sanitizer follows ends its log with one of these.
SUMMARY = re.compile(r"ERROR SUMMARY: (\d+) error|RACECHECK SUMMARY: (\d+) hazard")


def run(tools: Tools, report: Report) -> None:
    """All four tools; a machine without the program is told so."""
    program = shutil.which("compute-sanitizer")
    if program is None:
        report.text("not run: compute-sanitizer is not on this machine")
        return
    vector = json.loads((tools.vectors / "probe-w64.json").read_text())
    for name in ("challenge", "probe"):
        (tools.folder / f"{name}.json").write_text(json.dumps(vector[name]))
    gpu = tools.gpus()[0]
    for family in gpu.families:
        for tool in TOOLS:
            one(tools, report, program, tool, family, gpu)


def one(tools: Tools, report: Report, program: str, tool: str, family: str, gpu) -> None:
    """One tool over one family."""
    logs = tools.folder / f"{tool}-{family}"
    logs.mkdir()
    # The worker processes do the work, and speak over their standard output: the sanitizer writes to files.
    command = [program, "--tool", tool, "--target-processes", "all", "--log-file", f"{logs}/%p"]
    command += [tools.miner, "work", "--backend", "cuda", "--kernel", family, "--json", *tools.key()]
    # Everything is many times slower under it.
    command += ["--worker-silence-s", "600"]
    command += ["--challenge", str(tools.folder / "challenge.json"), "--probe", str(tools.folder / "probe.json")]
    done = tools.run(command, gpu)
    text = "\n".join(path.read_text(errors="replace") for path in sorted(logs.iterdir()))
    found = [int(errors or hazards) for errors, hazards in SUMMARY.findall(text)]
    clean = done.returncode == 0 and bool(found) and not any(found)
    report.check(f"{tool}, {family}", clean, f"exit code {done.returncode}\n{done.stderr[-1500:]}\n{text[-3000:]}")
