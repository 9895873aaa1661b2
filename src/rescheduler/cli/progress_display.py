"""The progress of moves and drains: live bars on a terminal, one line per change elsewhere.

✓ shop/web-6755476f8c-2n6s4  node-1 → node-3  4s  web-6755476f8c-l5hvg
⠹ shop/web-6755476f8c-5mhqb  node-1 → node-2  ━━━━━━╺━━━  Starting  8s  waiting for copy web-… to become ready
1 of 3 moves made, 1 in progress, 1 waiting  ━━━━╺━━━━━━━━━  14s

How far nodes are from being empty: a bar for each on a terminal, lines elsewhere.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
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
from rescheduler.api.daemon_status import NodeInMaintenance
from rescheduler.cli.move_status import STATE_COLOURS, completed_fraction, is_worth_reporting, move_state
from rescheduler.cli.terminal import Terminal, counted, echo, printable, shortened, terminal_of
from rescheduler.migrations.controller.plan_execution import MoveProgress
from rescheduler.migrations.make_before_break import with_live_step

__all__ = [
    "INTERRUPT_NOTICE",
    "DrainDisplay",
    "LiveProgressDisplay",
    "ProgressDisplay",
    "SafeConsole",
    "drain_display_for",
    "progress_display_for",
    "refreshed_on_loop",
]

INTERRUPT_NOTICE = (
    "No more moves are started; waiting for the running ones. Press Ctrl-C again to exit immediately."
)


class ProgressDisplay:
    """Prints one line per change of a move."""

    def __init__(
        self,
        terminal: Terminal,
        print_line: Callable[[str], object],
        settle_time: timedelta = timedelta(),
    ) -> None:
        self.is_interrupted = False
        self._terminal = terminal
        self._settle_time = settle_time
        self._print = print_line
        self._began_s = time.monotonic()
        self._reported: dict[int, str] = {}

    @contextlib.contextmanager
    def showing(self, moves: Sequence[MoveProgress]) -> Iterator[None]:  # noqa: ARG002 - lines need no overview
        """Show the moves while the body runs."""
        yield

    def on_progress(self, progress: MoveProgress) -> None:
        identity, progress = id(progress), self._live(progress)
        state, words = move_state(progress)
        line = f"{state}{f': {words}' if words else ''}"
        if self._reported.get(identity) == line or not is_worth_reporting(progress):
            return
        self._reported[identity] = line
        move, terminal = progress.move, self._terminal
        target = (progress.migration.target_node if progress.migration else "") or move.target or "?"
        shown = terminal.styled(state, {"fg": STATE_COLOURS[state]}) if state in STATE_COLOURS else state
        self._print(
            f"{self.elapsed:>6}  {move.pod}  {move.source} {terminal.arrow} {target}  "
            f"{shown}{f': {words}' if words else ''}"
        )

    def interrupted(self) -> None:
        self.is_interrupted = True
        self._print(INTERRUPT_NOTICE)

    def _live(self, progress: MoveProgress) -> MoveProgress:
        """Return the move with the step of its copy at this moment."""
        if progress.migration is None:
            return progress
        live = with_live_step(progress.migration, progress.copy, self._settle_time, datetime.now(UTC))
        return replace(progress, migration=live)

    @property
    def elapsed(self) -> str:
        return short_duration(timedelta(seconds=round(time.monotonic() - self._began_s)))


class SafeConsole(Console):
    """A rich console that takes strings literally and escapes control characters."""

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
"""The number of columns below which names are shortened and nodes are left out."""
_LINES_AROUND: Final = 4
_FINAL_STATE_SYMBOLS: Final = {"Completed": "✓", "Failed": "✗", "Cancelled": "-"}


def progress_display_for(
    stream: TextIO, *, to_stderr: bool, settle_time: timedelta = timedelta()
) -> ProgressDisplay:
    """Return a live display if the stream is a terminal without log lines, else one of lines."""
    terminal = terminal_of(stream)
    if console := _live_console(stream, terminal):
        return LiveProgressDisplay(console, terminal, settle_time)
    return ProgressDisplay(
        terminal, lambda line: echo(line, err=to_stderr, color=terminal.colour), settle_time
    )


@contextlib.contextmanager
def refreshed_on_loop(live: Live, per_second: int = _FRAMES_PER_SECOND) -> Iterator[None]:
    """Redraw on the event loop, where lines are printed, too: those of a thread would erase each other."""

    async def refresh() -> None:
        while True:
            live.refresh()
            await asyncio.sleep(1 / per_second)

    with live:
        task = asyncio.get_running_loop().create_task(refresh())
        try:
            yield
        finally:
            task.cancel()


def _live_console(stream: TextIO, terminal: Terminal) -> SafeConsole | None:
    is_logging = logging.getLogger().isEnabledFor(logging.INFO)
    if terminal.width is None or not terminal.colour or not terminal.unicode or is_logging:
        return None
    return SafeConsole(file=stream, width=terminal.width)


class LiveProgressDisplay(ProgressDisplay):
    """Redraws a bar per running move; finished moves scroll away."""

    def __init__(self, console: Console, terminal: Terminal, settle_time: timedelta = timedelta()) -> None:
        super().__init__(terminal, self._print_above, settle_time)
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
            auto_refresh=False,
            transient=True,
        )
        with refreshed_on_loop(frames):
            yield

    def on_progress(self, progress: MoveProgress) -> None:
        state, words = move_state(progress)
        if state not in _FINAL_STATE_SYMBOLS or id(progress) in self._over:
            return
        self._over.add(id(progress))
        style = STATE_COLOURS.get(state, "")
        line = Text.assemble(
            (f"{_FINAL_STATE_SYMBOLS.get(state, ' ')} ", style),
            f"{progress.move.pod}  {self._nodes(progress)}  ",
            _duration_text(progress),
        )
        line.append(words, "" if state == "Completed" else style)
        self._console.print(line, soft_wrap=True)

    def interrupted(self) -> None:
        """Add the notice to the following frames."""
        self.is_interrupted = True

    def _print_above(self, line: str) -> None:
        self._console.print(line, soft_wrap=True)

    # -- a frame

    def frame(self) -> RenderableType:
        lines: list[RenderableType] = [self._running_moves(), self._totals()]
        if self.is_interrupted:
            lines.append(Text(INTERRUPT_NOTICE, "yellow"))
        return Group(*lines)

    def _running_moves(self) -> RenderableType:
        begun = [self._live(progress) for progress in self._moves if _is_started(progress)]
        # Running moves first: those that wait may be cut off.
        begun.sort(key=lambda progress: move_state(progress)[0] == "Pending")
        room = max(1, self._console.height - _LINES_AROUND)
        is_narrow = self._console.width < _NARROW
        table = Table.grid(padding=(0, 1), expand=True)
        for _ in range(5 if is_narrow else 6):
            table.add_column(no_wrap=True)
        table.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
        for progress in begun[:room]:
            table.add_row(*self._row(progress, is_narrow=is_narrow))
        if len(begun) > room:
            return Group(table, Text(f"  and {len(begun) - room} more", "dim"))
        return table

    def _row(self, progress: MoveProgress, *, is_narrow: bool) -> Iterator[RenderableType]:
        state, words = move_state(progress)
        migration = progress.migration
        is_waiting = state == "Pending"
        yield Text("·", "dim") if is_waiting else self._spinner
        yield shortened(progress.move.pod, self._console.width // 3)
        if not is_narrow:
            yield self._nodes(progress)
        yield ProgressBar(total=1.0, completed=completed_fraction(progress), width=_BAR_WIDTH)
        yield Text((migration.status.step if migration else "") or "Queued", "cyan")
        yield Text(_age(progress), "dim")
        yield Text(words or ("waiting for its turn" if is_waiting else ""), "yellow" if is_waiting else "")

    def _totals(self) -> RenderableType:
        moves = self._moves
        over = [progress for progress in moves if move_state(progress)[0] in _FINAL_STATE_SYMBOLS]
        made = sum(progress.is_completed for progress in over)
        begun = sum(map(_is_started, moves))
        parts = [f"{made} of {counted(len(moves), 'move')} made"]
        for number, what in (
            (len(over) - made, "not made"),
            (begun, "in progress"),
            (len(moves) - len(over) - begun, "waiting"),
        ):
            if number:
                parts.append(f"{number} {what}")
        done = len(over) + sum(completed_fraction(progress) for progress in moves if _is_started(progress))
        line = Table.grid(padding=(0, 1))
        bar = ProgressBar(total=max(len(moves), 1), completed=done, width=_WIDE_BAR)
        line.add_row(Text(", ".join(parts), "bold"), bar, Text(self.elapsed, "dim"))
        return line

    def _nodes(self, progress: MoveProgress) -> str:
        target = (progress.migration.target_node if progress.migration else "") or progress.move.target or "?"
        return f"{progress.move.source} {self._terminal.arrow} {target}"


def _is_started(progress: MoveProgress) -> bool:
    return bool(progress.key) and move_state(progress)[0] not in _FINAL_STATE_SYMBOLS


def _age(progress: MoveProgress) -> str:
    migration = progress.migration
    if migration is None:
        return ""
    since = migration.status.started_at or migration.created
    return _short((migration.status.finished_at or datetime.now(UTC)) - since)


def _duration_text(progress: MoveProgress) -> tuple[str, str]:
    age = _age(progress)
    return (f"{age}  " if age else "", "dim")


def _short(time: timedelta) -> str:
    return short_duration(timedelta(seconds=max(0, round(time.total_seconds()))))


_NODE_BAR_WIDTH: Final = 24
_NODE_COUNT_WIDTH: Final = 32
"""The width of the count beside the bar, with some room for the latest step."""

NodeStates = Callable[[], Sequence[NodeInMaintenance]]


class DrainDisplay(ProgressDisplay):
    """Prints one line per change of a move and per change of a node's remaining pods."""

    def __init__(
        self,
        terminal: Terminal,
        print_line: Callable[[str], object],
        settle_time: timedelta = timedelta(),
    ) -> None:
        super().__init__(terminal, print_line, settle_time)
        self._print_line = print_line
        self._reported_nodes: dict[str, str] = {}

    @contextlib.contextmanager
    def showing_nodes(self, now: NodeStates) -> Iterator[None]:  # noqa: ARG002 - lines are printed on changes
        yield

    def on_nodes(self, nodes: Sequence[NodeInMaintenance]) -> None:
        for node in nodes:
            if not self.has_reported(node):
                self._reported_nodes[node.node] = node.message
                self._print_line(f"{self.elapsed:>6}  {node.node}: {node.message}")

    def has_reported(self, node: NodeInMaintenance) -> bool:
        """Return whether the current state of the node has been shown."""
        return self._reported_nodes.get(node.node) == node.message


