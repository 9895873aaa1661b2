"""A cluster as a person likes to see it: a row per node, its load as bars, its pods by workload."""

from collections import Counter
from collections.abc import Iterable

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from rescheduler.migrations.marks import original_name
from rescheduler.model.migrations import KIND
from rescheduler.model.nodes import NodeRecord
from rescheduler.model.pods import PodRecord

__all__ = ["cluster_view"]

_BAR_WIDTH = 12
_HOT, _WARM = 75.0, 50.0
_COLOURS = ("cyan", "green", "yellow", "magenta", "blue", "bright_red", "bright_cyan", "bright_green")


def cluster_view(nodes: Iterable[NodeRecord], pods: Iterable[PodRecord]) -> RenderableType:
    """Load is what the pods request, in percent of what the node has to give."""
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
            _load(cpu, node.allocatable.cpu_millis),
            _load(memory, node.allocatable.memory_bytes),
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


def _load(used: int, allocatable: int) -> RenderableType:
    percent = 100.0 * used / allocatable if allocatable else 0.0
    style = "red" if percent >= _HOT else "yellow" if percent >= _WARM else "green"
    bar = ProgressBar(
        total=100, completed=percent, width=_BAR_WIDTH, complete_style=style, finished_style=style
    )
    row = Table.grid(padding=(0, 1))
    row.add_row(bar, f"{percent:3.0f}%")
    return row


def _workload(pod: PodRecord) -> str:
    """What a person calls it: the Deployment's name, without the hash of its ReplicaSet."""
    owner, revision = pod.owner, pod.labels.get("pod-template-hash")
    if owner is not None and owner.kind == KIND:  # a copy, until it is adopted
        original = original_name(pod.name, pod.marks)
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
