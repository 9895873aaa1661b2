"""All nodes as columns of numbers, the changes between two moments, and the load over time.

A cluster of 5,000 nodes is a few arrays, not 5,000 objects. Pods are not in it: they are read node by node.
"""

from collections import Counter, deque
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from rescheduler.api.daemon_status import ResourceBalance
from rescheduler.cluster.node_record import in_maintenance
from rescheduler.cluster.snapshot import CPU, MEMORY, PODS, Ints, Snapshot
from rescheduler.planner.plan import percent_of_allocatable
from rescheduler.web.api_types import (
    BalancePoint,
    BalanceView,
    ClusterView,
    LabelColumn,
    LabelKey,
    LoadSeries,
    NodeGridColumns,
    NodesDelta,
    ResourceColumn,
)

__all__ = ["GridMarks", "LoadHistory", "NodeNumbers", "cluster_view", "label_column", "nodes_delta"]

NOT_READY, CORDONED, MAINTENANCE, SUSPECT, PLANNED = 1, 2, 4, 8, 16

_ZONE_LABELS: Final = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")
_POOL_LABELS: Final = (
    "karpenter.sh/nodepool",
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "kubernetes.azure.com/agentpool",
    "node.kubernetes.io/pool",
    "agentpool",
    "nodepool",
    "pool",
)
_HOSTNAME: Final = "kubernetes.io/hostname"
_MOST_LABEL_KEYS: Final = 200
_DIGITS: Final = 2


@dataclass(frozen=True, slots=True)
class GridMarks:
    """Facts about nodes that are not in the snapshot."""

    suspects: frozenset[str] = frozenset()
    planned: frozenset[str] = frozenset()
    """Nodes from which or to which the plan moves pods."""


@dataclass(frozen=True, slots=True, eq=False)
class NodeNumbers:
    """The numbers of all nodes at one moment."""

    names: tuple[str, ...]
    resources: tuple[str, ...]
    allocatable: Ints
    requested: Ints
    load: Ints
    flags: Ints

    @classmethod
    def of(cls, snapshot: Snapshot, marks: GridMarks) -> "NodeNumbers":
        nodes = snapshot.nodes
        flags = NOT_READY * ~nodes.ready + CORDONED * ~nodes.schedulable
        flags = flags.astype(np.int64)
        for row, record in enumerate(nodes.records):
            if in_maintenance(record):
                flags[row] |= MAINTENANCE
        for names, bit in ((marks.suspects, SUSPECT), (marks.planned, PLANNED)):
            rows = [nodes.row[name] for name in names if name in nodes.row]
            flags[rows] |= bit
        used = [
            column
            for column in range(len(snapshot.resources))
            if column in {CPU, MEMORY, PODS} or nodes.allocatable[:, column].any()
        ]
        return cls(
            tuple(record.name for record in nodes.records),
            tuple(snapshot.resources[column] for column in used),
            nodes.allocatable[:, used],
            nodes.requested[:, used],
            nodes.load[:, used],
            flags,
        )

    def changed_rows(self, before: "NodeNumbers") -> list[int] | None:
        """Return the rows that differ; None if the nodes or the resources have changed."""
        if self.names != before.names or self.resources != before.resources:
            return None
        differs = self.flags != before.flags
        for name in ("allocatable", "requested", "load"):
            differs = differs | (getattr(self, name) != getattr(before, name)).any(axis=1)
        return [int(row) for row in np.flatnonzero(differs)]

    def columns(self, rows: list[int] | slice = slice(None)) -> list[ResourceColumn]:
        return [
            ResourceColumn(
                name,
                self.allocatable[rows, column].tolist(),
                self.requested[rows, column].tolist(),
                self.load[rows, column].tolist(),
            )
            for column, name in enumerate(self.resources)
        ]

    def pods(self, rows: list[int] | slice = slice(None)) -> list[int]:
        found: list[int] = self.requested[rows, self.resources.index("pods")].tolist()
        return found


def nodes_delta(
    before: NodeNumbers, after: NodeNumbers, revision: int, at_s: float, balance: Iterable[ResourceBalance]
) -> NodesDelta | None:
    """Return the rows that changed, possibly none; None if the page must load the cluster again."""
    rows = after.changed_rows(before)
    if rows is None:
        return None
    return NodesDelta(
        revision,
        _moment(at_s),
        rows,
        after.columns(rows),
        after.pods(rows),
        after.flags[rows].tolist(),
        list(balance),
    )


def cluster_view(
    snapshot: Snapshot,
    numbers: NodeNumbers,
    *,
    revision: int,
    epoch: str,
    balance: Iterable[ResourceBalance],
    usage_source: str,
) -> ClusterView:
    return ClusterView(
        revision=revision,
        epoch=epoch,
        taken_at=_moment(snapshot.taken_at_s),
        nodes=NodeGridColumns(
            names=list(numbers.names),
            resources=numbers.columns(),
            pods=numbers.pods(),
            flags=numbers.flags.tolist(),
            zone=_first_label(snapshot, _ZONE_LABELS),
            pool=_first_label(snapshot, _POOL_LABELS),
        ),
        label_keys=_label_keys(snapshot),
        balance=list(balance),
        usage_source=usage_source,
        pod_count=len(snapshot.pods),
        namespace_count=len(snapshot.namespaces),
        staleness_seconds=round(snapshot.staleness_s, 1),
    )


