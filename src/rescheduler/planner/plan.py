"""The result of one check: the plan, the loads that it expects, and its name in the history."""

import hashlib
import threading
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import numpy as np

from rescheduler.api.daemon_status import SpreadChange
from rescheduler.api.podmigration import BUILT_IN_TRAITS, Handover
from rescheduler.api.well_known_names import BALANCE_ANNOTATION, PLAN_ANNOTATION
from rescheduler.cluster.node_record import NodeChange
from rescheduler.cluster.snapshot import Floats, Ints, Snapshot
from rescheduler.planner.reasons import Reason
from rescheduler.strategies.strategy_registry import BrokenStrategy, HungStrategy, PluginTimeout

__all__ = [
    "MAX_LISTED_REJECTIONS",
    "Move",
    "NodeLoadChange",
    "Plan",
    "PlannedNodeChange",
    "PlannedRoom",
    "Rejection",
    "RejectionLog",
    "is_fault_of_plugin",
    "node_load_changes",
    "node_load_percentages",
    "percent_of_allocatable",
    "plan_annotations",
    "plan_id",
    "spread_changes",
    "strategy_failure",
]

MAX_LISTED_REJECTIONS = 1000
"""The most rejections that a plan lists: in a large cluster a strategy may ask about very many pods."""

_OWN_CODE = str(Path(__file__).parents[1])
_MAX_DETAIL = 500
"""The longest detail in characters, because the text of an exception may have any length."""


@dataclass(frozen=True, slots=True)
class PlannedRoom:
    """Room that moves make for a pod that waits to be scheduled."""

    pod: str
    """`namespace/name`."""
    uid: str
    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    pod: str
    """`namespace/name`."""
    uid: str
    source: str
    target: str | None
    """None: chosen by the rules when the move is executed; never the source."""
    strategy: str
    handover: Handover
    reason: str
    """The reason in words and numbers: "source 85.0%, target 45.0%"."""
    gain: float
    """How much the move improves the cluster, relative to what the strategy improves (0.05 = 5 %)."""
    wave: int = 0
    """Moves of one wave may run at the same time; a wave starts when the previous ones have finished."""
    group: str = ""
    """Pods of one group are handed over together or not at all; empty without a group."""
    hop: bool = False
    """Whether the target is only a stop: a later move of the same uid moves the successor on to its place."""
    rooms: tuple[PlannedRoom, ...] = ()
    """The rooms that this move makes, together with other moves that name the same pod."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """A refusal as data, with its cause."""

    subject: str
    """The pod (`namespace/name`) or node that it is about; empty if it is about the whole plan."""
    reason: str
    """One of `rescheduler.planner.reasons.Reason`, or of a rule: what programs compare."""
    by: str = ""
    """The object that is the cause: a budget, a claim, a node; empty if the subject itself is."""
    detail: str = ""
    """The cause in words, for people."""


class RejectionLog:
    def __init__(self) -> None:
        self._found: dict[tuple[str, str], Rejection] = {}

    def add(self, rejection: Rejection) -> None:
        """Add a rejection unless there is one: the first one comes from the strategy that has precedence."""
        reason: object = rejection.reason  # a plugin may report anything
        detail: object = rejection.detail
        if not (isinstance(reason, str) and isinstance(detail, str)):
            raise TypeError(f"reason and detail must be strings: {reason!r}, {detail!r}")
        self._found.setdefault((rejection.subject, rejection.reason), rejection)

    def __iter__(self) -> Iterator[Rejection]:
        return iter(self._found.values())

    def without(self, moved: Iterable[str]) -> list[Rejection]:
        """Return all rejections, sorted by subject, except for pods that another strategy moves.

        `Failing` (the pod is left to FailedPods) is dropped if FailedPods itself has given a reason.
        """
        left_out = frozenset(moved)
        reported = {subject for subject, reason in self._found if reason != Reason.FAILING}
        return [
            self._found[subject, reason]
            for subject, reason in sorted(self._found)
            if subject not in left_out and not (reason == Reason.FAILING and subject in reported)
        ]

    @staticmethod
    def counts(rejections: Iterable[Rejection]) -> dict[str, int]:
        return dict(sorted(Counter(each.reason for each in rejections).items()))


def is_fault_of_plugin(strategy: str, error: BaseException) -> bool:
    """Return whether a plugin raised the error. `sys.exit()` in a plugin must not end the daemon.

    Bugs in rescheduler are not hidden, and Ctrl-C, which arrives in the main thread, comes from the user. If
    a plugin does not return, the whole plan starts again.
    """
    is_interrupt = isinstance(error, KeyboardInterrupt)
    is_of_user = is_interrupt and threading.current_thread() is threading.main_thread()
    return strategy not in BUILT_IN_TRAITS and not is_of_user and not isinstance(error, PluginTimeout)


def strategy_failure(name: str, error: BaseException) -> Rejection:
    """Return the refusal that reports an exception of a plugin, with its line that raised it."""
    at = _line_of_plugin(error)
    try:
        text = str(error).encode(errors="replace").decode()
    except Exception:  # noqa: BLE001 - its own text may raise anything
        text = "(its text can't be read)"
    if isinstance(error, BrokenStrategy):
        detail = f"{text}{at}"
    else:
        said = text if isinstance(error, HungStrategy) else f"raised {type(error).__name__}: {text}{at}"
        detail = f"{name} {said}"
    return Rejection("", Reason.STRATEGY_FAILED, name, detail[:_MAX_DETAIL])


def _line_of_plugin(error: BaseException) -> str:
    """Return the last line that ran of a plugin; empty if none is known, as for a wrong proposal."""
    frames = traceback.extract_tb((error.__cause__ or error).__traceback__)
    others = [
        each
        for each in frames
        if not each.filename.startswith((_OWN_CODE, "<frozen")) and "importlib" not in each.filename
    ]
    return f" at {others[-1].filename}:{others[-1].lineno}" if others else ""


@dataclass(frozen=True, slots=True)
class PlannedNodeChange:
    """A cordon or uncordon that a plan contains."""

    node: str
    change: NodeChange
    strategy: str
    reason: str


@dataclass(frozen=True, slots=True)
class NodeLoadChange:
    """Loads of one node in percent of allocatable, by resource, before and after all moves."""

    name: str
    before: dict[str, float]
    after: dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    taken_at_s: float
    moves: tuple[Move, ...] = ()
    changes: tuple[PlannedNodeChange, ...] = ()
    nodes: tuple[NodeLoadChange, ...] = ()
    refused: tuple[Rejection, ...] = ()
    """The rejections by subject; only the first of very many, but `refused_counts` has them all."""
    refused_counts: Mapping[str, int] = field(default_factory=dict)
    """How many subjects were refused for each reason."""
    assumptions: tuple[str, ...] = ()
    """The assumptions about facts that the input does not contain, for people."""


_DIGITS = 3
_MAIN_RESOURCES = ("cpu", "memory")


def node_load_changes(snapshot: Snapshot, after: Ints) -> tuple[NodeLoadChange, ...]:
    """Return the loads of all nodes before and after; `after` is [node, resource]."""
    nodes = snapshot.nodes
    before = percent_of_allocatable(nodes.load, nodes.allocatable).tolist()
    has = (nodes.allocatable > 0).tolist()
    found = [_loads(snapshot, *row) for row in zip(before, has, strict=True)]
    then = {
        node: _loads(
            snapshot, percent_of_allocatable(after[node], nodes.allocatable[node]).tolist(), has[node]
        )
        for node in np.flatnonzero((nodes.load != after).any(axis=1)).tolist()
    }
    return tuple(
        NodeLoadChange(node.name, loads, then.get(row, loads))
        for row, (node, loads) in enumerate(zip(nodes.records, found, strict=True))
    )


def percent_of_allocatable(load: Ints, allocatable: Ints) -> Floats:
    """Return loads in percent; 0 for a resource that the node doesn't have."""
    found: Floats = np.round(100.0 * load / np.maximum(allocatable, 1), _DIGITS)
    return found


