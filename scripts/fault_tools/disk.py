"""Faults of a disk at each write of a validator with SQLite: refused clearly, mended alone, nothing lost."""

import collections
import pathlib
import random
import shutil
import signal
import subprocess
import time

from .scene import (Fault, Miner, Validator, check_evidence, check_log, check_receipts, check_records, check_sqlite, rows,
                    told, until)

KINDS = ("enospc", "eio", "fsync", "torn", "read")
LAST = 10**9
CHALLENGE_S = 4
# So many have to meet a fault.
CHALLENGES = 30
MENDED_S = 90
# The code of a daemon that ends by itself, after which a service manager starts it again: docs/verdicts.md.
REFUSALS = (74,)


class Disk:
    """A validator over the shim, a miner, and the folder that each point starts from."""

    def __init__(self, programs: pathlib.Path, work: pathlib.Path, seed: int, start: str) -> None:
        self.work, self.seed, self.orphan = work, seed, None
        work.mkdir(parents=True)
        self.control, self.trace, self.template = work / "fault", work / "trace", work / "template"
        shim = work / "shim.so"
        source = pathlib.Path(__file__).with_name("shim.c")
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", shim, source, "-ldl"], check=True)
        self.validator = Validator(programs, work / "validator", work / "validator.log",
                                   ["--replay-locally=false", "--mode=audit", "--challenge-interval-s=0"])
        self.environment = {"LD_PRELOAD": str(shim), "ASSAY_FAULT": str(self.control), "ASSAY_FAULT_TRACE": str(self.trace),
                            "ASSAY_FAULT_FOLDER": f"{self.ill()}/"}
        self.validator.key()
        self.miner = Miner(programs, work / "miner", [self.validator])
        self.miner_key = self.miner.key()
        self.plan("none", 0, 0)
        self.trace.touch()
        self.miner.start()
        if start != "fresh":
            self.validator.start(self.environment)
            self.connected()
            if self.validator.challenge(self.miner_key, MENDED_S) is None:
                raise Fault("no verdict on a sound disk")
            if start == "killed":
                self.leave_open()
            self.validator.stop()
        shutil.copytree(self.validator.folder, self.template)

    def ill(self) -> pathlib.Path:
        """The folder whose disk fails."""
        return self.work / "validator"

    def leave_open(self) -> None:
        """Kills the validator in a challenge, which the next run has to conclude."""
        self.miner.process.send_signal(signal.SIGSTOP)
        _, begun = self.validator.api("/challenges", {"miner": self.miner_key})
        self.orphan = begun["challenge_id"]
        path = self.validator.folder / "validator.db"
        until("the challenge is recorded", lambda: rows(path, "SELECT id FROM challenges WHERE ended_ms IS NULL"))
        self.validator.kill()
        self.miner.process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        self.validator.kill()
        self.miner.kill()

    def plan(self, kind: str, first: int, last: int) -> None:
        new = self.control.with_suffix(".new")
        new.write_text(f"{kind} {first} {last}\n")
        new.rename(self.control)

    def connected(self, limit_s: float = MENDED_S) -> None:
        until("the miner is connected", self.is_here, limit_s)

    def is_here(self) -> bool:
        status, document = self.validator.api("/connected")
        return status == 200 and any(self.miner_key in str(miner) for miner in document["items"])

    def hits(self) -> list[str]:
        return self.trace.read_text().splitlines()

    def point(self, kind: str, number: int) -> str:
        """Plants one fault; gives how it went in a few words."""
        lasts = random.Random(f"{self.seed} {kind} {number}").random() < 0.5 and kind != "torn"
        self.validator.kill()
        shutil.rmtree(self.validator.folder)
        shutil.copytree(self.template, self.validator.folder)
        self.trace.write_text("")
        mark, told_mark = self.validator.size(), self.miner.size()
        self.plan(kind, number, LAST if lasts else number)
        self.validator.start(self.environment)
        heard = self.drive()
        hit = self.hits()
        if not hit:
            return "not reached"
        how = self.reaction(kind, lasts, mark, heard)
        self.plan("none", 0, 0)
        repaired = time.monotonic()
        self.mend(mark)
        mended_s = time.monotonic() - repaired
        if self.validator.stop() not in (0,):
            raise Fault("it does not drain after the repair")
        self.check(told_mark)
        return f"{how} at {hit[0].split(' ', 2)[2]}, well again after {mended_s:.1f} s"

    def drive(self) -> bool:
        """Challenges until the fault is met. Whether the validator still concludes challenges then."""
        until("it starts or ends", self.validator.serves_or_ended, MENDED_S)
        for _ in range(CHALLENGES):
            if self.validator.ended() is not None:
                return False
            try:
                self.connected(CHALLENGE_S)
            except Fault:
                return False
            met = bool(self.hits())
            outcome = self.validator.challenge(self.miner_key, CHALLENGE_S)
            if met or (self.hits() and outcome is None):
                return outcome is not None
            time.sleep(0.3)
        return True

    def reaction(self, kind: str, lasts: bool, mark: int, heard: bool) -> str:
        if kind == "torn":
            until("the killed process ends", lambda: self.validator.ended() == -9, MENDED_S)
            return "killed"
        code, lines = self.validator.ended(), self.validator.lines(mark)
        if code is not None:
            errors = [line for line in lines if line.get("level") == "ERROR" or not line.get("level")]
            if code not in REFUSALS or not errors:
                raise Fault(f"it ended with {code}, and said {errors}")
            return f"ended {code}"
        if heard or not lasts:
            return "went on"
        return until("the fault shows in the state, or challenges go on", self.stand, MENDED_S)

    def stand(self) -> str | None:
        """How a running validator takes a fault that lasts."""
        status, document = self.validator.api("/status")
        if status == 200 and document["state"] == "not_serving" and document["records_problem"]:
            return "not serving"
        if self.validator.ended() in REFUSALS:
            return f"ended {self.validator.ended()}"
        return "went on" if self.validator.challenge(self.miner_key, CHALLENGE_S) else None

    def mend(self, mark: int) -> None:
        """A service manager starts it again, where it ended; else it comes back alone."""
        if self.validator.ended() is not None:
            self.validator.start(self.environment)
        until("it serves again", lambda: self.validator.serves() or self.validator.ended() is not None, MENDED_S)
        self.connected()
        until("a challenge has a verdict again", lambda: self.validator.challenge(self.miner_key, 30), MENDED_S)
        if self.orphan:
            is_over = lambda: self.validator.api(f"/verdicts/{self.orphan}")[0] == 200  # noqa: E731
            until("the challenge of the killed run has a verdict", is_over, MENDED_S)

    def check(self, told_mark: int) -> None:
        path = self.validator.folder / "validator.db"
        check_sqlite(path)
        verdicts = rows(path, "SELECT challenge, outcome FROM verdicts")
        receipts = collections.defaultdict(list)
        for challenge, token in rows(path, "SELECT challenge, token FROM receipts"):
            receipts[challenge].append(token)
        (open_count,), = rows(path, "SELECT COUNT(*) FROM challenges WHERE ended_ms IS NULL")
        given = told(self.miner, told_mark)
        if not given:
            raise Fault("the miner was told nothing")
        check_records(given, verdicts, receipts, open_count)
        check_receipts(self.validator, [receipts[challenge][0] for challenge in given])
        check_log(self.validator, len(verdicts))
        check_evidence(self.validator)


