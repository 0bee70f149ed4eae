"""A validator and a miner, with a challenge that fills the memory."""
import json
import re
import subprocess
import time

from .report import Report
from .tools import Tools

START_S = 120


def run(tools: Tools, report: Report) -> None:
    """An audited challenge of each kind over all devices, with a linked probe where there are several; 95 percent of the
    memory, unless all is to be small."""
    config = tools.folder / "validator.toml"
    # 2 s at 500 GB/s are a terabyte of lines: several times the memory of any card.
    size = {
        True: "n = 256\nmax_matrices = 12\nprobe_walks = 64\nprobe_steps = 8\nprobe_target_ms = 10\nprobe_expect_gb_per_s = 0.01\n",
        False: "n = 8192\nfill_percent = 95\nprobe_walks = 1048576\nprobe_target_ms = 2000\nprobe_expect_gb_per_s = 500.0\n",
    }[tools.quick]
    config.write_text(
        f'listen = "127.0.0.1:0"\ncontrol_socket = "{tools.folder}/validator.sock"\nkey_file = "{tools.folder}/validator.key"\n'
        f"challenge_on_connect = false\nchallenge_interval_s = 0\nlinked_probe = true\n{size}"
    )
    daemons = []
    try:
        validator = start(tools, daemons, "validator", [tools.validator, "serve", "--config", str(config), "--backend", "cpu"])
        address = wait_for(validator, r"address=([0-9.:]+)")
        miner = start(tools, daemons, "miner", [tools.miner, "run", "--backend", "cuda", "--validator", address, *tools.key()])
        wait_for(miner, r"(connected)")
        control = ["--control-socket", f"{tools.folder}/validator.sock"]
        listed = tools.run([tools.validator, "miners", "--json", *control])
        key = re.search(r'"miner_key": "([0-9a-f]{64})"', listed.stdout).group(1)
        for kind in sorted({kind for gpu in tools.gpus() for kind in gpu.kinds}):
            command = [tools.validator, "challenge", "--miner", key, "--mode", "audit", "--kind", kind, "--json", *control]
            done = tools.run(command)
            detail = done.stdout + done.stderr + miner.read_text()[-3000:]
            if report.check(f"a challenge of all devices, {kind}, audited", done.returncode == 0, detail):
                report.text(json.dumps(json.loads(done.stdout), indent=1))
    finally:
        for daemon in daemons:
            daemon.terminate()
        for daemon in daemons:
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()


def start(tools: Tools, daemons: list, name: str, command: list):
    """Starts a daemon; its log's path."""
    log = tools.folder / f"{name}.log"
    with open(log, "w", encoding="utf-8") as output:
        daemons.append(subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT))
    return log


def wait_for(log, pattern: str) -> str:
    """What a daemon's log says, once it does."""
    until = time.monotonic() + START_S
    while time.monotonic() < until:
        match = re.search(pattern, log.read_text())
        if match:
            return match.group(1)
        time.sleep(0.2)
    raise ValueError(f"{log.name} never said {pattern}:\n{log.read_text()[-3000:]}")
