"""What becomes of moves, told while it happens: a line for every change.

On a terminal that can be redrawn, `live_progress` shows the same as bars.
"""

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta

from rescheduler.cli.course import COLOURS, is_worth_telling, state_of
from rescheduler.cli.terminal import Terminal
from rescheduler.controller.plan_run import Errand
from rescheduler.model.duration import short_duration

__all__ = ["LEAVING", "Progress"]

LEAVING = "Nothing more is begun; what is under way comes to its end. Ctrl-C again leaves at once."


class Progress:
    def __init__(self, terminal: Terminal, print_line: Callable[[str], object]) -> None:
        self.is_interrupted = False
        self._terminal = terminal
        self._print = print_line
        self._began_s = time.monotonic()
        self._told: dict[int, str] = {}

    @contextlib.contextmanager
    def showing(self, errands: Sequence[Errand]) -> Iterator[None]:  # noqa: ARG002 - lines need no overview
        """While the body runs, what is told is shown."""
        yield

    def tell(self, errand: Errand) -> None:
        state, words = state_of(errand)
        line = f"{state}{f': {words}' if words else ''}"
        if self._told.get(id(errand)) == line or not is_worth_telling(errand):
            return
        self._told[id(errand)] = line
        move, terminal = errand.move, self._terminal
        target = (errand.migration.target_node if errand.migration else "") or move.target or "?"
        shown = terminal.styled(state, {"fg": COLOURS[state]}) if state in COLOURS else state
        self._print(
            f"{self.elapsed:>6}  {move.pod}  {move.source} {terminal.arrow} {target}  "
            f"{shown}{f': {words}' if words else ''}"
        )

    def interrupted(self) -> None:
        self.is_interrupted = True
        self._print(LEAVING)

    @property
    def elapsed(self) -> str:
        return short_duration(timedelta(seconds=round(time.monotonic() - self._began_s)))
