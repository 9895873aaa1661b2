"""Moves on a terminal: a bar for each that is under way, redrawn as they go on; what is over scrolls away.

✓ shop/web-6755476f8c-2n6s4  node-1 → node-3  4s  web-6755476f8c-l5hvg
⠹ shop/web-6755476f8c-5mhqb  node-1 → node-2  ━━━━━━╺━━━  Starting  8s  waits for copy web-… to become ready
1 of 3 moves made, 1 under way, 1 to come  ━━━━╺━━━━━━━━━  14s
"""

import contextlib
import logging
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from rescheduler.cli.course import COLOURS, share_done, state_of
from rescheduler.cli.progress import LEAVING, Progress
from rescheduler.cli.safe_console import SafeConsole
from rescheduler.cli.safe_output import echo
from rescheduler.cli.terminal import Terminal, shortened, terminal_of
from rescheduler.cli.wording import counted
from rescheduler.controller.plan_run import Errand
from rescheduler.model.duration import short_duration

__all__ = ["LiveProgress", "progress_on"]

_FRAMES_PER_SECOND: Final = 8
_BAR_WIDTH: Final = 10
_WIDE_BAR: Final = 30
_NARROW: Final = 90
"""Columns; on fewer, names give way and the way is left out."""
_LINES_AROUND: Final = 4
_SIGNS: Final = {"Completed": "✓", "Failed": "✗", "Given up": "-"}


def progress_on(stream: TextIO, *, to_stderr: bool) -> Progress:
    """Live where it can be redrawn and nobody else writes there."""
    terminal = terminal_of(stream)
    is_logging = logging.getLogger().isEnabledFor(logging.INFO)
    if terminal.width is not None and terminal.colour and terminal.unicode and not is_logging:
        return LiveProgress(SafeConsole(file=stream, width=terminal.width), terminal)
    return Progress(terminal, lambda line: echo(line, err=to_stderr, color=terminal.colour))


class LiveProgress(Progress):
    def __init__(self, console: Console, terminal: Terminal) -> None:
        super().__init__(terminal, self._print_above)
        self._console = console
        self._errands: Sequence[Errand] = ()
        self._over: set[int] = set()
        self._spinner = Spinner("dots")

    @contextlib.contextmanager
    def showing(self, errands: Sequence[Errand]) -> Iterator[None]:
        self._errands = errands
        frames = Live(
            console=self._console,
            get_renderable=self.frame,
            refresh_per_second=_FRAMES_PER_SECOND,
            transient=True,
        )
        with frames:
            yield

    def tell(self, errand: Errand) -> None:
        state, words = state_of(errand)
        if state not in _SIGNS or id(errand) in self._over:
            return
        self._over.add(id(errand))
        style = COLOURS.get(state, "")
        line = Text.assemble(
            (f"{_SIGNS.get(state, ' ')} ", style), f"{errand.move.pod}  {self._way(errand)}  ", _took(errand)
        )
        line.append(words, "" if state == "Completed" else style)
        self._console.print(line, soft_wrap=True)

    def interrupted(self) -> None:
        """The last line says so from now on."""
        self.is_interrupted = True

    def _print_above(self, line: str) -> None:
        self._console.print(line, soft_wrap=True)

    # -- a frame

    def frame(self) -> RenderableType:
        lines: list[RenderableType] = [self._under_way(), self._all()]
        if self.is_interrupted:
            lines.append(Text(LEAVING, "yellow"))
        return Group(*lines)

    def _under_way(self) -> RenderableType:
        begun = [errand for errand in self._errands if _is_begun(errand)]
        # What moves comes first: what only waits for its turn may be cut off.
        begun.sort(key=lambda errand: state_of(errand)[0] == "Pending")
        room = max(1, self._console.height - _LINES_AROUND)
        is_narrow = self._console.width < _NARROW
        table = Table.grid(padding=(0, 1), expand=True)
        for _ in range(5 if is_narrow else 6):
            table.add_column(no_wrap=True)
        table.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
        for errand in begun[:room]:
            table.add_row(*self._row(errand, is_narrow=is_narrow))
        if len(begun) > room:
            return Group(table, Text(f"  and {len(begun) - room} more", "dim"))
        return table

    def _row(self, errand: Errand, *, is_narrow: bool) -> Iterator[RenderableType]:
        state, words = state_of(errand)
        migration = errand.migration
        is_waiting = state == "Pending"
        yield Text("·", "dim") if is_waiting else self._spinner
        yield shortened(errand.move.pod, self._console.width // 3)
        if not is_narrow:
            yield self._way(errand)
        yield ProgressBar(total=1.0, completed=share_done(errand), width=_BAR_WIDTH)
        yield Text((migration.status.step if migration else "") or "Queued", "cyan")
        yield Text(_age(errand), "dim")
        yield Text(words or ("waits for its turn" if is_waiting else ""), "yellow" if is_waiting else "")

    def _all(self) -> RenderableType:
        errands = self._errands
        over = [errand for errand in errands if state_of(errand)[0] in _SIGNS]
        made = sum(errand.is_completed for errand in over)
        begun = sum(map(_is_begun, errands))
        parts = [f"{made} of {counted(len(errands), 'move')} made"]
        for number, what in (
            (len(over) - made, "not made"),
            (begun, "under way"),
            (len(errands) - len(over) - begun, "to come"),
        ):
            if number:
                parts.append(f"{number} {what}")
        done = len(over) + sum(share_done(errand) for errand in errands if _is_begun(errand))
        line = Table.grid(padding=(0, 1))
        bar = ProgressBar(total=max(len(errands), 1), completed=done, width=_WIDE_BAR)
        line.add_row(Text(", ".join(parts), "bold"), bar, Text(self.elapsed, "dim"))
        return line

    def _way(self, errand: Errand) -> str:
        target = (errand.migration.target_node if errand.migration else "") or errand.move.target or "?"
        return f"{errand.move.source} {self._terminal.arrow} {target}"


def _is_begun(errand: Errand) -> bool:
    return bool(errand.key) and state_of(errand)[0] not in _SIGNS


def _age(errand: Errand) -> str:
    migration = errand.migration
    if migration is None:
        return ""
    since = migration.status.started_at or migration.created
    return _short((migration.status.finished_at or datetime.now(UTC)) - since)


def _took(errand: Errand) -> tuple[str, str]:
    age = _age(errand)
    return (f"{age}  " if age else "", "dim")


def _short(time: timedelta) -> str:
    return short_duration(timedelta(seconds=max(0, round(time.total_seconds()))))
