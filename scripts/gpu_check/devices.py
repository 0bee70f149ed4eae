"""What is here, as the driver and as Assay say it, and how the driver compiled the kernels."""

import re

from . import cases
from .report import Report
from .tools import START_S, NoResult, Tools

# Warnings of the assembler after which wgmma is serialised.
SERIALISED = re.compile(r"\bC75\d\d\b")
QUERY = "index,name,uuid,driver_version,vbios_version,memory.total,memory.free,power.limit,clocks.max.sm,compute_mode"


def run(tools: Tools, report: Report, error: "Exception | None") -> None:
    """The devices, and the log of the first start, in which the driver compiles every kernel."""
    report.text(tools.output_or_reason([tools.miner, "--version"]))
    report.keep("nvidia-smi.txt", tools.output_or_reason(["nvidia-smi", "-q"]))
    report.text(tools.output_or_reason(["nvidia-smi", f"--query-gpu={QUERY}", "--format=csv"]))
    where = report.keep("compiler.log", tools.first_log)
    report.check("the GPUs are found", error is None, f"{error}\n{where}")
    if error is not None:
        return
    report.check("the miner's own settings give a device", not tools.failed_starts, "\n".join(tools.failed_starts))
    if tools.settings:
        report.headline(f"the miner's own settings give no device; all but the vectors is run with {tools.settings}")
    report.text(tools.output([tools.miner, "devices", "--backend", "cuda", "--wide", *tools.key()]).rstrip())
    for gpu in tools.gpus:
        memory = f"{gpu.free_bytes / 1e9:.1f} of {gpu.total_bytes / 1e9:.1f} GB free"
        report.headline(f"GPU {gpu.index}: {gpu.name}, {memory}, {', '.join(gpu.kinds)}; {gpu.detail}")
        for kind, families in gpu.families.items():
            report.text(f"  {kind}: {', '.join(families)}")
            if not tools.settings:
                report.check(f"{kind} is offered, GPU {gpu.index}", kind in gpu.kinds, tools.first_log[-3000:])
    compiled(tools, report)


def compiled(tools: Tools, report: Report) -> None:
    """What the driver's compiler said: of the families chosen at a start, and of all others."""
    logs = [tools.first_log]
    for gpu in tools.gpus:
        for kind, names in gpu.families.items():
            families = [cases.Family(gpu, kind, name) for name in names]
            logs += [start(tools, report, family) for family in families if not is_started(tools, family)]
    text = "\n".join(logs)
    where = report.keep("compiler.log", text)
    modules = sorted(set(re.findall(r'log of the driver\'s compiler module="([^"]+)"', text)))
    warnings = sorted(set(line for line in text.splitlines() if SERIALISED.search(line)))
    report.check("the driver's compiler serialises no wgmma (C75xx)", not warnings, "\n".join(warnings))
    report.check("the driver's compiler says what it compiled", bool(modules), where)
    report.headline(f"{len(modules)} modules compiled, first start {tools.first_start_s:.1f} s: {where}")


def is_started(tools: Tools, family: "cases.Family") -> bool:
    """Whether a family was loaded by a start before."""
    key = (family.gpu.index, family.name)
    known = key in tools.started or family.name in family.gpu.detail
    tools.started.add(key)
    return known


def start(tools: Tools, report: Report, family: "cases.Family") -> str:
    """The log of a start with a family. One that fails has given no result, and all cases of the family fail unseen."""
    command = [tools.miner, "devices", *family.flags, "--log", "debug", *tools.key()]
    try:
        done = tools.run(command, family.gpu, START_S)
        log, reason = done.stderr, "" if done.returncode == 0 else f"exit code {done.returncode}\n{done.stderr[-2000:]}"
    except NoResult as error:
        log = reason = str(error)
    if not report.check(f"a start with {family.name}, GPU {family.gpu.index}", not reason, reason):
        cases.give_up(tools, report, family, [], None, reason)
    return log