class MinerDisk(Disk):
    """The same with a miner over the shim, and a validator on a sound disk."""

    def ill(self) -> pathlib.Path:
        return self.work / "miner"

    def point(self, kind: str, number: int) -> str:
        lasts = random.Random(f"{self.seed} miner {kind} {number}").random() < 0.5 and kind != "torn"
        if self.validator.ended() is not None or self.validator.process is None:
            self.validator.start()
        self.miner.kill()
        for file in self.ill().glob("miner.key.*"):
            file.unlink()
        self.trace.write_text("")
        mark = self.miner.size()
        self.plan(kind, number, LAST if lasts else number)
        self.miner.start(self.environment)
        until("the miner is there, or ended", lambda: self.miner.ended() is not None or self.is_here(), MENDED_S)
        if not any(self.is_met() for _ in range(CHALLENGES)):
            return "not reached"
        hit = self.hits()
        how = self.miner_reaction(kind, mark)
        self.plan("none", 0, 0)
        if self.miner.ended() is not None:
            self.miner.start(self.environment)
        until("a challenge has a verdict again", lambda: self.validator.challenge(self.miner_key, 30) == "pass", MENDED_S)
        told(self.miner)
        return f"{how} at {hit[0].split(' ', 2)[2]}"

    def is_met(self) -> bool:
        if self.miner.ended() is None and not self.hits():
            self.validator.challenge(self.miner_key, CHALLENGE_S)
            time.sleep(0.5)
        return bool(self.hits())

    def miner_reaction(self, kind: str, mark: int) -> str:
        if kind == "torn":
            until("the killed process ends", lambda: self.miner.ended() == -9, MENDED_S)
            return "killed"

        def stand() -> str | None:
            code = self.miner.ended()
            if code is not None:
                if code not in REFUSALS or not any("error: " in line["message"] for line in self.miner.lines(mark)):
                    raise Fault(f"it ended with {code}, and said {self.miner.text(mark)[-1000:]}")
                return f"ended {code}"
            return "went on" if self.validator.challenge(self.miner_key, CHALLENGE_S) == "pass" else None

        return until("it ends, or challenges go on", stand, MENDED_S)
