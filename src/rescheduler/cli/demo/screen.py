"""How the demo is shown: live in a terminal, else line by line."""

import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from rescheduler.cli.cluster_view import cluster_view
from rescheduler.cli.course import share_of
from rescheduler.cli.demo.news import news_of
from rescheduler.cli.demo.story import Chapter
from rescheduler.cli.demo.witness import Witness
from rescheduler.model.migrations import Migration, Phase
from rescheduler.model.plan import Handover

__all__ = ["LiveScreen", "Screen", "print_summary"]

_FRAMES_PER_SECOND: Final = 6
_NEWS: Final = 8
_BAR_WIDTH: Final = 12
_INDENT: Final = 8


class Screen:
    """Lines, each with the time since the beginning."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self.console = console
        self._clock = clock
        self._began_s = clock()

    @contextlib.contextmanager
    def showing(self, witness: Witness) -> Iterator[None]:
        self._began_s = self._clock()
        self.console.print(cluster_view(witness.nodes, witness.pods))
        yield
        self.console.print(cluster_view(witness.nodes, witness.pods))

    def chapter(self, chapter: Chapter) -> None:
        self._say(f"\n{self._time}  {chapter.title}", "bold")
        self._say(f"{' ' * _INDENT}{chapter.words}")

    def came_true(self, chapter: Chapter, wrong: str) -> None:
        """`wrong` is empty if it did."""
        self._say(f"{self._time}  {'✓' if not wrong else '✗'} {chapter.title}{f': {wrong}' if wrong else ''}",
                  "green" if not wrong else "red")  # fmt: skip

    def migration(self, before: Migration | None, now: Migration) -> None:
        if line := news_of(before, now):
            self._say(f"{self._time}  {line}", _colour(now))

    @property
    def _time(self) -> str:
        elapsed = int(self._clock() - self._began_s)
        return f"{elapsed // 60:3d}:{elapsed % 60:02d}"

    def _say(self, line: str, style: str = "") -> None:
        self.console.print(Text(line, style), soft_wrap=True)


class LiveScreen(Screen):
    """The cluster as it is, what is under way, and the latest news below."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(console, clock)
        self._chapter: Chapter | None = None
        self._news: deque[Text] = deque(maxlen=_NEWS)
        self._witness: Witness | None = None

    @contextlib.contextmanager
    def showing(self, witness: Witness) -> Iterator[None]:
        self.begin(witness)
        live = Live(console=self.console, get_renderable=self.frame, refresh_per_second=_FRAMES_PER_SECOND)
        with live:
            yield

    def begin(self, witness: Witness) -> None:
        self._witness = witness
        self._began_s = self._clock()

    def chapter(self, chapter: Chapter) -> None:
        self._chapter = chapter

    def _say(self, line: str, style: str = "") -> None:
        self._news.append(Text(line, style, no_wrap=True, overflow="ellipsis"))

    def frame(self) -> RenderableType:
        assert self._witness is not None
        parts: list[RenderableType] = []
        if self._chapter is not None:
            parts += [Text.assemble((f"{self._time}  ", "dim"), (self._chapter.title, "bold")),
                      Padding(Text(self._chapter.words, "italic"), (0, 0, 1, _INDENT))]  # fmt: skip
        parts += [cluster_view(self._witness.nodes, self._witness.pods), Text()]
        parts += [_under_way([each for each in self._witness.migrations if not each.is_finished]), Text()]
        return Group(*parts, *self._latest(Group(*parts)))

    def _latest(self, above: RenderableType) -> list[Text]:
        """As many as there is room for: on a low terminal it is the old ones that are left out."""
        room = self.console.height - len(self.console.render_lines(above))
        return list(self._news)[-max(1, room) :]


def _under_way(migrations: list[Migration]) -> RenderableType:
    if not migrations:
        return Text("nothing is being moved", "dim")
    table = Table.grid(padding=(0, 2), expand=True)
    for _ in range(4):
        table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
    for each in migrations:
        status = each.status
        table.add_row(
            each.pod_key,
            f"{each.spec.source_node} → {each.target_node or '?'}",
            ProgressBar(total=1.0, completed=share_of(each), width=_BAR_WIDTH),
            Text(status.step or "Queued", "cyan"),
            Text(status.message or each.spec.reason, "dim"),
        )
    return table


def _colour(migration: Migration) -> str:
    if migration.status.phase is Phase.COMPLETED:
        return "green"
    return "red" if migration.status.phase is Phase.FAILED else ""


def print_summary(console: Console, witness: Witness, wrong: dict[str, str]) -> None:
    moved = witness.moved
    lost = {handover: witness.ready_seconds_lost(handover) for handover in (Handover.ADOPT, Handover.EVICT)}
    before, after = witness.spread_at_first, witness.spread()
    words = {
        "balance": f"nodes were {before:.0f} points of cpu apart, now {after:.0f}",
        "moves": ", ".join(f"{count} by {handover}" for handover, count in moved.items()) or "none",
        "ready-seconds lost": f"{lost[Handover.ADOPT]:.0f} by Adopt, {lost[Handover.EVICT]:.0f} by Evict",
        "budgets violated": ", ".join(f"{name}: {how}" for name, how in witness.violated.items()) or "0",
        "the story": "came true"
        if not wrong
        else "; ".join(f"{title}: {why}" for title, why in wrong.items()),
    }
    table = Table.grid(padding=(0, 2))
    for title, value in words.items():
        table.add_row(Text(title, "bold"), value)
    console.print()
    console.print(table)
