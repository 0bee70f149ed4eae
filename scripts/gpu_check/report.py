"""The dated report: printed as it grows, and kept in a file."""
import pathlib
import subprocess
import time


class Report:
    """Lines of text, and which checks failed."""

    def __init__(self, folder: pathlib.Path, stem: str) -> None:
        self.stem = folder / stem
        folder.mkdir(parents=True, exist_ok=True)
        self.file = open(f"{self.stem}.txt", "w", encoding="utf-8")
        self.passed = 0
        self.failed = []

    def __enter__(self) -> "Report":
        return self

    def __exit__(self, *_) -> None:
        self.file.close()

    def text(self, text: str) -> None:
        """Some lines."""
        print(text, flush=True)
        print(text, file=self.file, flush=True)

    def check(self, name: str, ok: bool, detail: str = "") -> bool:
        """One check; only those that failed get a line each."""
        if ok:
            self.passed += 1
        else:
            self.failed.append(name)
            self.text(f"FAILED {name}\n{detail.rstrip()}")
        return ok

    def step(self, name: str, run) -> None:
        """Runs a step; what keeps it from its end is a failure of it, and the next one goes on."""
        self.text(f"\n== {name}")
        started, before = time.monotonic(), self.passed
        try:
            run()
        except (OSError, subprocess.SubprocessError, KeyError, ValueError) as error:
            self.check(name, False, f"{type(error).__name__}: {error}")
        seconds = time.monotonic() - started
        self.text(f"-- {name}: {self.passed - before} checks passed, {seconds:.0f} s")

    def finish(self) -> int:
        """The last line; the exit code."""
        self.text(f"\n{self.passed} checks passed, {len(self.failed)} failed")
        for name in self.failed:
            self.text(f"  failed: {name}")
        return 1 if self.failed else 0
