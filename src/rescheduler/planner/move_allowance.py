"""How many more moves `maxMovesPerHour` and annotations allow, and which annotations restrict a pod.

PodMigrations are the history, so a restart forgets nothing. Every migration counts, with any strategy,
from its creation until an hour after its last attempt started. A queued one counts because it may start at
any time. So no hour has more starts than allowed, except for urgent moves, to which the limit doesn't apply.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import NamedTuple

import numpy as np

from kubevalues.quantity import IntOrString, scaled_rounding_up
from rescheduler.api.well_known_names import MAX_MOVES_ANNOTATION, WINDOWS_ANNOTATION
from rescheduler.cluster.snapshot import (
    NO_ROW,
    MoveRecord,
    Snapshot,
    is_selected_namespace,
    is_selected_node,
)
from rescheduler.config.move_limits import (
    MALFORMED_LIMIT,
    MALFORMED_WINDOWS,
    next_opening_text,
    parse_limit,
    parse_windows,
)
from rescheduler.config.policy import Policy

__all__ = ["MoveAllowance", "MoveObstacle", "closed_window", "malformed_limit"]

_HOUR_S = 3600.0
_MAX_SHOWN = 100
"""The most characters of an annotation's value that a message shows."""

_Scope = tuple[str, str | int]
"""The scope of a limit: all moves, those of a namespace (by name) or of a workload (by index)."""
_TOTAL: _Scope = ("total", "")


class MoveObstacle(NamedTuple):
    """A reason why a move must wait."""

    by: str
    """The object that has the limit, such as `Deployment shop/web`; empty if the configuration has it."""
    detail: str


class _Annotation(NamedTuple):
    by: str
    value: str

    def __str__(self) -> str:
        return self.value if len(self.value) <= _MAX_SHOWN else f"{self.value[:_MAX_SHOWN]}…"


class _Limit(NamedTuple):
    source: str
    """The setting or annotation that sets it, for messages."""
    by: str
    moves: int


@dataclass(slots=True)
class _Used:
    started_s: list[float] = field(default_factory=list)
    """When the moves of the last hour started, sorted."""
    queued: int = 0


def malformed_limit(snapshot: Snapshot, row: int) -> MoveObstacle | None:
    """Return the annotation of the pod's workload or namespace that is malformed; None if none is."""
    limits = (
        _own_annotation(snapshot, row, MAX_MOVES_ANNOTATION),
        _namespace_annotation(snapshot, _namespace(snapshot, row), MAX_MOVES_ANNOTATION),
    )
    for name, found, parse, fault in (
        (WINDOWS_ANNOTATION, _windows(snapshot, row), parse_windows, MALFORMED_WINDOWS),
        *((MAX_MOVES_ANNOTATION, limit, parse_limit, MALFORMED_LIMIT) for limit in limits),
    ):
        if found is not None and parse(found.value) is None:
            return MoveObstacle(found.by, f'the annotation {name}: "{found}" of {found.by} {fault}')
    return None


def closed_window(snapshot: Snapshot, row: int) -> MoveObstacle | None:
    """Return the obstacle if the annotation of the workload, or else of the namespace, has no open window."""
    found = _windows(snapshot, row)
    windows = None if found is None else parse_windows(found.value)
    now = datetime.fromtimestamp(snapshot.taken_at_s, UTC)
    if found is None or windows is None or any(window.is_open(now) for window in windows):
        return None
    opens = next_opening_text(windows, now)
    return MoveObstacle(found.by, f"no window of {found.by} ({found}) is open now; the next opens on {opens}")


def _windows(snapshot: Snapshot, row: int) -> _Annotation | None:
    """Return the annotation that applies to the pod: that of its workload, or else of its namespace."""
    own = _own_annotation(snapshot, row, WINDOWS_ANNOTATION)
    return own or _namespace_annotation(snapshot, _namespace(snapshot, row), WINDOWS_ANNOTATION)


def _namespace(snapshot: Snapshot, row: int) -> str:
    return snapshot.pods.records[row].namespace


def _own_annotation(snapshot: Snapshot, row: int, name: str) -> _Annotation | None:
    index, pod = int(snapshot.pods.workload[row]), snapshot.pods.records[row]
    if index != NO_ROW:
        return _workload_annotation(snapshot, index, name)
    value = pod.annotations.get(name)
    return None if value is None or pod.owner is not None else _Annotation(f"Pod {pod.key}", value)


