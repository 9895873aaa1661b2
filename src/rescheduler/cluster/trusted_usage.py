"""Decide for one check which usage readings are used as load; for all other pods, requests are used.

The reading of a node can't be its load. It is smoothed, so it includes a pod for minutes after the pod has
left, and too many pods would be moved. The load is the sum over the current pods, each smoothed separately,
plus the overhead of the node (kubelet, runtime, system), which stays when pods come and go.
"""

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from math import nan
from typing import Protocol

import numpy as np

from kubevalues.duration import short_duration
from rescheduler.cluster.snapshot import CPU as _CPU
from rescheduler.cluster.snapshot import MAX_AMOUNT, NO_ROW, Flags, Floats, Ints, PodTable
from rescheduler.cluster.usage_readings import (
    MetricReadings,
    Smoothing,
    UsageByName,
    UsageOutcome,
    UsageReading,
    UsageReadings,
    UsageUnavailable,
    smooth,
)
from rescheduler.config.metric_settings import MetricSubject
from rescheduler.config.policy import UsageSource

__all__ = [
    "STALE_AFTER_S",
    "HotNodeHistory",
    "MetricAmounts",
    "RequestsOnlyReader",
    "TrustedUsage",
    "UsageReader",
    "UsageSubjects",
    "fresh_usage",
    "hot_subject",
    "hot_subjects",
    "metric_amounts",
    "node_overhead",
    "usage_for_check",
]

STALE_AFTER_S = 300.0
"""After so many seconds a reading is stale, as in Prometheus."""

_NAMED = 3
_FINE = 1e6
"""Below this capacity, values are stored in millionths, so that values below 1 are exact enough."""
_NO_AVERAGES = Smoothing()


@dataclass(frozen=True, slots=True)
class TrustedUsage:
    source: UsageSource
    """The source of load: `requests` if no reading counts."""
    pods: UsageByName = field(default_factory=dict)
    """Fresh readings by `namespace/name`; the requests of all other pods count instead."""
    nodes: UsageByName = field(default_factory=dict)
    """Fresh readings of the overhead of nodes, by name; all other nodes have no overhead."""
    notes: tuple[str, ...] = ()
    """The assumptions, for the plan's summary."""


def fresh_usage(
    readings: UsageReadings,
    *,
    pods: Collection[str],
    nodes: Collection[str],
    now_s: float,
    failure: UsageUnavailable | None = None,
) -> TrustedUsage:
    """Return the readings that count, for the running pods and the existing nodes.

    With a `failure`, the readings are averages of earlier checks.
    """
    if readings.source is UsageSource.REQUESTS:
        return TrustedUsage(UsageSource.REQUESTS)
    oldest_s = now_s - STALE_AFTER_S
    fresh = {key: used for key in pods if (used := readings.pods.get(key)) and used.at_s >= oldest_s}
    if not fresh:
        return TrustedUsage(UsageSource.REQUESTS, notes=tuple(_no_usage_notes(readings, pods, failure)))
    known_nodes = {
        name: used for name in nodes if (used := readings.nodes.get(name)) and used.at_s >= oldest_s
    }
    notes = list(readings.notes)
    if failure:
        seconds = round(now_s - max(used.at_s for used in fresh.values()))
        notes.append(f"usage of {_span(max(0, seconds))} ago is used: {failure.why}")
    notes += _missing_usage_notes(readings, pods, fresh)
    return TrustedUsage(readings.source, fresh, known_nodes, tuple(notes))


def _no_usage_notes(
    readings: UsageReadings, pods: Collection[str], failure: UsageUnavailable | None
) -> Iterator[str]:
    yield from readings.notes
    if failure:
        yield f"requests are used as load: {failure.why}"
    elif pods:
        known = any(key in readings.pods for key in pods)
        what = f"is older than {_span(STALE_AFTER_S)}" if known else "is missing"
        yield f"requests are used as load: the usage of all pods from {readings.source} {what}"


def _missing_usage_notes(readings: UsageReadings, pods: Collection[str], fresh: UsageByName) -> Iterator[str]:
    if len(fresh) == len(pods):
        return
    rest = [key for key in pods if key not in fresh]
    stale = sorted(key for key in rest if key in readings.pods)
    missing = sorted(key for key in rest if key not in readings.pods)
    if missing:
        yield _substitution_note(missing, "is missing")
    if stale:
        yield _substitution_note(stale, f"is older than {_span(STALE_AFTER_S)}")


