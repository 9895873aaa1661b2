"""One line of progress for a long step, on terminals and in logs.

On a terminal the line is rewritten in place every second; elsewhere a new one is printed every 20 seconds,
so that a CI log shows life without drowning.
"""

import sys
import time
from typing import TextIO

__all__ = ["Progress", "clock"]

_TERMINAL_EVERY_S = 1.0
_LOG_EVERY_S = 20.0


def clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}:{rest:02}"


class Progress:
    """Tells how far a step is; `note` may be called as often as one likes."""

    def __init__(self, step: str, out: TextIO = sys.stderr) -> None:
        self._step = step
        self._out = out
        self._terminal = out.isatty()
        self._every_s = _TERMINAL_EVERY_S if self._terminal else _LOG_EVERY_S
        self._began = self._said = time.monotonic()

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self._began

    def note(self, detail: str) -> None:
        now = time.monotonic()
        if now - self._said >= self._every_s:
            self._said = now
            self._say(detail, end="" if self._terminal else "\n")

    def done(self, detail: str) -> None:
        self._say(detail, end="\n")

    def _say(self, detail: str, end: str) -> None:
        start, clear = ("\r", "\x1b[K") if self._terminal else ("", "")
        print(
            f"{start}{clock(self.elapsed_s)}  {self._step}: {detail}{clear}",
            end=end,
            file=self._out,
            flush=True,
        )
