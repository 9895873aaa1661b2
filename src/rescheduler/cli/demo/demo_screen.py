"""The output of the demo, which is a live view on a terminal and lines elsewhere."""

import contextlib
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from rescheduler.api.podmigration import Handover, Migration, MigrationPhase
from rescheduler.api.well_known_names import POD_MIGRATION_KIND
from rescheduler.cli.demo.demo_scenario import ClusterMonitor, DemoChapter
from rescheduler.cli.move_status import migration_fraction
from rescheduler.cli.progress_display import refreshed_on_loop
from rescheduler.cli.terminal import cut_sentence
from rescheduler.cluster.node_record import NodeRecord
from rescheduler.cluster.pod_record import PodRecord
from rescheduler.migrations.labels_and_names import original_pod_name
from rescheduler.migrations.transition_table import MigrationStep

__all__ = ["DemoScreen", "LiveDemoScreen", "cluster_table", "migration_news", "print_demo_summary"]


def migration_news(before: Migration | None, now: Migration) -> str:
    """Return a line about a change of a migration; empty for a minor change."""
    spec, status = now.spec, now.status
    was = before.status.step if before is not None else ""
    if status.step == was:
        return ""
    nodes = f"{now.pod_key}  {spec.source_node} → {now.target_node or '?'}"
    match status.step:
        case MigrationStep.MARKING:
            return f"{nodes}  {spec.strategy}: {spec.reason}"
        case MigrationStep.ADOPTING | MigrationStep.REPLACING | MigrationStep.RELEASING if (
            status.phase is not MigrationPhase.FAILED
        ):
            return ""
        case MigrationStep.EVICTING if status.handover is not Handover.EVICT:
            return f"{nodes}  copy is ready, evicting the source pod"
        case MigrationStep.EVICTING:
            return f"{nodes}  evicting within the budget, the replacement is steered"
        case MigrationStep.ROLLING_BACK:
            return f"{nodes}  rolled back: {status.message}"
        case MigrationStep.COMPLETED:
            return f"{nodes}  {'moved' if status.message == 'moved' else f'moved: {status.message}'}"
        case MigrationStep.FAILED:
            return f"{nodes}  failed: {status.message}"
        case _:
            return ""


_LOAD_BAR_WIDTH, _NARROW_LOAD_BAR_WIDTH = 12, 5
_NARROW: Final = 100
"""Below this width of the terminal, bars are shorter, and a move has a second line for its step."""
_HOT, _WARM = 75.0, 50.0
_COLOURS = ("cyan", "green", "yellow", "magenta", "blue", "bright_red", "bright_cyan", "bright_green")


def cluster_table(nodes: Iterable[NodeRecord], pods: Iterable[PodRecord], width: int) -> RenderableType:
    """Return a table with a row per node; load is the sum of requests in percent of allocatable.

    `width` is that of the terminal.
    """
    bar = _LOAD_BAR_WIDTH if width >= _NARROW else _NARROW_LOAD_BAR_WIDTH
    placed: dict[str, list[PodRecord]] = {}
    for pod in sorted(pods, key=lambda pod: pod.key):
        placed.setdefault("" if pod.is_finished else pod.node, []).append(pod)
    colours = _colours(placed)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for title in ("node", "status", "cpu", "memory", "pods"):
        table.add_column(title, header_style="bold", vertical="top")
    for node in sorted(nodes, key=lambda node: node.name):
        here = placed.get(node.name, [])
        cpu = sum(pod.requests.cpu_millis for pod in here)
        memory = sum(pod.requests.memory_bytes for pod in here)
        table.add_row(
            node.name,
            _status(node),
            _load(cpu, node.allocatable.cpu_millis, bar),
            _load(memory, node.allocatable.memory_bytes, bar),
            _pods(here, colours),
        )
    waiting = placed.get("", [])
    if not waiting:
        return table
    return Group(table, Text.assemble("\nnot on a node: ", _pods(waiting, colours)))


def _status(node: NodeRecord) -> Text:
    if not node.is_ready:
        return Text("NotReady", "bold red")
    return Text("cordoned", "yellow") if node.unschedulable else Text("Ready", "green")


