"""The progress of moves and drains: live bars on a terminal, else one line per change.

✓ shop/web-6755476f8c-2n6s4  node-1 → node-3  4s  web-6755476f8c-l5hvg
⠹ shop/web-6755476f8c-5mhqb  node-1 → node-2  ━━━━━━╺━━━  Starting  8s  waiting for copy web-… to become ready
1 of 3 moves made, 1 in progress, 1 waiting  ━━━━╺━━━━━━━━━  14s

On a narrow terminal, a move has several lines, because the names of pods and nodes are never shortened.
"""

import asyncio
import contextlib
import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import timedelta
from typing import Any, ClassVar, Final, TextIO

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.segment import Segment
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from rescheduler.api.daemon_status import NodeInMaintenance
from rescheduler.cli.move_status import (
    INTERRUPT_NOTICE,
    STATE_COLOURS,
    ProgressDisplay,
    broken_between_words,
    completed_fraction,
    line_printer,
    move_age,
    move_state,
)
from rescheduler.cli.terminal import Terminal, counted, cut_sentence, printable, terminal_of
from rescheduler.migrations.controller.plan_execution import MoveProgress
from rescheduler.migrations.transition_table import MigrationStep

__all__ = [
    "AnyDrainDisplay",
    "DrainDisplay",
    "LiveDrainDisplay",
    "LiveProgressDisplay",
    "SafeConsole",
    "drain_display_for",
    "progress_display_for",
    "refreshed_on_loop",
]


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
_MIN_BAR: Final = 10
_SYMBOL_WIDTH: Final = 2
_STEP_WIDTH: Final = max(map(len, MigrationStep))
_AGE_WIDTH: Final = 6
_MIN_MESSAGE: Final = len("copy ready, settling 120/120 s")
"""The countdown, which is never cut, with a long settle time."""
_LINES_AROUND: Final = 3
_FINAL_STATE_SYMBOLS: Final = {"Completed": "✓", "Failed": "✗", "Cancelled": "-"}


def progress_display_for(
    output: str, settle_time: timedelta = timedelta(), stream: TextIO | None = None
) -> ProgressDisplay:
    """Return a live display if the stream is a terminal without log lines, else one that prints lines."""
    stream = stream or _progress_stream(output)
    terminal = terminal_of(stream)
    if console := _live_console(stream, terminal):
        return LiveProgressDisplay(console, terminal, settle_time)
    return ProgressDisplay(terminal, line_printer(terminal, to_stderr=output != "table"), settle_time)


def _progress_stream(output: str) -> TextIO:
    """Return the stream for progress: standard error if standard output gets a document."""
    return sys.stdout if output == "table" else sys.stderr


def _print_on_console(console: Console) -> Callable[[str], object]:
    """Return a function that prints a line above the bars of a console, wrapped between words."""

    def print_line(line: str) -> None:
        console.print(Text(broken_between_words(line, Terminal(console.width)), overflow="fold"))

    return print_line


@contextlib.contextmanager
def refreshed_on_loop(live: Live, per_second: int = _FRAMES_PER_SECOND) -> Iterator[None]:
    """Redraw on the event loop, which also prints lines: a thread would overwrite these lines."""

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
    """Return a console that can be redrawn; None if the stream is not such a terminal or has log lines."""
    is_logging = logging.getLogger().isEnabledFor(logging.INFO)
    if terminal.width is None or not terminal.colour or not terminal.unicode or is_logging:
        return None
    return SafeConsole(file=stream, width=terminal.width)


