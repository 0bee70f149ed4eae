"""The dated report: text that grows with the steps, figures as JSON, and every file beside them in one archive."""

import json
import pathlib
import re
import tarfile
import time
import traceback

from .budget import OutOfTime

# The most that all files of the archive take before they are compressed, and one of them alone.
ARCHIVE_BYTES = 15 << 20
FILE_BYTES = 6 << 20
# The most failures that the summary names, and what it shows of one of them.
NAMED_FAILURES = 30
NAME_CHARACTERS = 110


class Report:
    """Checks, passed and failed, by steps."""

    def __init__(self, folder: pathlib.Path, stem: str, files: pathlib.Path) -> None:
        self.stem = folder / stem
        self.files = files
        self.figures = {}
        folder.mkdir(parents=True, exist_ok=True)
        files.mkdir(parents=True, exist_ok=True)
        self._file = open(f"{self.stem}.txt", "w", encoding="utf-8")
        self._passed = 0
        self._failed = []
        self._left_out = []
        self._lines = []
        self._headlines = []

    def __enter__(self) -> "Report":
        return self

    def __exit__(self, *_) -> None:
        self._file.close()

    def text(self, text: str) -> None:
        """Lines for the report alone."""
        print(text, file=self._file, flush=True)

    def say(self, text: str) -> None:
        """Lines for the report and for standard output."""
        print(text, flush=True)
        self.text(text)

    def headline(self, text: str) -> None:
        """What the summary says of the running step, besides how many checks passed."""
        self._headlines.append(text)
        self.say(text)

    def check(self, name: str, ok: bool, detail: str = "") -> bool:
        """One check; one that failed gets a line, and its detail in the report."""
        if ok:
            self._passed += 1
        else:
            self._failed.append(name)
            self.say(f"FAILED {name}")
            self.text(detail.rstrip())
        return ok

    def keep(self, name: str, content: "str | bytes") -> str:
        """Keeps a file for the archive; its name there."""
        name = re.sub("[^A-Za-z0-9._-]+", "-", name)
        data = content.encode() if isinstance(content, str) else content
        (self.files / name).write_bytes(data)
        return f"{name} in {self.stem.name}.tar.gz"

    def step(self, name: str, run) -> None:
        """Runs a step. An exception is a failed check of it, and the next step goes on."""
        self.say(f"\n== {name}")
        started, passed, failed = time.monotonic(), self._passed, len(self._failed)
        self._headlines = []
        try:
            run()
        except OutOfTime as error:
            self.check(f"{name}: cut off", False, str(error))
        except Exception as error:  # noqa: BLE001
            said = (str(error).splitlines() or [""])[0]
            self.check(f"{name}: {type(error).__name__}: {said[:NAME_CHARACTERS]}", False, traceback.format_exc())
        counts = f"{self._passed - passed} passed, {len(self._failed) - failed} failed"
        line = f"{name}: {counts}, {time.monotonic() - started:.0f} s"
        self.say(f"-- {line}")
        self._lines += [line, *(f"  {text}" for text in self._headlines)]
        self.save()

    def leave_out(self, name: str, reason: str) -> None:
        """A step is not run."""
        self._left_out.append(name)
        self._lines.append(f"{name}: NOT RUN: {reason}")
        self.say(f"\n== {name}: not run: {reason}")

    def save(self) -> None:
        """Writes the figures and the archive as they are: whatever ends the check, the finished steps are kept."""
        summary = {"passed": self._passed, "failed": self._failed, "left_out": self._left_out, "summary": self._lines}
        with open(f"{self.stem}.json", "w", encoding="utf-8") as file:
            json.dump({**summary, "figures": self.figures}, file, indent=1)
        total = 0
        with tarfile.open(f"{self.stem}.tar.gz", "w:gz") as archive:
            for path in sorted(self.files.iterdir()):
                size = path.stat().st_size
                if size <= FILE_BYTES and total + size <= ARCHIVE_BYTES:
                    total += size
                    archive.add(path, f"{self.stem.name}/{path.name}")
                else:
                    self.text(f"left out of the archive: {path.name}, {size} bytes")

    def finish(self) -> int:
        """The summary, one line a step; the exit code: 1 after a failure, 3 when a step was not run, else 0."""
        self.save()
        self.say("\n== summary")
        for line in self._lines:
            self.say(line)
        self.say(f"{self._passed} checks passed, {len(self._failed)} failed, {len(self._left_out)} steps not run")
        for name in self._failed[:NAMED_FAILURES]:
            self.say(f"  failed: {name[:NAME_CHARACTERS]}")
        if len(self._failed) > NAMED_FAILURES:
            self.say(f"  and {len(self._failed) - NAMED_FAILURES} more, all in {self.stem.name}.txt")
        return 1 if self._failed else 3 if self._left_out else 0