def node_load_percentages(snapshot: Snapshot, node: int) -> dict[str, float]:
    """Return the node's loads in percent of allocatable, by resource."""
    has = snapshot.nodes.allocatable[node]
    return _loads(
        snapshot, percent_of_allocatable(snapshot.nodes.load[node], has).tolist(), (has > 0).tolist()
    )


def plan_annotations(plan: Plan) -> dict[str, str]:
    """Return the annotations of the plan's PodMigrations from which `rescheduler history` describes it."""
    found = {PLAN_ANNOTATION: plan_id(plan)}
    if spreads := spread_changes(plan.nodes):
        found[BALANCE_ANNOTATION] = msgspec.json.encode(spreads).decode()
    return found


def plan_id(plan: Plan) -> str:
    """Return a short name of this plan: the same for the same moves at the same moment."""
    moves = [f"{move.uid} {move.source} {move.target}" for move in plan.moves]
    return hashlib.sha256("\n".join([f"{plan.taken_at_s:.3f}", *moves]).encode()).hexdigest()[:8]


def spread_changes(
    nodes: Sequence[NodeLoadChange], resources: Sequence[str] = _MAIN_RESOURCES
) -> tuple[SpreadChange, ...]:
    """Return the spread of each resource over these nodes, before and after all moves."""
    found = []
    for resource in resources:
        having = [node for node in nodes if resource in node.before]
        if having:
            before = [node.before[resource] for node in having]
            after = [node.after.get(resource, node.before[resource]) for node in having]
            spreads = (round(max(loads) - min(loads), 1) for loads in (before, after))
            found.append(SpreadChange(resource, *spreads))
    return tuple(found)


def _loads(snapshot: Snapshot, loads: list[float], has: list[bool]) -> dict[str, float]:
    return {name: load for name, load, there in zip(snapshot.resources, loads, has, strict=True) if there}
