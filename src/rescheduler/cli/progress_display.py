"""What becomes of moves, told while it happens: a line for every change.

On a terminal that can be redrawn, `live_progress` shows the same as bars.

A rich console that shows text from the cluster and never interprets it.

Moves on a terminal: a bar for each that is under way, redrawn as they go on; what is over scrolls away.

✓ shop/web-6755476f8c-2n6s4  node-1 → node-3  4s  web-6755476f8c-l5hvg
⠹ shop/web-6755476f8c-5mhqb  node-1 → node-2  ━━━━━━╺━━━  Starting  8s  waits for copy web-… to become ready
1 of 3 moves made, 1 under way, 1 to come  ━━━━╺━━━━━━━━━  14s
"""

import contextlib
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TextIO

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.segment import Segment
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from kubevalues.duration import short_duration
from rescheduler.cli.move_status import STATE_COLOURS, completed_fraction, is_worth_reporting, move_state
from rescheduler.cli.safe_output import echo, printable
from rescheduler.cli.terminal import Terminal, counted, shortened, terminal_of
from rescheduler.migrations.controller.plan_execution import MoveProgress

__all__ = [
    "INTERRUPT_NOTICE",
    "LiveProgressDisplay",
    "ProgressDisplay",
    "SafeConsole",
    "progress_display_for",
]

INTERRUPT_NOTICE = "Nothing more is begun; what is under way comes to its end. Ctrl-C again leaves at once."


class ProgressDisplay:
    def __init__(self, terminal: Terminal, print_line: Callable[[str], object]) -> None:
        self.is_interrupted = False
        self._terminal = terminal
        self._print = print_line
        self._began_s = time.monotonic()
        self._told: dict[int, str] = {}

    @contextlib.contextmanager
    def showing(self, moves: Sequence[MoveProgress]) -> Iterator[None]:  # noqa: ARG002 - lines need no overview
        """While the body runs, what is told is shown."""
        yield

    def tell(self, errand: MoveProgress) -> None:
        state, words = move_state(errand)
        line = f"{state}{f': {words}' if words else ''}"
        if self._told.get(id(errand)) == line or not is_worth_reporting(errand):
            return
        self._told[id(errand)] = line
        move, terminal = errand.move, self._terminal
        target = (errand.migration.target_node if errand.migration else "") or move.target or "?"
        shown = terminal.styled(state, {"fg": STATE_COLOURS[state]}) if state in STATE_COLOURS else state
        self._print(
            f"{self.elapsed:>6}  {move.pod}  {move.source} {terminal.arrow} {target}  "
            f"{shown}{f': {words}' if words else ''}"
        )

    def interrupted(self) -> None:
        self.is_interrupted = True
        self._print(INTERRUPT_NOTICE)

    @property
    def elapsed(self) -> str:
        return short_duration(timedelta(seconds=round(time.monotonic() - self._began_s)))