class LiveProgressDisplay(ProgressDisplay):
    """Redraws a bar per running move; finished moves become lines above the bars."""

    is_transient: ClassVar = True
    """Whether the last frame is erased."""

    def __init__(self, console: Console, terminal: Terminal, settle_time: timedelta = timedelta()) -> None:
        super().__init__(terminal, _print_on_console(console), settle_time)
        self._console = console
        self._moves: Sequence[MoveProgress] = ()
        self._over: set[int] = set()
        self._spinner = Spinner("dots")
        self._has_ended = False

    @contextlib.contextmanager
    def showing(self, moves: Sequence[MoveProgress]) -> Iterator[None]:
        self._moves = moves
        frames = Live(
            console=self._console,
            get_renderable=self.frame,
            auto_refresh=False,
            transient=self.is_transient,
        )
        with refreshed_on_loop(frames):
            try:
                yield
            finally:
                self._has_ended = True

    def on_progress(self, progress: MoveProgress) -> None:
        state, words = move_state(progress)
        if state not in _FINAL_STATE_SYMBOLS or id(progress) in self._over:
            return
        self._over.add(id(progress))
        style = STATE_COLOURS.get(state, "")
        line = Text.assemble(
            f"{self._names(progress)}  ",
            _duration_text(progress),
            (words, "" if state == "Completed" else style),
            overflow="fold",
        )
        hanging = Table.grid(padding=(0, 1))
        hanging.add_row(Text(_FINAL_STATE_SYMBOLS[state], style), line)
        self._console.print(hanging)

    def interrupted(self) -> None:
        """Add the notice to the following frames, except the last, which can stay on the screen."""
        self.is_interrupted = True

    # -- a frame

    def frame(self) -> RenderableType:
        totals = self._totals()
        notice = [Text(INTERRUPT_NOTICE, "yellow")] if self.is_interrupted and not self._has_ended else []
        return Group(*self._running_moves(len(totals)), *totals, *notice)

    def _running_moves(self, below: int) -> Iterator[RenderableType]:
        """Yield the running moves that fit on the screen with `below` more lines under them."""
        begun = [self._live(progress) for progress in self._moves if _is_started(progress)]
        if not begun:
            return
        # Running moves come first, because the last moves may not fit.
        begun.sort(key=lambda progress: move_state(progress)[0] == "Pending")
        room = max(1, self._console.height - below - _LINES_AROUND)
        pods = max((len(progress.move.pod) for progress in begun), default=0)
        names = pods + 1 + max((len(self._nodes(progress)) for progress in begun), default=0)
        age = max((len(move_age(progress)) for progress in begun), default=0)
        step = max((len(_step(progress)) for progress in begun), default=0)
        rest = self._console.width - _SYMBOL_WIDTH - _BAR_WIDTH - 3
        message = rest - step - age
        # Not by the steps and ages of this moment: lines would appear and disappear with each of them.
        if rest - _STEP_WIDTH - max(age, _AGE_WIDTH) - names - 1 >= _MIN_MESSAGE:
            shown = begun[:room]
            yield self._one_line_each(shown, message - names - 1)
        else:
            shown = self._fitting_moves(begun, room)
            yield self._several_lines_each(shown, message)
        if hidden := len(begun) - len(shown):
            yield Text(f"  and {hidden} more", "dim")

    def _one_line_each(self, moves: Sequence[MoveProgress], message: int) -> RenderableType:
        table = Table.grid(padding=(0, 1))
        for progress in moves:
            pod, nodes = progress.move.pod, self._nodes(progress)
            table.add_row(self._symbol(progress), pod, nodes, *_status(progress, message))
        return table

    def _several_lines_each(self, moves: Sequence[MoveProgress], message: int) -> RenderableType:
        """Return a table with the state of each move below its names."""
        table = Table.grid(padding=(0, 1))
        for progress in moves:
            status = Table.grid(padding=(0, 1))
            status.add_row(*_status(progress, message))
            table.add_row(self._symbol(progress), Group(Text(self._names(progress), overflow="fold"), status))
        return table

    def _fitting_moves(self, moves: Sequence[MoveProgress], room: int) -> list[MoveProgress]:
        """Return as many of the first moves as fit into `room` lines with whole names; at least one."""
        shown: list[MoveProgress] = []
        for progress in moves:
            names = Text(self._names(progress), overflow="fold")
            room -= len(names.wrap(self._console, self._console.width - _SYMBOL_WIDTH)) + 1
            if room < 0 and shown:
                break
            shown.append(progress)
        return shown

    def _symbol(self, progress: MoveProgress) -> RenderableType:
        return Text("·", "dim") if move_state(progress)[0] == "Pending" else self._spinner

    def _names(self, progress: MoveProgress) -> str:
        """Return the pod and its nodes, in two lines if they are too long for one."""
        pod, nodes = progress.move.pod, self._nodes(progress)
        is_one_line = _SYMBOL_WIDTH + len(pod) + 2 + len(nodes) <= self._console.width
        return f"{pod}  {nodes}" if is_one_line else f"{pod}\n{nodes}"

    def _totals(self) -> Sequence[RenderableType]:
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
        words = ", ".join(parts)
        room = self._console.width - len(words) - len(self.elapsed) - 2
        if room < _MIN_BAR:
            return [Text.assemble((words, "bold"), " ", (self.elapsed, "dim"))]
        line = Table.grid(padding=(0, 1))
        bar = ProgressBar(total=max(len(moves), 1), completed=done, width=min(_WIDE_BAR, room))
        line.add_row(Text(words, "bold"), bar, Text(self.elapsed, "dim"))
        return [line]

    def _nodes(self, progress: MoveProgress) -> str:
        target = (progress.migration.target_node if progress.migration else "") or progress.move.target or "?"
        return f"{progress.move.source} {self._terminal.arrow} {target}"