def _workload_annotation(snapshot: Snapshot, index: int, name: str) -> _Annotation | None:
    record = snapshot.workloads[index].record
    value = None if record is None else record.annotations.get(name)
    return None if record is None or value is None else _Annotation(f"{record.kind} {record.key}", value)


def _namespace_annotation(snapshot: Snapshot, namespace: str, name: str) -> _Annotation | None:
    value = snapshot.namespace_annotations.get(namespace, {}).get(name)
    return None if value is None else _Annotation(f"namespace {namespace}", value)


class MoveAllowance:
    def __init__(self, snapshot: Snapshot, policy: Policy) -> None:
        self._snapshot = snapshot
        self._policy = policy
        self._planned: Counter[_Scope] = Counter()
        self._limits: dict[_Scope, _Limit | None] = {}

    def spent(self, row: int) -> MoveObstacle | None:
        """Return the limit that allows no move of this pod now; None if there is none."""
        # Called for every pod that a strategy considers, so it must be cheaper than `exceeded`.
        for scope in self._scopes(row):
            limit = self._limit(scope)
            if limit is not None and self._left(scope, limit) < 1:
                return MoveObstacle(limit.by, self._detail(scope, limit))
        return None

    def exceeded(self, rows: Iterable[int]) -> MoveObstacle | None:
        """Return the limit that does not allow all these moves; a pod that hops counts twice."""
        needed = Counter(scope for row in rows for scope in self._scopes(row))
        for scope, count in needed.items():
            limit = self._limit(scope)
            if limit is not None and self._left(scope, limit) < count:
                return MoveObstacle(limit.by, self._detail(scope, limit))
        return None

    @property
    def total_limit(self) -> int | None:
        """Return how many moves are allowed per hour in total; None if there is no limit."""
        limit = self._limit(_TOTAL)
        return None if limit is None else limit.moves

    @property
    def total_left(self) -> int | None:
        """Return how many more moves are allowed in total; None if there is no limit."""
        limit = self._limit(_TOTAL)
        return None if limit is None else max(0, self._left(_TOTAL, limit))

    @property
    def total_detail(self) -> str:
        """Return the state of the limit in total, for messages."""
        limit = self._limit(_TOTAL)
        return "" if limit is None else self._detail(_TOTAL, limit)

    def plan(self, rows: Iterable[int], *, of_other_profile: bool = False) -> None:
        """Count these moves as planned; moves of another profile don't count for the limit in total."""
        found = (scope for row in rows for scope in self._scopes(row))
        self._planned.update(scope for scope in found if scope != _TOTAL or not of_other_profile)

    def withdraw(self, rows: Iterable[int]) -> None:
        """Stop counting these moves as planned."""
        self._planned.subtract(scope for row in rows for scope in self._scopes(row))

    def _scopes(self, row: int) -> Iterator[_Scope]:
        yield _TOTAL
        yield "namespace", _namespace(self._snapshot, row)
        workload = int(self._snapshot.pods.workload[row])
        if workload != NO_ROW:
            yield "workload", workload

    def _left(self, scope: _Scope, limit: _Limit) -> int:
        used = self._used.get(scope)
        count = 0 if used is None else len(used.started_s) + used.queued
        return limit.moves - count - self._planned[scope]

    # -- limits

    def _limit(self, scope: _Scope) -> _Limit | None:
        if scope not in self._limits:
            found = [
                _Limit(source, by, scaled_rounding_up(share, self._pods(scope, share)))
                for source, by, share in self._shares(scope)
            ]
            # Annotations restrict what the configuration allows, and never extend it.
            self._limits[scope] = min(found, key=lambda limit: limit.moves, default=None)
        return self._limits[scope]

    def _shares(self, scope: _Scope) -> Iterator[tuple[str, str, IntOrString]]:
        configured, (kind, name) = self._policy.max_moves_per_hour, scope
        if scope == _TOTAL:
            annotation, setting, share = None, "total", configured.total
        elif kind == "namespace":
            annotation = _namespace_annotation(self._snapshot, str(name), MAX_MOVES_ANNOTATION)
            setting, share = "perNamespace", configured.per_namespace
        else:
            annotation = _workload_annotation(self._snapshot, int(name), MAX_MOVES_ANNOTATION)
            setting, share = "perWorkload", configured.per_workload
        if share is not None:
            yield f"maxMovesPerHour.{setting} ({share})", "", share
        # Another check reports a malformed one.
        if annotation is not None and (own := parse_limit(annotation.value)) is not None:
            yield f"the annotation {MAX_MOVES_ANNOTATION}: {own} of {annotation.by}", annotation.by, own

    def _pods(self, scope: _Scope, share: IntOrString) -> int:
        """Return the number of pods that a percentage refers to."""
        if isinstance(share, int):
            return 0
        kind, name = scope
        if kind == "workload":
            return int(self._pods_by_workload[int(name)])
        if kind == "namespace":
            return self._pods_by_namespace[str(name)]
        return self._pods_in_total

    @cached_property
    def _pods_in_total(self) -> int:
        """Return how many pods of the selected namespaces are on the selected nodes."""
        pods, nodes, classes = self._snapshot.pods, self._snapshot.nodes.records, self._snapshot.classes
        selects_node = self._policy.node_selector.matches
        on_selected = np.fromiter((selects_node(node.labels) for node in nodes), np.bool_, len(nodes))
        selected = np.fromiter(
            (self._is_selected(each.namespace) for each in classes), np.bool_, len(classes)
        )
        placed = pods.node != NO_ROW
        return int(np.count_nonzero(on_selected[pods.node[placed]] & selected[pods.pod_class[placed]]))

    @cached_property
    def _pods_by_workload(self) -> list[int]:
        pods = self._snapshot.pods
        known = pods.workload[(pods.workload != NO_ROW) & (pods.node != NO_ROW)]
        return np.bincount(known, minlength=len(self._snapshot.workloads)).tolist()  # type: ignore[no-any-return]

    @cached_property
    def _pods_by_namespace(self) -> Counter[str]:
        pods, classes = self._snapshot.pods, self._snapshot.classes
        sizes = np.bincount(pods.pod_class[pods.node != NO_ROW], minlength=len(classes)).tolist()
        found: Counter[str] = Counter()
        for pod_class, size in zip(classes, sizes, strict=True):
            found[pod_class.namespace] += size
        return found

    def _is_selected(self, namespace: str) -> bool:
        return is_selected_namespace(self._snapshot, self._policy, namespace)

    # -- history

    @cached_property
    def _used(self) -> dict[_Scope, _Used]:
        found: dict[_Scope, _Used] = {}
        workloads = {each.uid: index for index, each in enumerate(self._snapshot.workloads)}
        since_s = self._snapshot.taken_at_s - _HOUR_S
        for record in self._snapshot.move_records:
            if record.started_s is not None and record.started_s <= since_s:
                continue
            for scope in self._scopes_of_record(record, workloads):
                used = found.setdefault(scope, _Used())
                if record.started_s is None:
                    used.queued += 1
                else:
                    used.started_s.append(record.started_s)
        for used in found.values():
            used.started_s.sort()
        return found

    def _scopes_of_record(self, record: MoveRecord, workloads: dict[str, int]) -> Iterator[_Scope]:
        namespace = record.pod.partition("/")[0]
        if self._is_selected(namespace) and is_selected_node(self._snapshot, self._policy, record.source):
            yield _TOTAL
        yield "namespace", namespace
        workload = workloads.get(record.controller, NO_ROW)
        if workload == NO_ROW and (row := self._snapshot.pods.row.get(record.pod)) is not None:
            workload = int(self._snapshot.pods.workload[row])  # not recorded before it starts
        if workload != NO_ROW:
            yield "workload", workload

    def _detail(self, scope: _Scope, limit: _Limit) -> str:
        used = self._used.get(scope) or _Used()
        started, planned = len(used.started_s), self._planned[scope]
        counts = [f"{started} started in the last hour"]
        counts += [f"{used.queued} queued"] * bool(used.queued)
        counts += [f"{planned} in this plan"] * bool(planned)
        moves = "1 move" if limit.moves == 1 else f"{limit.moves} moves"
        return (
            f"{limit.source} allows {moves} per hour: {', '.join(counts)}; {self._when(scope, limit, used)}"
        )

    def _when(self, scope: _Scope, limit: _Limit, used: _Used) -> str:
        """Return the message about when the next move is possible."""
        must_pass = 1 - self._left(scope, limit)
        if limit.moves < 1:
            return "none is possible"
        if must_pass < 1:
            return "more are possible now"
        if must_pass > len(used.started_s):
            return "the next is possible an hour after the queued moves have started"
        moment = datetime.fromtimestamp(used.started_s[must_pass - 1] + _HOUR_S, UTC)
        return f"the next is possible at {moment:%H:%M:%S} UTC"
