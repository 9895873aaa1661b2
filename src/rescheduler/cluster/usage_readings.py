"""Hold readings of usage with their source and time, and average them with a half-life.

Readings arrive at irregular times, and one can be seen twice if checks are more frequent than measurements.
So a reading has the weight `1 - 2^(-dt/half-life)`, where `dt` is the time since the previous reading. The
average does not depend on how the time is divided into checks, and a repeated reading has no weight.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import compress

import msgspec
import numpy as np

from rescheduler.cluster.snapshot import Flags, Floats, Ints, map_in_slices, slices
from rescheduler.config.metric_settings import CustomMetric
from rescheduler.config.policy import Policy, UsageSource

__all__ = [
    "AT_S",
    "CLOCK_SET_BACK_S",
    "CPU",
    "MAX_READING",
    "MEMORY",
    "NO_CUSTOM_READINGS",
    "UNKNOWN",
    "CustomReadings",
    "MetricReadings",
    "Smoothing",
    "UsageAverage",
    "UsageAverages",
    "UsageByName",
    "UsageOutcome",
    "UsageReading",
    "UsageReadings",
    "UsageUnavailable",
    "balanced_metrics",
    "effective_usage_source",
    "smooth",
]

MAX_READING = 2**50
"""The largest plausible reading, in cores or bytes; anything above is a mistake."""


class UsageReading(msgspec.Struct, frozen=True, gc=False):
    """The usage of one pod or one node. There is one reading for every pod of the cluster, so it is small."""

    cpu_millis: int
    memory_bytes: int
    at_s: float
    """When it was measured, in seconds since 1970."""


UsageByName = Mapping[str, UsageReading]
"""Pods by `namespace/name`, nodes by name."""


@dataclass(frozen=True, slots=True)
class MetricReadings:
    """The values of one custom metric. Nodes and pods that are missing have no value."""

    metric: CustomMetric
    nodes: Mapping[str, float] = field(default_factory=dict)
    pods: Mapping[str, float] = field(default_factory=dict)
    """Values by `namespace/name`: of `query`, or of `podQuery`."""
    capacities: Mapping[str, float] = field(default_factory=dict)
    """Values of `capacityQuery`, by node."""


@dataclass(frozen=True, slots=True)
class CustomReadings:
    """The readings of all custom metrics that are balanced."""

    metrics: tuple[MetricReadings, ...] = ()
    notes: tuple[str, ...] = ()
    """Messages about metrics that could not be read, and about values that were left out."""


NO_CUSTOM_READINGS = CustomReadings()


@dataclass(frozen=True, slots=True)
class UsageReadings:
    """All readings of one request. Pods and nodes that are missing were not measured."""

    source: UsageSource
    pods: UsageByName = field(default_factory=dict)
    nodes: UsageByName = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    """Messages about invalid readings, and warnings of the source."""
    custom: CustomReadings = NO_CUSTOM_READINGS


@dataclass(frozen=True, slots=True)
class UsageUnavailable:
    """The source returned no usage this time."""

    source: UsageSource
    why: str
    """The failure, its cause and the remedy, in whole sentences."""
    custom: CustomReadings = NO_CUSTOM_READINGS


UsageOutcome = UsageReadings | UsageUnavailable


def effective_usage_source(policy: Policy) -> UsageSource:
    """Return the source to use: for `auto`, Prometheus if one is configured, else the metrics API.

    If the metrics API turns out not to be served, requests count. A Prometheus that is down is not replaced
    by the metrics API: its queries may measure something else, and load would jump back and forth.
    """
    if policy.usage_source is not UsageSource.AUTO:
        return policy.usage_source
    return UsageSource.PROMETHEUS if policy.prometheus.url else UsageSource.METRICS


def balanced_metrics(policy: Policy) -> tuple[CustomMetric, ...]:
    """Return the custom metrics that some profile balances."""
    named = {name for profile in policy.every_profile for name in profile.balance_resources}
    return tuple(each for each in policy.custom_metrics if each.name in named)


CPU, MEMORY, AT_S = range(3)
"""Columns of averages: cpu in thousandths, memory in bytes, and when it was last measured. They are
fractions, because in whole units a slow drift would be rounded away at every step."""

UNKNOWN = -1
"""The row of a name that has no average."""


class UsageAverage(msgspec.Struct, frozen=True, gc=False):
    """The average usage of one pod or node."""

    uid: str
    """The uid of the object; another object of the same name gets a new average."""
    cpu_millis: float
    memory_bytes: float
    at_s: float
    """When it was last measured."""


class UsageAverages(Mapping[str, UsageAverage]):
    """Averages by name; `columns` has all of them."""

    __slots__ = ("_names", "_row_of_name", "_uids", "columns")

    def __init__(self, names: list[str], uids: list[str], columns: Floats) -> None:
        """Store the columns; all arguments are in the same order."""
        self._names = names
        self._uids = uids
        self.columns = columns
        self._row_of_name: dict[str, int] | None = None
        """The rows by name; built on first use."""

    def rows_of(self, names: list[str], uids: list[str]) -> Ints:
        """Return the row of each name; `UNKNOWN` also if the name now belongs to another object."""
        if names == self._names and uids == self._uids:  # as in most checks
            return np.arange(len(names))
        place, known = self._rows_by_name(), self._uids
        found = [place.get(name, UNKNOWN) for name in names]
        pairs = zip(found, uids, strict=True)
        return np.array(
            [at if at != UNKNOWN and known[at] == uid else UNKNOWN for at, uid in pairs], np.int64
        )

    def whole(self) -> dict[str, UsageReading]:
        """Return all readings in whole units."""
        cpu_millis, memory_bytes, at_s = self.columns
        cpu, memory, at = _whole(cpu_millis), _whole(memory_bytes), at_s.tolist()
        found: dict[str, UsageReading] = {}
        for some in slices(len(self._names)):
            used = map(UsageReading, cpu[some], memory[some], at[some])
            found.update(zip(self._names[some], used, strict=True))
        return found

    def __getitem__(self, name: str) -> UsageAverage:
        place = self._rows_by_name()[name]
        return UsageAverage(self._uids[place], *self.columns[:, place].tolist())

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def _rows_by_name(self) -> dict[str, int]:
        if self._row_of_name is None:
            self._row_of_name = {name: place for place, name in enumerate(self._names)}
        return self._row_of_name


def _whole(column: Floats) -> list[int]:
    whole: list[int] = np.rint(column).astype(np.int64).tolist()
    return whole


CLOCK_SET_BACK_S = 300.0
"""A reading that is older than the last one comes from a replica that lags, and is skipped. If it is older
by more than this, the clock was set back: then it counts, and the average starts again."""


def _none() -> UsageAverages:
    return UsageAverages([], [], np.zeros((3, 0)))


@dataclass(frozen=True, slots=True)
class Smoothing:
    """The state that one check passes to the next; the first check starts with an empty one."""

    source: UsageSource | None = None
    pods: UsageAverages = field(default_factory=_none)
    nodes: UsageAverages = field(default_factory=_none)


def smooth(
    before: Smoothing,
    readings: UsageReadings,
    half_life_s: float,
    *,
    pod_uids: Mapping[str, str],
    node_uids: Mapping[str, str],
) -> tuple[Smoothing, UsageReadings]:
    """Add these readings to the averages; return the state for the next check and the readings for this one.

    Only the pods and nodes that have a uid here exist; the averages of others are dropped. One that was not
    measured this time keeps its average and the time of it; the caller decides whether it is too old. With
    another source, averages start again, because it may measure something else.
    """
    if before.source is not readings.source:
        before = Smoothing()
    after = Smoothing(
        readings.source,
        _averages(before.pods, readings.pods, pod_uids, half_life_s),
        _averages(before.nodes, readings.nodes, node_uids, half_life_s),
    )
    return after, replace(readings, pods=after.pods.whole(), nodes=after.nodes.whole())


def _averages(
    before: UsageAverages, read: UsageByName, uids: Mapping[str, str], half_life_s: float
) -> UsageAverages:
    names, owners = list(uids), list(uids.values())
    place = before.rows_of(names, owners)
    known = place != UNKNOWN
    old, new = np.zeros((3, len(names))), np.zeros((3, len(names)))
    old[:, known] = before.columns[:, place[known]]
    measured = _read(read, names, new)
    columns = _averaged(old, known, new, measured, half_life_s)
    present = known | measured
    if present.all():
        return UsageAverages(names, owners, columns)
    return UsageAverages(list(compress(names, present)), list(compress(owners, present)), columns[:, present])


def _read(read: UsageByName, names: list[str], columns: Floats) -> Flags:
    """Write the readings into the columns, and return which names were measured."""
    found = map_in_slices(read.get, names)
    used = [each for each in found if each is not None]
    measured = np.array([each is not None for each in found], np.bool_)
    columns[CPU, measured] = [each.cpu_millis for each in used]
    columns[MEMORY, measured] = [each.memory_bytes for each in used]
    columns[AT_S, measured] = [each.at_s for each in used]
    return measured


def _averaged(old: Floats, known: Flags, new: Floats, measured: Flags, half_life_s: float) -> Floats:
    # A value that was not measured keeps its average, as if measured again; a new average starts with the
    # reading, as if it had always been the same.
    new = np.where(measured, new, old)
    restarts = ~known | (new[AT_S] < old[AT_S] - CLOCK_SET_BACK_S)
    old = np.where(restarts, new, old)
    dt_s = np.maximum(new[AT_S] - old[AT_S], 0.0)
    after: Floats = old + (1.0 - np.exp2(-dt_s / half_life_s)) * (new - old)
    after[AT_S] = np.maximum(old[AT_S], new[AT_S])
    return after
