"""The progress of a drain: how far nodes are from being empty, as bars on a terminal, as lines elsewhere.

node-1  ━━━━━━━━━━━━━━━━━━━━━━━━  3 of 4 pods moved  shop/web-6755476f8c-5mhqb: copy ready, settling 6/10 s
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Final, TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from rescheduler.api.daemon_status import NodeInMaintenance
from rescheduler.cli.move_status import move_state
from rescheduler.cli.progress_display import (
    INTERRUPT_NOTICE,
    ProgressDisplay,
    line_printer,
    live_console,
    print_on_console,
    refreshed_on_loop,
)
from rescheduler.cli.terminal import Terminal, terminal_of
from rescheduler.migrations.controller.plan_execution import MoveProgress

__all__ = ["DrainDisplay", "LiveDrainDisplay", "drain_display_for"]

_GAP: Final = 2
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
        super().__init__(replace(terminal, colour=False), print_on_console(console), settle_time)
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
        lines: list[RenderableType] = []
        for node in nodes:
            lines += self._node_lines(node, longest, has_bars=has_bars)
        if self.is_interrupted:
            lines.append(Text(INTERRUPT_NOTICE, "yellow"))
        return Group(*lines)

    def _node_lines(
        self, node: NodeInMaintenance, longest: int, *, has_bars: bool
    ) -> Iterator[RenderableType]:
        """Yield the line of a node, and the latest step of its pods below if it does not fit beside it."""
        most = self._most[node.node] = max(self._most.get(node.node, 0), node.left)
        gone = most - node.left
        bar = ProgressBar(total=max(most, 1), completed=gone if most else 1, width=_NODE_BAR_WIDTH)
        bars = (bar,) if has_bars else ()
        count = f"{gone} of {most} pods moved" if has_bars else f"{gone}/{most} moved"
        words, style = (self._latest_step(node.node), "dim") if node.left else ("empty", "green")
        used = longest + len(count) + 2 * _GAP + (_NODE_BAR_WIDTH + _GAP) * has_bars
        is_beside = used + len(words) <= self._console.width
        line = Table.grid(padding=(0, _GAP))
        name = Text(node.node.ljust(longest), overflow="fold")
        line.add_row(name, *bars, count, Text(words if is_beside else "", style))
        yield line
        if not is_beside:
            yield Padding(Text(words, style, overflow="fold"), (0, 0, 0, _GAP))

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
    if console := live_console(stream, terminal):
        return LiveDrainDisplay(console, terminal, settle_time)
    return DrainDisplay(terminal, line_printer(terminal, to_stderr=to_stderr), settle_time)
