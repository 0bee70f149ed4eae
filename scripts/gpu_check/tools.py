"""Running the programs, and what there is to run them on."""
import json
import os
import pathlib
import re
import subprocess
from dataclasses import dataclass

# Longer than anything here takes; a hang ends as a failed check.
TIMEOUT_S = 900


@dataclass
class Gpu:
    """A device as `assay-miner devices` has it."""

    index: int
    device_id: str
    name: str
    families: list
    kinds: list

    def slug(self) -> str:
        """Its name for a file."""
        return re.sub("[^a-z0-9]+", "-", self.name.lower()).strip("-") or "unknown"


class Tools:
    """The programs and a folder for their files."""

    def __init__(self, binaries: pathlib.Path, vectors: pathlib.Path, folder: pathlib.Path, quick: bool) -> None:
        self.miner = str(binaries / "assay-miner")
        self.validator = str(binaries / "assay-validator")
        self.vectors = vectors
        self.folder = folder
        self.quick = quick
        self._gpus = None

    def key(self) -> list:
        """The flag that keeps keys out of the user's home."""
        return ["--key-file", str(self.folder / "miner.key")]

    def run(self, command: list, gpu: "Gpu | None" = None) -> subprocess.CompletedProcess:
        """Runs a command to its end, with one GPU in sight or all."""
        environment = dict(os.environ)
        if gpu is not None:
            environment["CUDA_VISIBLE_DEVICES"] = str(gpu.index)
        return subprocess.run(command, env=environment, text=True, capture_output=True, timeout=TIMEOUT_S)

    def output_or_reason(self, command: list) -> str:
        """What a command prints, or why it does not."""
        try:
            done = self.run(command)
        except OSError as error:
            return f"{command[0]}: {error.strerror}"
        return (done.stdout if done.returncode == 0 else done.stdout + done.stderr).rstrip()

    def version(self) -> str:
        """The miner's version."""
        return self.output_or_reason([self.miner, "--version"])

    def gpus(self) -> list:
        """All CUDA devices, in the driver's order, with the families that each runs."""
        if self._gpus is None:
            command = [self.miner, "devices", "--backend", "cuda", "--json", *self.key()]
            self._gpus = [self._gpu(index, row) for index, row in enumerate(self._in_driver_order(command))]
        return self._gpus

    def _in_driver_order(self, command: list) -> list:
        """Rows of `devices`, one process for each index: Assay itself sorts by id."""
        done = self.run(command)
        if done.returncode != 0:
            raise ValueError(done.stderr.strip())
        rows = []
        for index in range(len(json.loads(done.stdout)["devices"])):
            alone = self.run(command, Gpu(index, "", "", [], []))
            if alone.returncode != 0:
                raise ValueError(alone.stderr.strip())
            rows.append(json.loads(alone.stdout)["devices"][0])
        return rows

    def _gpu(self, index: int, row: dict) -> Gpu:
        """Which families a device runs, its own command tells: `bench` refuses an unknown one with the list."""
        gpu = Gpu(index, row["device_id"], row["name"], [], row["kinds"])
        done = self.run([self.miner, "bench", "--backend", "cuda", "--kernels", "?", *self.key()], gpu)
        match = re.search(r"this device runs (.+)", done.stderr)
        if not match:
            raise ValueError(f"{gpu.name}: {done.stderr.strip()}")
        gpu.families = [name.strip() for name in match.group(1).split(",")]
        return gpu

    def work(self, challenge: dict, probe: "dict | None", flags: list, gpu: "Gpu | None" = None) -> dict:
        """What `assay-miner work` answers: evidence, and an answer where there is a probe."""
        command = [self.miner, "work", "--json", *self.key(), *flags]
        for name, value in (("challenge", challenge), ("probe", probe)):
            if value is not None:
                path = self.folder / f"{name}.json"
                path.write_text(json.dumps(value))
                command += [f"--{name}", str(path)]
        done = self.run(command, gpu)
        if done.returncode != 0:
            raise ValueError(f"exit code {done.returncode}\n{done.stderr.strip()}")
        return json.loads(done.stdout)
