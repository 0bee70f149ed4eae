"""The time there is: for the whole check, for the running step, for one program."""

import time

# Kept for the last lines and the archive.
RESERVE_S = 5


class OutOfTime(Exception):
    """The step's time, or the whole check's, is used up."""


class Budget:
    """Seconds until the check has to end, and until the running step has to."""

    def __init__(self, seconds: "float | None") -> None:
        self._end = float("inf") if seconds is None else time.monotonic() + seconds - RESERVE_S
        self._step_end = self._end

    def left_s(self) -> float:
        """Seconds left of the whole."""
        return self._end - time.monotonic()

    def begin(self, limit_s: float) -> None:
        """A step starts that may take so long."""
        self._step_end = min(self._end, time.monotonic() + limit_s)

    def limit(self, seconds: float) -> float:
        """How long a program may run that is to take no longer than so many seconds."""
        left = min(seconds, self._step_end - time.monotonic())
        if left <= 0:
            raise OutOfTime("the step's time is used up")
        return left