def _substitution_note(keys: list[str], what: str) -> str:
    if len(keys) == 1:
        return f"usage of pod {keys[0]} {what}: its requests are used instead"
    return f"usage of {len(keys)} pods {what} ({_first(keys)}): their requests are used instead"


def _first(keys: Iterable[str]) -> str:
    named = list(keys)
    return ", ".join(named[:_NAMED]) + (", …" if len(named) > _NAMED else "")


def _span(seconds: float) -> str:
    return short_duration(timedelta(seconds=seconds))


def node_overhead(readings: UsageReadings, node_of: Mapping[str, str]) -> UsageReadings:
    """Return the readings with the overhead of each node in place of its whole usage.

    `node_of` has the node of every running pod. A node with a pod that was not measured is left out, because
    its overhead is not known.
    """
    if not readings.nodes:
        return readings
    cpu_millis = dict.fromkeys(readings.nodes, 0)
    memory_bytes = dict.fromkeys(readings.nodes, 0)
    unclear = set()
    for key, node in node_of.items():
        if node not in cpu_millis:
            continue
        used = readings.pods.get(key)
        if used is None:
            unclear.add(node)
        else:
            cpu_millis[node] += used.cpu_millis
            memory_bytes[node] += used.memory_bytes
    rest = {
        # Pods and nodes are not measured at the same time, so the difference may be negative.
        name: UsageReading(
            max(0, whole.cpu_millis - cpu_millis[name]),
            max(0, whole.memory_bytes - memory_bytes[name]),
            whole.at_s,
        )
        for name, whole in readings.nodes.items()
        if name not in unclear
    }
    return replace(readings, nodes=rest)


@dataclass(frozen=True, slots=True)
class UsageSubjects:
    """The pods and nodes whose usage is needed."""

    node_of: Mapping[str, str]
    """The node of every running pod, by the pod's `namespace/name`."""
    pod_uids: Mapping[str, str]
    """The uids of the same pods."""
    node_uids: Mapping[str, str]
    """The uids of all nodes, by name."""


def usage_for_check(
    outcome: UsageOutcome,
    subjects: UsageSubjects,
    *,
    now_s: float,
    half_life_s: float,
    smoothing: Smoothing | None,
) -> tuple[TrustedUsage, Smoothing | None]:
    """Return the usage that counts now, and the smoothing for the next check.

    Without `smoothing` (a single plan has no checks before it) the readings count as they are.
    """
    if outcome.source is UsageSource.REQUESTS:  # nothing was measured, so nothing is averaged
        return TrustedUsage(UsageSource.REQUESTS), smoothing and _NO_AVERAGES
    failure = outcome if isinstance(outcome, UsageUnavailable) else None
    readings = UsageReadings(outcome.source) if isinstance(outcome, UsageUnavailable) else outcome
    readings = node_overhead(readings, subjects.node_of)
    if smoothing is not None:
        smoothing, readings = smooth(
            smoothing, readings, half_life_s, pod_uids=subjects.pod_uids, node_uids=subjects.node_uids
        )
    trusted = fresh_usage(
        readings, pods=subjects.node_of, nodes=subjects.node_uids, now_s=now_s, failure=failure
    )
    return trusted, smoothing


@dataclass(frozen=True, slots=True)
class MetricAmounts:
    """One custom metric as columns of whole numbers."""

    capacity: Ints
    """[node]: the value that is 100 %; 0 if the metric is not known."""
    load: Ints
    """[pod]"""
    notes: tuple[str, ...]
    """Messages about the nodes that are left out, and why."""


