"""compute-sanitizer over a small challenge with a probe, for every family."""
import json
import shutil

from .report import Report
from .tools import Tools

TOOLS = ["memcheck", "racecheck", "initcheck", "synccheck"]


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
            # The worker processes do the work: the sanitizer follows them, and their fault is to be its exit code.
            command = [program, "--tool", tool, "--target-processes", "all", "--error-exitcode", "99"]
            command += [tools.miner, "work", "--backend", "cuda", "--kernel", family, "--json", *tools.key()]
            command += ["--challenge", str(tools.folder / "challenge.json"), "--probe", str(tools.folder / "probe.json")]
            done = tools.run(command, gpu)
            output = done.stdout + done.stderr
            clean = done.returncode == 0 and "ERROR SUMMARY: 0 errors" in output or \
                done.returncode == 0 and "0 hazards displayed" in output
            report.check(f"{tool}, {family}", clean, output[-3000:])