class LiveDrainDisplay(DrainDisplay):
    """Redraws a bar per node."""

    def __init__(self, console: Console, terminal: Terminal, settle_time: timedelta = timedelta()) -> None:
        # The console does the styling.
        super().__init__(
            replace(terminal, colour=False), lambda line: console.print(line, soft_wrap=True), settle_time
        )
        self._console = console
        self._most: dict[str, int] = {}
        self._moving: dict[str, MoveProgress] = {}
        self._now: NodeStates = tuple

    @contextlib.contextmanager
    def showing_nodes(self, now: NodeStates) -> Iterator[None]:
        self._now = now
        with refreshed_on_loop(Live(console=self._console, get_renderable=self.frame, auto_refresh=False)):
            yield

    def on_progress(self, progress: MoveProgress) -> None:
        """Print failed moves and show the latest step of the running ones."""
        if move_state(progress)[0] in {"Failed", "Cancelled"}:
            super().on_progress(progress)
        self._moving[progress.move.source] = progress

    def on_nodes(self, nodes: Sequence[NodeInMaintenance]) -> None:
        """Do nothing: the bars read the state themselves."""

    def has_reported(self, node: NodeInMaintenance) -> bool:
        """Return whether the node is empty: the bars on the screen don't name remaining pods."""
        return not node.left

    def interrupted(self) -> None:
        self.is_interrupted = True

    def frame(self) -> RenderableType:
        nodes = self._now()
        longest = max((len(node.node) for node in nodes), default=0)
        has_bars = self._console.width >= longest + _NODE_BAR_WIDTH + _NODE_COUNT_WIDTH
        table = Table.grid(padding=(0, 2), expand=True)
        for _ in range(2 + has_bars):
            table.add_column(no_wrap=True)
        table.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
        for node in nodes:
            most = self._most[node.node] = max(self._most.get(node.node, 0), node.left)
            gone = most - node.left
            bar = ProgressBar(total=max(most, 1), completed=gone if most else 1, width=_NODE_BAR_WIDTH)
            words = self._latest_step(node.node) if node.left else "empty"
            bars = (bar,) if has_bars else ()
            count = f"{gone} of {most} pods moved" if has_bars else f"{gone}/{most} moved"
            table.add_row(node.node, *bars, count, Text(words, "dim" if node.left else "green"))
        lines: list[RenderableType] = [table]
        if self.is_interrupted:
            lines.append(Text(INTERRUPT_NOTICE, "yellow"))
        return Group(*lines)

    def _latest_step(self, node: str) -> str:
        if (latest := self._moving.get(node)) is None:
            return ""
        state, words = move_state(self._live(latest))
        return f"{latest.move.pod}: {words or state}"


def drain_display_for(
    stream: TextIO, *, to_stderr: bool, settle_time: timedelta = timedelta()
) -> DrainDisplay:
    """Return a live display if the stream is a terminal without log lines, else one of lines."""
    terminal = terminal_of(stream)
    if console := _live_console(stream, terminal):
        return LiveDrainDisplay(console, terminal, settle_time)
    return DrainDisplay(terminal, lambda line: echo(line, err=to_stderr, color=terminal.colour), settle_time)