def _load(used: int, allocatable: int, width: int) -> RenderableType:
    percent = 100.0 * used / allocatable if allocatable else 0.0
    style = "red" if percent >= _HOT else "yellow" if percent >= _WARM else "green"
    bar = ProgressBar(total=100, completed=percent, width=width, complete_style=style, finished_style=style)
    row = Table.grid(padding=(0, 1))
    row.add_row(bar, f"{percent:3.0f}%")
    return row


def _workload(pod: PodRecord) -> str:
    """Return the name of the workload, without the ReplicaSet's hash for a Deployment."""
    owner, revision = pod.owner, pod.labels.get("pod-template-hash")
    if owner is not None and owner.kind == POD_MIGRATION_KIND:  # a copy, until it is adopted
        original = original_pod_name(pod.name, pod.annotations)
        return original.partition(f"-{revision}")[0] if revision else original
    if owner is None:
        return pod.name
    return owner.name.removesuffix(f"-{revision}") if revision else owner.name


def _colours(placed: dict[str, list[PodRecord]]) -> dict[str, str]:
    names = sorted({_workload(pod) for here in placed.values() for pod in here})
    return {name: _COLOURS[place % len(_COLOURS)] for place, name in enumerate(names)}


def _pods(pods: list[PodRecord], colours: dict[str, str]) -> Text:
    steady = Counter(_workload(pod) for pod in pods if pod.is_ready and not pod.is_terminating)
    parts = [
        Text(name if count == 1 else f"{name} ×{count}", colours[name])  # noqa: RUF001 - a times sign is meant
        for name, count in sorted(steady.items())
    ]
    for pod in pods:
        if pod.is_terminating:
            parts.append(Text(f"{_workload(pod)} (leaving)", "dim"))
        elif not pod.is_ready:
            parts.append(Text(f"{_workload(pod)} ({pod.phase.lower() or 'new'})", "italic"))
    return Text("  ").join(parts)


_FRAMES_PER_SECOND: Final = 6
_MAX_NEWS: Final = 8
_BAR_WIDTH: Final = 12
_INDENT: Final = 8


class DemoScreen:
    """Prints lines, each with the time since the start."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self.console = console
        self._clock = clock
        self._began_s = clock()

    @contextlib.contextmanager
    def showing(self, monitor: ClusterMonitor) -> Iterator[None]:
        self._began_s = self._clock()
        self.console.print(cluster_table(monitor.nodes, monitor.pods, self.console.width))
        yield
        self.console.print(cluster_table(monitor.nodes, monitor.pods, self.console.width))

    def chapter(self, chapter: DemoChapter) -> None:
        self._say(f"\n{self._time}  {chapter.title}", "bold")
        self._say(f"{' ' * _INDENT}{chapter.words}")

    def report_result(self, chapter: DemoChapter, wrong: str) -> None:
        """Print whether the goal was reached; `wrong` is empty if it was."""
        self._say(f"{self._time}  {'✓' if not wrong else '✗'} {chapter.title}{f': {wrong}' if wrong else ''}",
                  "green" if not wrong else "red")  # fmt: skip

    def migration(self, before: Migration | None, now: Migration) -> None:
        if line := migration_news(before, now):
            self._say(f"{self._time}  {line}", _colour(now))

    @property
    def _time(self) -> str:
        elapsed = int(self._clock() - self._began_s)
        return f"{elapsed // 60:3d}:{elapsed % 60:02d}"

    def _say(self, line: str, style: str = "") -> None:
        self.console.print(Text(line, style), soft_wrap=True)


class LiveDemoScreen(DemoScreen):
    """Redraws the cluster, the running migrations and the latest changes."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(console, clock)
        self._chapter: DemoChapter | None = None
        self._news: deque[Text] = deque(maxlen=_MAX_NEWS)
        self._monitor: ClusterMonitor | None = None

    @contextlib.contextmanager
    def showing(self, monitor: ClusterMonitor) -> Iterator[None]:
        self.begin(monitor)
        frames = Live(console=self.console, get_renderable=self.frame, auto_refresh=False)
        with refreshed_on_loop(frames, _FRAMES_PER_SECOND):
            yield

    def begin(self, monitor: ClusterMonitor) -> None:
        self._monitor = monitor
        self._began_s = self._clock()

    def chapter(self, chapter: DemoChapter) -> None:
        self._chapter = chapter

    def _say(self, line: str, style: str = "") -> None:
        self._news.append(Text(line, style))

    def frame(self) -> RenderableType:
        assert self._monitor is not None
        parts: list[RenderableType] = []
        if self._chapter is not None:
            parts += [Text.assemble((f"{self._time}  ", "dim"), (self._chapter.title, "bold")),
                      Padding(Text(self._chapter.words, "italic"), (0, 0, 1, _INDENT))]  # fmt: skip
        width = self.console.width
        parts += [cluster_table(self._monitor.nodes, self._monitor.pods, width), Text()]
        parts += [
            _running_migrations(self._monitor.running_migrations, width),
            Text(),
        ]
        return Group(*parts, *self._latest(Group(*parts)))

    def _latest(self, above: RenderableType) -> list[Text]:
        """Return the latest lines that fit on the terminal."""
        room = self.console.height - len(self.console.render_lines(above))
        width = self.console.width
        latest = list(self._news)[-max(1, room) :]
        return [Text(cut_sentence(each.plain, width), each.style, no_wrap=True) for each in latest]


