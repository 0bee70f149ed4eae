"""Running the programs, and what there is to run them on."""

import json
import os
import pathlib
import re
import signal
import subprocess
import time
from dataclasses import dataclass, field

from .budget import Budget

# Longer than any program here takes when nothing is wrong, unless its caller says otherwise.
LIMIT_S = 90
# Settings to start with, from the miner's own to the safest: a family or a unit that fails keeps its device from all.
STARTS = [
    {},
    {"CUDA_FLOAT_UNITS": "false"},
    {"KERNEL": "mma-sm80", "CUDA_FLOAT_UNITS": "false"},
    {"KERNEL": "mma-sm75", "CUDA_FLOAT_UNITS": "false"},
    {"KERNEL": "dp4a", "CUDA_FLOAT_UNITS": "false"},
]
START_S = 60
# The kinds of work, by the number that a challenge has for each.
KINDS = {"int8": 1, "f16": 2, "fp8": 5, "fp4": 6, "field": 7, "network": 8}


class NoResult(Exception):
    """A program was stopped at its limit, or ended with an error."""

    def __init__(self, reason: str, printed: str = "") -> None:
        super().__init__(reason)
        self.printed = printed


@dataclass
class Gpu:
    """A device as `assay-miner devices` has it."""

    index: int
    device_id: str
    name: str
    detail: str
    total_bytes: int
    free_bytes: int
    kinds: list
    # For each kind of work, the families of kernels that compute it, the chosen one first.
    families: dict = field(default_factory=dict)

    def slug(self) -> str:
        """Its name for a file."""
        return re.sub("[^a-z0-9]+", "-", self.name.lower()).strip("-") or "unknown"


