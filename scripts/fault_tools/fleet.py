"""Daemons under constant challenges, killed at random moments and started again as a service manager does."""

import collections
import os
import pathlib
import random
import signal
import time

from .postgres import Postgres
from .scene import (DEVICE, Daemon, Fault, Miner, Validator, check_evidence, check_log, check_receipts, check_records,
                    check_sqlite, rows, told, until)

MINERS = 2
CADENCE = '''[[group]]
name = "default"
evidence = { passes_percent = 100 }
cadence = { mean = "1s", least = "0s", most = "2s", at_connect = true }
'''
SINGLE = ("validator", "miner", "worker")
SHARED = ("replay-worker", "postgres", "shared-validator")
# The longest pause between two kills; many come in the middle of a start.
PAUSE_S = 2.5
BACK_S = 120


class Fleet:
    """One validator with SQLite, or two with PostgreSQL and a replay worker; and miners of all of them."""

    def __init__(self, programs: pathlib.Path, work: pathlib.Path, is_shared: bool) -> None:
        self.work, self.database = work, None
        (work / "run").mkdir(parents=True)
        names, flags = ["validator"], ["--replay-locally=false", "--mode=audit", "--max-address-miners=100"]
        self.replayers: list[Daemon] = []
        if is_shared:
            self.database = Postgres()
            names.append("other")
            flags = [f"--records={self.database.url}", "--replay-locally=false", "--mode=replay",
                     "--max-address-miners=100"]
            command = [programs / "assay-validator", "replay-worker", f"--records={self.database.url}",
                       *[flag.replace("8MiB", "32MiB") for flag in DEVICE]]
            self.replayers = [Daemon(work / "replayer.log", command)]
        self.validators = []
        for name in names:
            (work / "run" / f"{name}.toml").write_text(CADENCE)
            self.validators.append(Validator(programs, work / name, work / f"{name}.log",
                                             flags + ["--policy-fields=busy_retry=1s", "--challenge-interval-s=1"]))
        for validator in self.validators:
            validator.key()
        self.miners = [Miner(programs, work / f"miner-{number}", self.validators) for number in range(MINERS)]
        for miner in self.miners:
            miner.key()
        self.tend()

    def daemons(self) -> list[Daemon]:
        return self.replayers + self.validators + self.miners

    def tend(self) -> None:
        """Starts what has ended, as a service manager does."""
        if self.database and not self.database.is_up():
            return
        for daemon in self.daemons():
            if daemon.process is None or daemon.ended() is not None:
                if daemon.process and daemon.ended() in (64, 78):
                    raise Fault(f"{daemon.command[1]} ended with {daemon.ended()}: {daemon.text()[-1000:]}")
                daemon.start()

    def kill(self, kind: str, dice: random.Random) -> None:
        if kind == "postgres":
            return self.database.kill()
        if kind == "worker":
            parent = dice.choice(self.miners)
            if parent.ended() is None and (children := children_of(parent.process.pid)):
                os.kill(dice.choice(children), signal.SIGKILL)
            return None
        group = {"miner": self.miners, "replay-worker": self.replayers}.get(kind, self.validators)
        return dice.choice(group).kill()

    def rest(self, pause_s: float) -> None:
        end = time.monotonic() + pause_s
        while time.monotonic() < end:
            self.tend()
            time.sleep(0.02)

    def outcomes(self) -> list[tuple]:
        if self.database:
            return self.database.rows("SELECT challenge, outcome, miner, validator FROM verdicts")
        return rows(self.validators[0].folder / "validator.db", "SELECT challenge, outcome, miner, validator FROM verdicts")

    def is_back(self, marks: list[int]) -> bool:
        """Whether each miner was told of a pass since then, without any help but restarts."""
        self.tend()
        return all("pass" in told(miner, mark).values() for miner, mark in zip(self.miners, marks))

    def recover(self) -> float:
        began, marks = time.monotonic(), [miner.size() for miner in self.miners]
        until("each miner passes again", lambda: self.is_back(marks), BACK_S)
        return time.monotonic() - began

    def close(self) -> None:
        for daemon in self.daemons():
            daemon.kill()
        if self.database:
            self.database.close()

    def check(self, kinds: tuple[str, ...]) -> dict[str, int]:
        """Drains all, and holds what was told against the records, logs and evidence."""
        for daemon in self.miners + self.validators + self.replayers:
            if daemon.stop() not in (0, 75):
                raise Fault(f"{daemon.command[1]} ended with {daemon.ended()}: {daemon.text()[-1000:]}")
        read = self.database.rows if self.database else None
        if read is None:
            path = self.validators[0].folder / "validator.db"
            check_sqlite(path)
            read = lambda sql: rows(path, sql)  # noqa: E731
        verdicts = self.outcomes()
        given: dict[str, str] = {}
        for miner in self.miners:
            given |= told(miner)
        receipts = collections.defaultdict(list)
        for challenge, token in read("SELECT challenge, token FROM receipts"):
            receipts[challenge].append(token)
        (open_count,), = read("SELECT COUNT(*) FROM challenges WHERE ended_ms IS NULL")
        check_records(given, [row[:2] for row in verdicts], receipts, int(open_count))
        fails = [row for row in verdicts if row[1] == "fail"]
        if fails and not {"miner", "worker"} & set(kinds):
            raise Fault(f"honest miners failed: {fails}")
        for validator in self.validators:
            own_key = validator.key()
            own = [challenge for challenge, _, _, key in verdicts if key == own_key]
            tokens = [receipts[challenge][0] for challenge in own if challenge in given]
            check_receipts(validator, random.Random(1).sample(tokens, min(20, len(tokens))))
            check_log(validator, len(own))
            check_evidence(validator)
        return {"verdicts": len(verdicts), "told": len(given), "receipts": len(receipts), "fails": len(fails)}


def children_of(process: int) -> list[int]:
    return [int(child) for child in pathlib.Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def run(programs: pathlib.Path, work: pathlib.Path, kinds: tuple[str, ...], times: int, seed: int) -> None:
    """Kills each of these kinds so often, in an order drawn by the seed; raises a `Fault`."""
    dice = random.Random(f"{seed} {kinds}")
    order = [kind for kind in kinds for _ in range(times)]
    dice.shuffle(order)
    fleet = Fleet(programs, work, bool(set(kinds) & set(SHARED)))
    slowest = 0.0
    try:
        fleet.recover()
        for number, kind in enumerate(order, 1):
            fleet.rest(dice.uniform(0, PAUSE_S))
            fleet.kill(kind, dice)
            if number % 20 == 0 or number == len(order):
                slowest = max(slowest, fleet.recover())
                count = sum(len(told(miner)) for miner in fleet.miners)
                print(f"{number} of {len(order)} kills, all back, {count} verdicts told", flush=True)
        fleet.recover()
        kept = fleet.check(kinds)
        print(f"{dict(collections.Counter(order))}: {kept}, slowest recovery {slowest:.1f} s", flush=True)
    finally:
        fleet.close()