class SafeConsole(Console):
    """Plain strings are no markup, and what a terminal would act upon is written as an escape."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options, markup=False, highlight=False, emoji=False)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment(printable(segment.text, keep_newlines=True), segment.style)


_FRAMES_PER_SECOND: Final = 8
_BAR_WIDTH: Final = 10
_WIDE_BAR: Final = 30
_NARROW: Final = 90
"""Columns; on fewer, names give way and the way is left out."""
_LINES_AROUND: Final = 4
_FINAL_STATE_SYMBOLS: Final = {"Completed": "✓", "Failed": "✗", "Given up": "-"}


def progress_display_for(stream: TextIO, *, to_stderr: bool) -> ProgressDisplay:
    """Live where it can be redrawn and nobody else writes there."""
    terminal = terminal_of(stream)
    is_logging = logging.getLogger().isEnabledFor(logging.INFO)
    if terminal.width is not None and terminal.colour and terminal.unicode and not is_logging:
        return LiveProgressDisplay(SafeConsole(file=stream, width=terminal.width), terminal)
    return ProgressDisplay(terminal, lambda line: echo(line, err=to_stderr, color=terminal.colour))


class LiveProgressDisplay(ProgressDisplay):
    def __init__(self, console: Console, terminal: Terminal) -> None:
        super().__init__(terminal, self._print_above)
        self._console = console
        self._moves: Sequence[MoveProgress] = ()
        self._over: set[int] = set()
        self._spinner = Spinner("dots")

    @contextlib.contextmanager
    def showing(self, moves: Sequence[MoveProgress]) -> Iterator[None]:
        self._moves = moves
        frames = Live(
            console=self._console,
            get_renderable=self.frame,
            refresh_per_second=_FRAMES_PER_SECOND,
            transient=True,
        )
        with frames:
            yield

    def tell(self, errand: MoveProgress) -> None:
        state, words = move_state(errand)
        if state not in _FINAL_STATE_SYMBOLS or id(errand) in self._over:
            return
        self._over.add(id(errand))
        style = STATE_COLOURS.get(state, "")
        line = Text.assemble(
            (f"{_FINAL_STATE_SYMBOLS.get(state, ' ')} ", style),
            f"{errand.move.pod}  {self._way(errand)}  ",
            _duration_text(errand),
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
            lines.append(Text(INTERRUPT_NOTICE, "yellow"))
        return Group(*lines)

    def _under_way(self) -> RenderableType:
        begun = [errand for errand in self._moves if _is_started(errand)]
        # What moves comes first: what only waits for its turn may be cut off.
        begun.sort(key=lambda errand: move_state(errand)[0] == "Pending")
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

    def _row(self, errand: MoveProgress, *, is_narrow: bool) -> Iterator[RenderableType]:
        state, words = move_state(errand)
        migration = errand.migration
        is_waiting = state == "Pending"
        yield Text("·", "dim") if is_waiting else self._spinner
        yield shortened(errand.move.pod, self._console.width // 3)
        if not is_narrow:
            yield self._way(errand)
        yield ProgressBar(total=1.0, completed=completed_fraction(errand), width=_BAR_WIDTH)
        yield Text((migration.status.step if migration else "") or "Queued", "cyan")
        yield Text(_age(errand), "dim")
        yield Text(words or ("waits for its turn" if is_waiting else ""), "yellow" if is_waiting else "")

    def _all(self) -> RenderableType:
        moves = self._moves
        over = [errand for errand in moves if move_state(errand)[0] in _FINAL_STATE_SYMBOLS]
        made = sum(errand.is_completed for errand in over)
        begun = sum(map(_is_started, moves))
        parts = [f"{made} of {counted(len(moves), 'move')} made"]
        for number, what in (
            (len(over) - made, "not made"),
            (begun, "under way"),
            (len(moves) - len(over) - begun, "to come"),
        ):
            if number:
                parts.append(f"{number} {what}")
        done = len(over) + sum(completed_fraction(errand) for errand in moves if _is_started(errand))
        line = Table.grid(padding=(0, 1))
        bar = ProgressBar(total=max(len(moves), 1), completed=done, width=_WIDE_BAR)
        line.add_row(Text(", ".join(parts), "bold"), bar, Text(self.elapsed, "dim"))
        return line

    def _way(self, errand: MoveProgress) -> str:
        target = (errand.migration.target_node if errand.migration else "") or errand.move.target or "?"
        return f"{errand.move.source} {self._terminal.arrow} {target}"


def _is_started(errand: MoveProgress) -> bool:
    return bool(errand.key) and move_state(errand)[0] not in _FINAL_STATE_SYMBOLS


def _age(errand: MoveProgress) -> str:
    migration = errand.migration
    if migration is None:
        return ""
    since = migration.status.started_at or migration.created
    return _short((migration.status.finished_at or datetime.now(UTC)) - since)


def _duration_text(errand: MoveProgress) -> tuple[str, str]:
    age = _age(errand)
    return (f"{age}  " if age else "", "dim")


def _short(time: timedelta) -> str:
    return short_duration(timedelta(seconds=max(0, round(time.total_seconds()))))