def _running_migrations(migrations: list[Migration], width: int) -> RenderableType:
    if not migrations:
        return Text("no running migrations", "dim")
    if width < _NARROW:
        return Group(*(line for each in migrations for line in _narrow_move(each)))
    table = Table.grid(padding=(0, 2), expand=True)
    for _ in range(4):
        table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
    for each in migrations:
        status = each.status
        table.add_row(
            each.pod_key,
            f"{each.spec.source_node} → {each.target_node or '?'}",
            ProgressBar(total=1.0, completed=migration_fraction(each), width=_BAR_WIDTH),
            Text(status.step or "Queued", "cyan"),
            Text(status.message or each.spec.reason, "dim"),
        )
    return table


def _narrow_move(migration: Migration) -> Iterator[Text]:
    """Yield what is moved, and below it the step, which must not be cut: it has a countdown."""
    status = migration.status
    nodes = f"{migration.spec.source_node} → {migration.target_node or '?'}"
    yield Text(f"{migration.pod_key}  {nodes}", no_wrap=True, overflow="ellipsis")
    step = (f"  {status.step or 'Queued'}", "cyan")
    message = (f"  {status.message or migration.spec.reason}", "dim")
    yield Text.assemble(step, message, no_wrap=True, overflow="ellipsis")


def _colour(migration: Migration) -> str:
    if migration.status.phase is MigrationPhase.COMPLETED:
        return "green"
    return "red" if migration.status.phase is MigrationPhase.FAILED else ""


def print_demo_summary(console: Console, monitor: ClusterMonitor, wrong: dict[str, str]) -> None:
    moved = monitor.moved
    lost = {handover: monitor.ready_seconds_lost(handover) for handover in (Handover.ADOPT, Handover.EVICT)}
    before, after = monitor.spread_at_first, monitor.spread()
    words = {
        "balance": f"cpu load of nodes differed by {before:.0f} points, now by {after:.0f}",
        "moves": ", ".join(f"{count} by {handover}" for handover, count in moved.items()) or "none",
        "ready-seconds lost": f"{lost[Handover.ADOPT]:.0f} by Adopt, {lost[Handover.EVICT]:.0f} by Evict",
        "budgets violated": ", ".join(f"{name}: {how}" for name, how in monitor.violated.items()) or "0",
        "goals": "reached" if not wrong else "; ".join(f"{title}: {why}" for title, why in wrong.items()),
    }
    table = Table.grid(padding=(0, 2))
    for title, value in words.items():
        table.add_row(Text(title, "bold"), value)
    console.print()
    console.print(table)
