"""A validator and a miner, with audited challenges: of the size that fills the memory, and of the largest matrices."""

import json
import math
import re
import subprocess
import time

from .report import Report
from .tools import NoResult, Tools

START_S = 60
CHALLENGE_S = 90
# Kinds and matrix sizes. F16 from 16384 on drains its sums within a product; 32768 has offsets of 32 bits.
FULL = [("int8", 8192), ("f16", 8192)]
LARGE = [("f16", 16384), ("int8", 16384), ("f16", 32768), ("int8", 32768), ("fp8", 16384), ("fp4", 16384)]
# Percentages of the memory, and the slots of large matrices: the fewest, those of operands with them.
FULL_PERCENT, LARGE_PERCENT, LARGE_SLOTS = 95, 10, 9
QUICK_SIZES = {8192: 256, 16384: 512, 32768: 512}
# 2 s at 500 GB/s are a terabyte of lines: several times the memory of any card.
PROBE = 'policy_fields = ["linked_probe=true", "probe_walks=1048576", "probe_target=2s", "probe_expect_gb_per_s=500"]\n'
QUICK_PROBE = (
    'policy_fields = ["linked_probe=true", "max_matrices=8", "probe_walks=64", "probe_steps=8", "probe_target=10ms", '
    '"probe_expect_gb_per_s=0.01"]\n'
)


def run(tools: Tools, report: Report) -> None:
    """INT8 and F16 over nearly all memory."""
    challenges(tools, report, [(kind, n, FULL_PERCENT) for kind, n in FULL])


def large(tools: Tools, report: Report) -> None:
    """Few slots of the largest matrices."""
    smallest = min(gpu.free_bytes for gpu in tools.gpus)
    fitting = []
    for kind, n in LARGE[:2] if tools.quick else LARGE:
        percent = max(
            LARGE_PERCENT, math.ceil(100 * LARGE_SLOTS * (QUICK_SIZES[n] if tools.quick else n) ** 2 / smallest)
        )
        if percent <= FULL_PERCENT:
            fitting.append((kind, n, percent))
        else:
            report.headline(f"{kind}, n = {n}: too few slots fit")
    challenges(tools, report, fitting)


def challenges(tools: Tools, report: Report, cases: list) -> None:
    """Starts both daemons, and has each case audited over all devices, with a linked probe where there are several."""
    daemons = []
    try:
        validator = start(
            tools, daemons, "validator", [tools.validator, "serve", "--config", config(tools), "--backend", "cpu"]
        )
        address = wait_for(tools, daemons[0], validator, r"address=([0-9.:]+)")
        command = [tools.miner, "run", "--backend", "cuda", "--validator", address, "--log", "debug", *tools.key()]
        start(tools, daemons, "miner", command)
        for kind, n, percent in cases:
            if all(kind in gpu.kinds for gpu in tools.gpus):
                challenge(tools, report, kind, QUICK_SIZES[n] if tools.quick else n, percent)
            else:
                report.headline(f"{kind}, n = {n}: not computed by every GPU here")
    finally:
        stop(daemons)
        for log in sorted(tools.folder.glob("pair-*.log")):
            report.keep(log.name, log.read_text(errors="replace")[-4_000_000:])


def config(tools: Tools) -> str:
    """The validator's settings, in a file; its path."""
    path = tools.folder / "validator.toml"
    path.write_text(
        f'listen = "127.0.0.1:0"\n'
        f'control_socket = "{tools.folder}/validator.sock"\nkey_file = "{tools.folder}/validator.key"\n'
        f"challenge_on_connect = false\nchallenge_interval_s = 0\nn = 256\n"
        f"{QUICK_PROBE if tools.quick else PROBE}"
    )
    return str(path)


def challenge(tools: Tools, report: Report, kind: str, n: int, percent: int) -> None:
    """One audited challenge of the only miner."""
    title = f"a challenge of all devices, {kind}, n = {n}, {percent} % of the memory, audited"
    command = [
        tools.validator,
        "challenge",
        "--miner",
        "only",
        "--mode",
        "audit",
        "--kind",
        kind,
        "--n",
        str(n),
        "--json",
    ]
    command += [
        "--wait",
        str(START_S),
        "--fill-percent",
        str(percent),
        "--control-socket",
        f"{tools.folder}/validator.sock",
    ]
    started = time.monotonic()
    try:
        done = tools.run(command, limit_s=CHALLENGE_S)
    except NoResult as error:
        report.check(title, False, str(error))
        return
    # 3: a pass whose probe showed no memory, as with the stand-in's small matrices.
    if report.check(title, done.returncode in (0, 3), done.stdout + done.stderr):
        verdict = json.loads(done.stdout)
        report.keep(f"verdict-{kind}-n{n}.json", json.dumps(verdict, indent=1))
        outcome = verdict.get("outcome") + (", NO MEMORY SHOWN" if done.returncode == 3 else "")
        report.headline(f"{kind}, n = {n}: {outcome}, {time.monotonic() - started:.0f} s")


def start(tools: Tools, daemons: list, name: str, command: list):
    """Starts a daemon; its log's path."""
    log = tools.folder / f"pair-{name}.log"
    with open(log, "w", encoding="utf-8") as output:
        daemon = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=tools.environment(),
            start_new_session=True,
        )
    daemons.append(daemon)
    return log


def wait_for(tools: Tools, daemon: subprocess.Popen, log, pattern: str) -> str:
    """What a daemon's log says, once it does."""
    until = time.monotonic() + tools.budget.limit(START_S)
    while time.monotonic() < until and daemon.poll() is None:
        match = re.search(pattern, log.read_text(errors="replace"))
        if match:
            return match.group(1)
        time.sleep(0.2)
    raise NoResult(f"{log.name} never said {pattern}:\n{log.read_text(errors='replace')[-3000:]}")


def stop(daemons: list) -> None:
    """Asks each to end, and kills those that do not."""
    for daemon in daemons:
        daemon.terminate()
    for daemon in daemons:
        try:
            daemon.wait(10)
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait()
