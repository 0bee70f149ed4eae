"""compute-sanitizer over a small challenge with a probe."""

import re
import shutil

from . import cases
from .report import Report
from .tools import NoResult, Tools

# The tool that has to find nothing; those whose findings may be wrong about bulk copies and wgmma are information.
JUDGED, INFORMATION = "memcheck", ["racecheck", "initcheck", "synccheck"]
# Each process that the sanitizer follows ends its log with one of these.
SUMMARY = re.compile(r"ERROR SUMMARY: (\d+) error|RACECHECK SUMMARY: (\d+) hazard")
LIMIT_S = 90


def run(tools: Tools, report: Report) -> None:
    """memcheck over each kind's preferred family, INT8 first; then the other tools over that one."""
    program = shutil.which("compute-sanitizer")
    if program is None:
        report.headline("not run: compute-sanitizer is not on this machine")
        return
    gpu = tools.gpus[0]
    chosen = {}
    for kind, names in gpu.families.items():
        chosen.setdefault(names[0], kind)
    families = [cases.Family(gpu, kind, name) for name, kind in chosen.items()]
    for family in families:
        found = one(tools, report, program, JUDGED, family)
        report.check(f"{JUDGED}, {family.title}", found == 0, f"{found} errors" if found is not None else "no result")
    for tool in INFORMATION:
        found = one(tools, report, program, tool, families[0])
        report.headline(
            f"{tool}, {families[0].title}: {'no result' if found is None else f'{found} findings'} (information)"
        )


def one(tools: Tools, report: Report, program: str, tool: str, family) -> "int | None":
    """How much a tool finds over one family; None without a result. Its log is kept."""
    logs = tools.folder / f"{tool}-{family.name}"
    logs.mkdir()
    vector = (
        cases.read(tools, "probe-w64") if family.kind == "int8" else cases.read(tools, cases.OF_KIND[family.kind][0])
    )
    # The worker processes do the work, and speak over their standard output: the sanitizer writes to files.
    command = [program, "--tool", tool, "--target-processes", "all", "--log-file", f"{logs}/%p"]
    command += [tools.miner, "work", *family.flags, "--json", *tools.key()]
    # Everything is many times slower under it.
    command += ["--worker-silence-s", "600", "--challenge", tools.file("sanitized", vector["challenge"])]
    command += tools.probe_flags([vector[name] for name in ("probe", "sweep") if name in vector])
    try:
        done = tools.run(command, family.gpu, LIMIT_S)
        end = f"exit code {done.returncode}\n{done.stderr[-1500:]}"
    except NoResult as error:
        done, end = None, str(error)
    text = "\n".join(path.read_text(errors="replace") for path in sorted(logs.iterdir()))
    report.text(f"{tool}, {family.title}: {report.keep(f'{tool}-{family.kind}-{family.name}.log', f'{text}{end}')}")
    found = [int(errors or hazards) for errors, hazards in SUMMARY.findall(text)]
    return sum(found) if done is not None and done.returncode == 0 and found else None
