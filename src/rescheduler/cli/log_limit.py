"""How many lines of one kind are logged: nobody who can make the program log can fill a disk.

The line that reaches the limit says that more are not logged for a while, and the next one afterwards says
how many there were.
"""

import logging
from collections.abc import Callable
from typing import Final

__all__ = ["LINES", "PERIOD_S", "LogLimit"]

LINES: Final = 100
PERIOD_S: Final = 10.0
_MOST_KINDS: Final = 1000


class _Period:
    __slots__ = ("begun_s", "logged", "suppressed")

    def __init__(self, begun_s: float) -> None:
        self.begun_s = begun_s
        self.logged = 0
        self.suppressed = 0


class LogLimit(logging.Filter):
    def __init__(self, kind_of: Callable[[logging.LogRecord], str]) -> None:
        super().__init__()
        self._kind_of = kind_of
        self._periods: dict[str, _Period] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        kind = self._kind_of(record)
        period = self._periods.get(kind)
        suppressed = 0
        if period is None or not 0 <= record.created - period.begun_s < PERIOD_S:
            suppressed = period.suppressed if period else 0
            if len(self._periods) >= _MOST_KINDS:
                self._periods.clear()
            period = self._periods[kind] = _Period(record.created)
        if period.logged >= LINES:
            period.suppressed += 1
            return False
        period.logged += 1
        facts: dict[str, object] = dict(getattr(record, "facts", None) or {})
        if suppressed:
            facts["suppressed"] = f"{suppressed} lines of this kind before"
        if period.logged == LINES:
            facts["limit"] = f"more lines of this kind are not logged for {PERIOD_S:g} s"
        record.facts = facts
        return True