def metric_amounts(
    readings: MetricReadings, names: Sequence[str], pods: PodTable, settling: Flags
) -> MetricAmounts:
    """Return the load of each pod and the capacity of each node. Unknown values are not guessed.

    `names` are the names of the nodes. The value of a node can't be trusted while the node is `settling`: it
    is an average over minutes, and a pod has arrived or left. Values of measured pods move with them.
    """
    metric, placed = readings.metric, pods.node != NO_ROW
    node = pods.node[placed]
    own = np.array([readings.pods.get(pod.key, nan) for pod in pods.records], np.float64)[placed]
    capacity = np.array([readings.capacities.get(name, metric.capacity or nan) for name in names], np.float64)
    left_out = {"no capacity is known": ~(capacity > 0)}
    if metric.per is MetricSubject.NODE:
        weight = np.nan_to_num(own) if metric.pod_query is not None else pods.load[placed, _CPU].astype(float)
        value = np.array([readings.nodes.get(name, nan) for name in names], np.float64)
        weights = np.bincount(node, weight, len(names))
        left_out["there is no value"] = np.isnan(value)
        left_out["no pod accounts for the value"] = (weights <= 0) & (value > 0)
        left_out["a pod has recently left or arrived"] = settling
        whole = weights[node]
        used = value[node] * np.divide(weight, whole, out=np.zeros(len(node)), where=whole > 0)
    else:
        measured = np.bincount(node, ~np.isnan(own), len(names))
        left_out["no pod has a value"] = (measured == 0) & (np.bincount(node, minlength=len(names)) > 0)
        used = np.nan_to_num(own)
    unknown = np.logical_or.reduce(list(left_out.values()))
    scale = _FINE if capacity[~unknown].min(initial=_FINE) < _FINE else 1.0
    load = np.zeros(len(pods), np.int64)
    load[placed] = _amounts(np.where(unknown[node], 0.0, used), scale)
    # A capacity that rounds to 0 is still known.
    allocatable = np.maximum(_amounts(np.where(unknown, 0.0, capacity), scale), ~unknown)
    return MetricAmounts(allocatable, load, tuple(_nodes_left_out(metric.name, names, left_out)))


def _amounts(values: Floats, scale: float) -> Ints:
    return np.rint(np.minimum(values * scale, MAX_AMOUNT)).astype(np.int64)


def _nodes_left_out(metric: str, names: Sequence[str], left_out: Mapping[str, Flags]) -> Iterator[str]:
    """Yield each reason once, with the nodes to which it applies and no earlier one does."""
    named = np.zeros(len(names), np.bool_)
    for why, nodes in left_out.items():
        found = [names[row] for row in np.flatnonzero(nodes & ~named).tolist()]
        named |= nodes
        if found:
            count = "1 node" if len(found) == 1 else f"{len(found)} nodes"
            yield f"{metric}: LoadBalancing leaves out {count} ({_first(found)}), because {why}"


class UsageReader(Protocol):
    async def read(self) -> UsageOutcome:
        """Return the current usage. Every failure is returned as `UsageUnavailable`; nothing is raised."""
        ...

    async def close(self) -> None: ...


class RequestsOnlyReader:
    """A reader that reads nothing, because the load of a pod is its requests."""

    async def read(self) -> UsageOutcome:
        return UsageReadings(UsageSource.REQUESTS)

    async def close(self) -> None:
        pass


@dataclass(frozen=True, slots=True)
class HotNodeHistory:
    """The number of consecutive checks that found each node too hot; empty after a start."""

    source: UsageSource | None = None
    checks: int = 0
    """The number of checks with this source."""
    in_a_row: Mapping[Hashable, int] = field(default_factory=dict)
    """How many consecutive checks, up to the last one, found this too hot; at least 1."""

    def after(self, too_hot: Iterable[Hashable], source: UsageSource) -> "HotNodeHistory":
        """Return the history after one more check.

        `too_hot` has names of nodes, or keys of `hot_subject` where strategies differ. Load from another
        source is not comparable, so counting restarts.
        """
        before = self if self.source is source else HotNodeHistory()
        counted = {subject: before.in_a_row.get(subject, 0) + 1 for subject in too_hot}
        return HotNodeHistory(source, before.checks + 1, counted)


def hot_subject(strategy: str, profile: int, node: str) -> Hashable:
    """Return the key under which a hot node is counted: thresholds differ by strategy and profile."""
    return (strategy, node) if not profile else (strategy, profile, node)


def hot_subjects(
    heat: HotNodeHistory | None, too_hot: Iterable[Hashable], hot_checks: int
) -> frozenset[Hashable]:
    """Return the subjects in `too_hot` that count as hot. `heat` already includes the current check.

    Without it (a single plan has no checks before it), all of them count.
    """
    if heat is None or heat.source is UsageSource.REQUESTS:
        return frozenset(too_hot)
    return frozenset(subject for subject in too_hot if heat.in_a_row.get(subject, 0) >= hot_checks)
