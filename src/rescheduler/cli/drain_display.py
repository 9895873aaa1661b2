"""How far nodes are from being empty: a bar for each on a terminal, lines elsewhere."""

import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final, TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from rescheduler.api.daemon_status import NodeInMaintenance
from rescheduler.cli.move_status import move_state
from rescheduler.cli.progress_display import INTERRUPT_NOTICE, ProgressDisplay, SafeConsole
from rescheduler.cli.safe_output import echo
from rescheduler.cli.terminal import Terminal, terminal_of
from rescheduler.migrations.controller.plan_execution import MoveProgress

__all__ = ["DrainDisplay", "drain_display_for"]

_BAR_WIDTH: Final = 24
_FRAMES_PER_SECOND: Final = 4

NodeStates = Callable[[], Sequence[NodeInMaintenance]]


class DrainDisplay(ProgressDisplay):
    """As lines: what becomes of each move, and how many pods are left whenever that is known anew."""

    def __init__(self, terminal: Terminal, print_line: Callable[[str], object]) -> None:
        super().__init__(terminal, print_line)
        self._print_line = print_line
        self._told_nodes: dict[str, str] = {}

    @contextlib.contextmanager
    def showing_nodes(self, now: NodeStates) -> Iterator[None]:  # noqa: ARG002 - lines are printed when told
        yield

    def tell_nodes(self, nodes: Sequence[NodeInMaintenance]) -> None:
        for node in nodes:
            if not self.has_told(node):
                self._told_nodes[node.node] = node.message
                self._print_line(f"{self.elapsed:>6}  {node.node}: {node.message}")

    def has_told(self, node: NodeInMaintenance) -> bool:
        """Whether the last line about it says how it is now."""
        return self._told_nodes.get(node.node) == node.message


class LiveDrainDisplay(DrainDisplay):
    def __init__(self, console: Console, terminal: Terminal) -> None:
        # The console has styles of its own.
        super().__init__(replace(terminal, colour=False), lambda line: console.print(line, soft_wrap=True))
        self._console = console
        self._most: dict[str, int] = {}
        self._moving: dict[str, str] = {}
        self._now: NodeStates = tuple

    @contextlib.contextmanager
    def showing_nodes(self, now: NodeStates) -> Iterator[None]:
        self._now = now
        frames = Live(console=self._console, get_renderable=self.frame, refresh_per_second=_FRAMES_PER_SECOND)
        with frames:
            yield

    def tell(self, errand: MoveProgress) -> None:
        """What is over is seen from the bars; of what is under way, the last step that was made."""
        state, words = move_state(errand)
        if state in {"Failed", "Given up"}:
            super().tell(errand)
        self._moving[errand.move.source] = f"{errand.move.pod}: {words or state}"

    def tell_nodes(self, nodes: Sequence[NodeInMaintenance]) -> None:
        """The bars ask for it themselves."""

    def has_told(self, node: NodeInMaintenance) -> bool:
        """What the last bars say stays on the screen, but they name nothing that is left."""
        return not node.left

    def interrupted(self) -> None:
        self.is_interrupted = True

    def frame(self) -> RenderableType:
        table = Table.grid(padding=(0, 2), expand=True)
        for _ in range(3):
            table.add_column(no_wrap=True)
        table.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
        for node in self._now():
            most = self._most[node.node] = max(self._most.get(node.node, 0), node.left)
            gone = most - node.left
            bar = ProgressBar(total=max(most, 1), completed=gone if most else 1, width=_BAR_WIDTH)
            words = self._moving.get(node.node, "") if node.left else "empty"
            table.add_row(
                node.node, bar, f"{gone} of {most} pods gone", Text(words, "dim" if node.left else "green")
            )
        lines: list[RenderableType] = [table]
        if self.is_interrupted:
            lines.append(Text(INTERRUPT_NOTICE, "yellow"))
        return Group(*lines)


def drain_display_for(stream: TextIO, *, to_stderr: bool) -> DrainDisplay:
    terminal = terminal_of(stream)
    is_logging = logging.getLogger().isEnabledFor(logging.INFO)
    if terminal.width is not None and terminal.colour and terminal.unicode and not is_logging:
        return LiveDrainDisplay(SafeConsole(file=stream, width=terminal.width), terminal)
    return DrainDisplay(terminal, lambda line: echo(line, err=to_stderr, color=terminal.colour))