def _status(progress: MoveProgress, message: int) -> Iterator[RenderableType]:
    """Yield the cells of bar, step, age and message; the message has at most `message` columns."""
    state, words = move_state(progress)
    is_waiting = state == "Pending"
    words = words or ("waiting for its turn" if is_waiting else "")
    yield ProgressBar(total=1.0, completed=completed_fraction(progress), width=_BAR_WIDTH)
    yield Text(_step(progress), "cyan")
    yield Text(move_age(progress), "dim")
    yield Text(cut_sentence(words, message), "yellow" if is_waiting else "")


def _step(progress: MoveProgress) -> str:
    return (progress.migration.status.step if progress.migration else "") or MigrationStep.QUEUED


def _is_started(progress: MoveProgress) -> bool:
    return bool(progress.key) and move_state(progress)[0] not in _FINAL_STATE_SYMBOLS


def _duration_text(progress: MoveProgress) -> tuple[str, str]:
    age = move_age(progress)
    return (f"{age}  " if age else "", "dim")


# -- nodes that are drained

_GAP: Final = 2
_NODE_BAR_WIDTH: Final = 24
_NODE_COUNT_WIDTH: Final = 32
"""The width of the count beside the bar."""

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
    def showing_nodes(self, states: NodeStates) -> Iterator[None]:  # noqa: ARG002 - lines are printed on changes
        yield

    def on_nodes(self, nodes: Sequence[NodeInMaintenance]) -> None:
        for node in nodes:
            if not self.has_reported(node):
                self._reported_nodes[node.node] = node.message
                self._print_line(f"{self.elapsed:>6}  {node.node}: {node.message}")

    def has_reported(self, node: NodeInMaintenance) -> bool:
        """Return whether the current state of the node has been shown."""
        return self._reported_nodes.get(node.node) == node.message


class LiveDrainDisplay(LiveProgressDisplay):
    """Redraws a bar per running move and per node; finished moves become lines above the bars."""

    is_transient: ClassVar = False

    def __init__(self, console: Console, terminal: Terminal, settle_time: timedelta = timedelta()) -> None:
        super().__init__(console, terminal, settle_time)
        self._seen: dict[int, MoveProgress] = {}
        self._most: dict[str, int] = {}
        self._states: NodeStates = tuple

    @contextlib.contextmanager
    def showing_nodes(self, states: NodeStates) -> Iterator[None]:
        self._states = states
        with self.showing([*self._seen.values()]):
            yield

    def on_progress(self, progress: MoveProgress) -> None:
        # A drain plans several times, so its moves become known one after the other.
        self._seen[id(progress)] = progress
        self._moves = [*self._seen.values()]
        super().on_progress(progress)

    def on_nodes(self, nodes: Sequence[NodeInMaintenance]) -> None:
        """Do nothing, because the bars read the state themselves."""

    def has_reported(self, node: NodeInMaintenance) -> bool:
        """Return whether the node is empty, because the bars don't name remaining pods."""
        return not node.left

    def _totals(self) -> Sequence[RenderableType]:
        nodes = self._states()
        longest = max((len(node.node) for node in nodes), default=0)
        has_bars = self._console.width >= longest + _NODE_BAR_WIDTH + _NODE_COUNT_WIDTH
        return [self._node_line(node, longest, has_bars=has_bars) for node in nodes]

    def _node_line(self, node: NodeInMaintenance, longest: int, *, has_bars: bool) -> RenderableType:
        # The drain doesn't move pods that were terminating before it.
        left = node.left - node.terminating
        most = self._most[node.node] = max(self._most.get(node.node, 0), left)
        gone = most - left
        cells: list[RenderableType] = [Text(node.node.ljust(longest), overflow="fold")]
        if most and has_bars:
            cells += [ProgressBar(total=most, completed=gone, width=_NODE_BAR_WIDTH)]
        if most:
            cells += [f"{gone} of {counted(most, 'pod')} moved" if has_bars else f"{gone}/{most} moved"]
        if not node.left:
            cells += [Text("empty", "green")]
        line = Table.grid(padding=(0, _GAP))
        line.add_row(*cells)
        return line


AnyDrainDisplay = DrainDisplay | LiveDrainDisplay


def drain_display_for(
    output: str, settle_time: timedelta = timedelta(), stream: TextIO | None = None
) -> AnyDrainDisplay:
    """Return the same as `progress_display_for`, for drains."""
    stream = stream or _progress_stream(output)
    terminal = terminal_of(stream)
    if console := _live_console(stream, terminal):
        return LiveDrainDisplay(console, terminal, settle_time)
    return DrainDisplay(terminal, line_printer(terminal, to_stderr=output != "table"), settle_time)