class Tools:
    """The programs, a folder for their files, and the GPUs."""

    def __init__(
        self, binaries: pathlib.Path, vectors: pathlib.Path, folder: pathlib.Path, budget: Budget, quick: bool
    ) -> None:
        self.miner = str(binaries / "assay-miner")
        self.validator = str(binaries / "assay-validator")
        self.vectors = vectors
        self.folder = folder
        self.budget = budget
        self.quick = quick
        self.gpus = []
        # Families that gave no result, and why: their other cases fail unseen.
        self.silent = {}
        # Families that were started once, by GPU.
        self.started = set()
        # Families and kinds that gave wrong bits and were looked into.
        self.located = set()
        # Settings of the miner, with which it starts.
        self.settings = {}
        # What the first start wrote, with the log of the driver's compiler.
        self.first_log = ""
        self.first_start_s = 0.0
        # Starts that failed before one did not.
        self.failed_starts = []

    def key(self) -> list:
        """The flag that keeps keys out of the user's home."""
        return ["--key-file", str(self.folder / "miner.key")]

    def environment(self, gpu: "Gpu | None" = None, libraries: "list | None" = None) -> dict:
        """With one GPU in sight or all, a cache of compiled kernels of this check alone, and folders of libraries."""
        environment = dict(os.environ)
        cache = str(self.folder / "cache")
        environment.update(CUDA_CACHE_PATH=cache, ASSAY_MINER_KERNEL_CACHE=cache)
        environment.update({f"ASSAY_MINER_{name}": value for name, value in self.settings.items()})
        if gpu is not None:
            # Of those that a scheduler left in sight, where it did.
            inherited = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
            environment["CUDA_VISIBLE_DEVICES"] = inherited[gpu.index] if inherited else str(gpu.index)
        if libraries:
            paths = [environment.get("LD_LIBRARY_PATH", ""), *libraries]
            environment["LD_LIBRARY_PATH"] = ":".join(path for path in paths if path)
        return environment

    def run(
        self, command: list, gpu: "Gpu | None" = None, limit_s: float = LIMIT_S, libraries: "list | None" = None
    ) -> subprocess.CompletedProcess:
        """Runs a command to its end, or raises NoResult at its limit, when it is killed with all that it started."""
        limit_s = self.budget.limit(limit_s)
        process = subprocess.Popen(
            command,
            env=self.environment(gpu, libraries),
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        try:
            stdout, stderr = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            kill(process)
            stdout, stderr = process.communicate()
            reason = f"no end within {limit_s:.0f} s: {' '.join(command)}\n{stdout[-2000:]}{stderr[-4000:]}"
            raise NoResult(reason, stdout) from None
        except BaseException:
            kill(process)
            raise
        return subprocess.CompletedProcess(command, process.returncode, stdout, stderr)

    def output(self, command: list, **keywords) -> str:
        """What a command prints; NoResult when it fails."""
        done = self.run(command, **keywords)
        if done.returncode != 0:
            raise NoResult(f"exit code {done.returncode}: {' '.join(command)}\n{done.stderr.strip()[-4000:]}")
        return done.stdout

    def output_or_reason(self, command: list) -> str:
        """What a command prints, or why it does not."""
        try:
            return self.output(command).rstrip()
        except Exception as error:  # noqa: BLE001
            return f"{command[0]}: {error}"

    def find_gpus(self) -> None:
        """Finds all CUDA devices, in the driver's order, with the families that each runs.

        The first start has an empty cache, so the driver compiles every kernel, and its log is kept.
        """
        command = [self.miner, "devices", "--backend", "cuda", "--json", *self.key()]
        rows = json.loads(self._start(command))["devices"]
        if len(rows) > 1:
            # Assay sorts by id: one process for each of the driver's indices.
            alone = [Gpu(index, "", "", "", 0, 0, []) for index in range(len(rows))]
            rows = [json.loads(self.output(command, gpu=gpu))["devices"][0] for gpu in alone]
        for index, row in enumerate(rows):
            names = ("device_id", "name", "detail", "total_bytes", "free_bytes", "kinds")
            gpu = Gpu(index, *(row[name] for name in names))
            gpu.families = self._families(gpu)
            self.gpus.append(gpu)

    def _start(self, command: list) -> str:
        """What the first start prints that finds a device, by settings that are safer each time."""
        for settings in STARTS:
            self.settings = settings
            started = time.monotonic()
            try:
                done = self.run([*command, "--log", "debug"], limit_s=START_S)
                self.first_start_s = time.monotonic() - started
                self.first_log += done.stderr
                if done.returncode == 0:
                    return done.stdout
                self.failed_starts.append(f"exit code {done.returncode} with {settings}\n{done.stderr[-2000:]}")
            except NoResult as error:
                self.failed_starts.append(f"{settings}: {error}")
        raise NoResult("\n".join(self.failed_starts))

    def _families(self, gpu: Gpu) -> dict:
        """The families of each kind of work: `bench` answers an unknown one with the list."""
        command = [self.miner, "bench", "--backend", "cuda", "--kernels", "?", "--kinds", ",".join(KINDS), *self.key()]
        done = self.run(command, gpu)
        lines = re.findall(rf"\b({'|'.join(KINDS)}): ([a-z0-9-]+(?:, [a-z0-9-]+)*)", done.stderr)
        listed = {kind: names.split(", ") for kind, names in lines}
        if not listed.get("int8"):
            raise NoResult(f"{gpu.name}: which kernels does it run?\n{done.stderr.strip()}")
        return listed

    def file(self, name: str, value: dict) -> str:
        """A JSON file for a program to read; its path."""
        path = self.folder / f"{name}.json"
        path.write_text(json.dumps(value))
        return str(path)

    def probe_flags(self, probes: list) -> list:
        """The arguments of `assay-miner work` for a probe and a sweep, which has no walks."""
        named = [("probe" if "walks" in probe else "sweep", probe) for probe in probes]
        return [argument for name, probe in named for argument in (f"--{name}", self.file(name, probe))]

    def work(self, challenges: list, probes: list, flags: list, gpu: "Gpu | None" = None) -> list:
        """What one run of `assay-miner work` answers to each challenge: evidence, and answers to a probe and a sweep."""
        results, error = self.work_until_error(challenges, probes, flags, gpu)
        if error:
            raise NoResult(error)
        return results

    def work_until_error(self, challenges: list, probes: list, flags: list, gpu: "Gpu | None" = None) -> tuple:
        """The same, as far as it came, and why it came no further."""
        command = [self.miner, "work", "--json", *self.key(), *flags]
        for index, challenge in enumerate(challenges):
            command += ["--challenge", self.file(f"challenge-{index}", challenge)]
        command += self.probe_flags(probes)
        printed, error = "", ""
        try:
            done = self.run(command, gpu)
            printed = done.stdout
            if done.returncode != 0:
                error = f"exit code {done.returncode}: {' '.join(command)}\n{done.stderr.strip()[-4000:]}"
        except NoResult as stopped:
            printed, error = stopped.printed, str(stopped)
        results = [json.loads(line) for line in printed.splitlines() if line.endswith("}")]
        if len(results) < len(challenges) and not error:
            error = f"{len(results)} results for {len(challenges)} challenges: {' '.join(command)}"
        return results, error


def kill(process: subprocess.Popen) -> None:
    """Kills a program and all that it started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
