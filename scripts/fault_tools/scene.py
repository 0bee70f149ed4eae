"""Real daemons in folders of their own, an operator's questions to them, and the checks of what they left."""

import http.client
import json
import os
import pathlib
import re
import signal
import socket
import sqlite3
import subprocess
import time

PATIENCE_S = 120
# A rejudge of thousands of cases takes minutes.
COMMAND_S = 1800
NAP_S = 0.05
OUTCOMES = ("pass", "fail", "inconclusive")
DEVICE = ["--backend=cpu", "--cpu-devices=1", "--cpu-memory=8MiB", "--cpu-threads=1"]
WORK = ["--n=256", "--samples=16", "--iterations=1", "--policy-fields=max_matrices=6,sampled_iterations=1,segments=4,"
        "probe_walks=64,probe_steps=8,probe_target=10ms,probe_expect_gb_per_s=0.01,probe_deadline=60s,"
        "commit_deadline=60s,openings_deadline=60s"]
KEEPS_ALL = '[[group]]\nname = "default"\nevidence = { passes_percent = 100 }\n'


class Fault(Exception):
    """A promise that was not kept."""


def until(what: str, look, limit_s: float = PATIENCE_S):
    """Waits until something is true, and gives it."""
    end = time.monotonic() + limit_s
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() > end:
            raise Fault(f"not within {limit_s:g} s: {what}")
        time.sleep(NAP_S)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Daemon:
    """A program whose log, in JSON, goes on in one file over its restarts."""

    def __init__(self, log: pathlib.Path, command: list) -> None:
        self.log, self.command = log, [str(part) for part in command] + ["--log-format=json"]
        self.process: subprocess.Popen | None = None

    def start(self, environment: dict[str, str] | None = None) -> None:
        base = {key: value for key, value in os.environ.items() if not key.startswith("ASSAY_")}
        base |= {"ASSAY_MINER_CONFIG": "/dev/null", "ASSAY_VALIDATOR_CONFIG": "/dev/null"} | (environment or {})
        with self.log.open("a") as output:
            self.process = subprocess.Popen(self.command, stdout=output, stderr=output, stdin=subprocess.DEVNULL, env=base)

    def ended(self) -> int | None:
        return self.process.poll() if self.process else 0

    def kill(self) -> None:
        if self.process:
            self.process.kill()
            self.process.wait()

    def stop(self, limit_s: float = PATIENCE_S) -> int:
        """Has it drain; gives its exit code."""
        if self.ended() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(limit_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise Fault(f"it does not end within {limit_s:g} s of SIGTERM") from None

    def size(self) -> int:
        return self.log.stat().st_size if self.log.exists() else 0

    def text(self, since: int = 0) -> str:
        if not self.log.exists():
            return ""
        with self.log.open("rb") as log:
            log.seek(since)
            return log.read().decode(errors="replace")

    def lines(self, since: int = 0) -> list[dict]:
        parsed = []
        for line in self.text(since).splitlines():
            try:
                parsed.append(json.loads(line))
            except ValueError:
                parsed.append({"level": "", "message": line})
        return parsed


def told(miner: Daemon, since: int = 0) -> dict[str, str]:
    """The verdicts in a miner's log: the outcome by challenge."""
    found: dict[str, str] = {}
    for line in miner.lines(since):
        message, challenge = str(line.get("message", "")), line.get("challenge")
        outcome = message.removeprefix("verdict: ").split(":")[0]
        if challenge and outcome in OUTCOMES:
            if found.setdefault(challenge, outcome) != outcome:
                raise Fault(f"challenge {challenge} was given two verdicts")
    return found


class Api(http.client.HTTPConnection):
    """The control socket of a validator."""

    def __init__(self, path: pathlib.Path, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self.path = str(path)

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Validator(Daemon):
    def __init__(self, programs: pathlib.Path, folder: pathlib.Path, log: pathlib.Path, flags: list[str]) -> None:
        self.programs, self.folder, self.port = programs, folder, free_port()
        run = folder.parent / "run"
        run.mkdir(parents=True, exist_ok=True)
        self.socket = run / f"{folder.name}.sock"
        policy = run / f"{folder.name}.toml"
        if not policy.exists():
            policy.write_text(KEEPS_ALL)
        self.key_flag = f"--key-file={folder / 'validator.key'}"
        command = [programs / "assay-validator", "serve", f"--listen=127.0.0.1:{self.port}", "--http-listen=",
                   self.key_flag, f"--control-socket={self.socket}", f"--fleet-policy={policy}",
                   "--challenge-on-connect=false", "--ping-interval-ms=1000", *WORK, *flags]
        super().__init__(log, command)

    def key(self) -> str:
        """Makes the key on first use."""
        return self.asked("key", self.key_flag).stdout.strip()

    def asked(self, *arguments: str, text: str = "") -> subprocess.CompletedProcess:
        environment = os.environ | {"ASSAY_VALIDATOR_CONFIG": "/dev/null"}
        return subprocess.run([self.programs / "assay-validator", *arguments], input=text, capture_output=True, text=True,
                              env=environment, timeout=COMMAND_S, check=False)

    def api(self, path: str, body: dict | None = None, limit_s: float = 10):
        """Status and document of an answer; `(0, None)` where none comes."""
        connection = Api(self.socket, limit_s)
        try:
            payload = None if body is None else json.dumps(body)
            headers = {} if body is None else {"Content-Type": "application/json"}
            connection.request("GET" if body is None else "POST", f"/api/v1{path}", payload, headers)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read() or b"null")
        except (OSError, ValueError, http.client.HTTPException):
            return 0, None
        finally:
            connection.close()

    def serves(self) -> bool:
        status, document = self.api("/status")
        return status == 200 and document["state"] == "serving"

    def serves_or_ended(self) -> bool:
        return self.ended() is not None or self.api("/status")[0] == 200

    def challenge(self, miner: str, limit_s: float) -> str | None:
        """Challenges a miner; the outcome, or `None` where no challenge begins or no verdict comes in time."""
        status, begun = self.api("/challenges", {"miner": miner})
        if status not in (200, 201, 202):
            return None
        end = time.monotonic() + limit_s
        while time.monotonic() < end and self.ended() is None:
            status, verdict = self.api(f"/verdicts/{begun['challenge_id']}")
            if status == 200:
                return verdict["outcome"]
            time.sleep(NAP_S)
        return None


class Miner(Daemon):
    def __init__(self, programs: pathlib.Path, folder: pathlib.Path, validators: list[Validator]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.programs = folder, programs
        command = [programs / "assay-miner", "run", f"--key-file={folder / 'miner.key'}", "--telemetry=off", *DEVICE,
                   "--reconnect-max-ms=200", "--log=info,assay_worker=debug"]
        command += [f"--validator=127.0.0.1:{validator.port}" for validator in validators]
        super().__init__(folder.parent / f"{folder.name}.log", command)

    def key(self) -> str:
        command = [self.programs / "assay-miner", "key", f"--key-file={self.folder / 'miner.key'}"]
        return re.search("[0-9a-f]{64}", subprocess.run(command, capture_output=True, text=True, check=True).stdout)[0]


def rows(path: pathlib.Path, sql: str) -> list[tuple]:
    store = sqlite3.connect(path)
    try:
        return store.execute(sql).fetchall()
    except sqlite3.DatabaseError as error:
        raise Fault(f"{path.name}: {error}") from None
    finally:
        store.close()


def check_sqlite(path: pathlib.Path) -> None:
    (sound,), *_ = rows(path, "PRAGMA integrity_check")
    if sound != "ok":
        raise Fault(f"integrity_check: {sound}")


def check_records(given: dict[str, str], verdicts: list[tuple], receipts: dict[str, list[str]], open_count: int) -> None:
    """Each verdict that was told is recorded, once and with that outcome; each has a receipt; none is open."""
    recorded = dict(verdicts)
    if len(recorded) != len(verdicts):
        raise Fault("a challenge has two verdicts")
    for challenge, outcome in given.items():
        if recorded.get(challenge) != outcome:
            raise Fault(f"told {outcome}, recorded {recorded.get(challenge)}: challenge {challenge}")
        if len(receipts.get(challenge, [])) != 1:
            raise Fault(f"{len(receipts.get(challenge, []))} receipts of a told verdict: {challenge}")
    if open_count:
        raise Fault(f"{open_count} challenges have no verdict")


def check_receipts(validator: Validator, tokens: list[str]) -> None:
    keys = validator.folder.parent / "run/keys.json"
    keys.write_text(validator.asked("receipt", "keys", validator.key_flag).stdout)
    for token in tokens:
        done = validator.asked("receipt", "verify", "-", f"--keys={keys}", text=token)
        if done.returncode not in (0, 1, 2):
            raise Fault(f"a receipt is refused: {done.stdout}{done.stderr}")


def check_log(validator: Validator, entries: int) -> None:
    key = validator.key()
    done = validator.asked("log", "verify", str(validator.folder / "verdict-log" / key), "--validator", key)
    found = re.search(r"holds: (\d+) entr", done.stdout + done.stderr)
    if done.returncode or not found or int(found[1]) != entries:
        raise Fault(f"the log of {entries} verdicts: {done.stdout}{done.stderr}")


def check_evidence(validator: Validator, *flags: str) -> None:
    done = validator.asked("rejudge", validator.key_flag, *flags)
    if done.returncode:
        raise Fault(f"rejudge: {done.stdout[-2000:]}{done.stderr[-2000:]}")