def _moment(at_s: float) -> datetime:
    return datetime.fromtimestamp(at_s, UTC)


def _first_label(snapshot: Snapshot, keys: Sequence[str]) -> LabelColumn:
    """Return the column of the first of these labels that any node has."""
    for key in keys:
        found = label_column(snapshot, key)
        if found is not None:
            return found
    return LabelColumn(keys[0], [], [-1] * len(snapshot.nodes))


def label_column(snapshot: Snapshot, key: str) -> LabelColumn | None:
    """Return the values of one label; None if no node has it."""
    values = [record.labels.get(key) for record in snapshot.nodes.records]
    distinct = sorted({value for value in values if value is not None})
    if not distinct:
        return None
    number = {value: index for index, value in enumerate(distinct)}
    return LabelColumn(key, distinct, [-1 if value is None else number[value] for value in values])


def _label_keys(snapshot: Snapshot) -> list[LabelKey]:
    """Return the labels by which nodes can be grouped, most common first."""
    nodes: Counter[str] = Counter()
    values: dict[str, set[str]] = {}
    for record in snapshot.nodes.records:
        for key, value in record.labels.items():
            nodes[key] += 1
            values.setdefault(key, set()).add(value)
    return [
        LabelKey(key, len(values[key]), count)
        for key, count in sorted(nodes.items(), key=lambda each: (-each[1], each[0]))[:_MOST_LABEL_KEYS]
        if key != _HOSTNAME
    ]


_Half = npt.NDArray[np.float16]


class _LoadSample(NamedTuple):
    at_s: float
    loads: _Half
    balance: tuple[BalancePoint, ...]


@dataclass(slots=True)
class LoadHistory:
    """Loads of all nodes over time, in a bounded number of samples: 240 of 5,000 nodes take 5 MB.

    A page that was just opened shows seconds. When all samples are used, every second one is dropped and the
    interval doubles, up to `longest_interval_s`; from then on the oldest samples are dropped.
    """

    interval_s: float = 2.0
    longest_interval_s: float = 60.0
    most: int = 240
    _names: tuple[str, ...] = ()
    _samples: deque[_LoadSample] = field(default_factory=deque)

    def add(self, snapshot: Snapshot, resources: Collection[str]) -> bool:
        """Add a sample if one is due; return whether it was."""
        if self._samples and snapshot.taken_at_s - self._samples[-1].at_s < self.interval_s:
            return False
        nodes = snapshot.nodes
        load = percent_of_allocatable(nodes.load, nodes.allocatable)
        names = tuple(record.name for record in nodes.records)
        if names != self._names:
            self._follow_nodes(names)
        # Loads that a half float can't hold are invalid.
        sample = np.minimum(load[:, [CPU, MEMORY]], 60_000.0).astype(np.float16)
        balance = (
            point
            for name in resources
            if name in snapshot.resources
            for point in _balance_point(snapshot, load[:, snapshot.resources.index(name)], name)
        )
        self._samples.append(_LoadSample(snapshot.taken_at_s, sample, tuple(balance)))
        if len(self._samples) > self.most:
            self._make_room()
        return True

    def _make_room(self) -> None:
        if 2 * self.interval_s > self.longest_interval_s:
            self._samples.popleft()
            return
        self._samples = deque(each for place, each in enumerate(self._samples) if place % 2 == 0)
        self.interval_s *= 2

    def _follow_nodes(self, names: tuple[str, ...]) -> None:
        """Keep the history of the nodes that are still there."""
        before = {name: row for row, name in enumerate(self._names)}
        rows = np.array([before.get(name, -1) for name in names], dtype=np.int64)
        for index, sample in enumerate(self._samples):
            known = np.full((len(names), 2), np.nan, dtype=np.float16)
            if len(sample.loads):
                known[rows >= 0] = sample.loads[rows[rows >= 0]]
            self._samples[index] = sample._replace(loads=known)
        self._names = names

    def of_node(self, name: str) -> LoadSeries:
        """Return the known loads of one node."""
        if name not in self._names:
            return LoadSeries([], {"cpu": [], "memory": []})
        row = self._names.index(name)
        known = [(at_s, loads[row]) for at_s, loads, _ in self._samples if not np.isnan(loads[row, 0])]
        return LoadSeries(
            [at_s for at_s, _ in known],
            {
                "cpu": [round(float(loads[0]), _DIGITS) for _, loads in known],
                "memory": [round(float(loads[1]), _DIGITS) for _, loads in known],
            },
        )

    def balance(self) -> BalanceView:
        return BalanceView(self.interval_s, [point for sample in self._samples for point in sample.balance])


def _balance_point(
    snapshot: Snapshot, load: npt.NDArray[np.float64], resource: str
) -> Iterable[BalancePoint]:
    column = snapshot.resources.index(resource)
    loads = load[snapshot.nodes.ready & (snapshot.nodes.allocatable[:, column] > 0)]
    if len(loads):
        numbers = (loads.mean(), loads.std(), loads.min(), loads.max())
        yield BalancePoint(snapshot.taken_at_s, resource, *(round(float(each), _DIGITS) for each in numbers))
