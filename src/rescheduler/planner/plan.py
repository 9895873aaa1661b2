"""The result of one check: the plan."""

import threading
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from rescheduler.api.podmigration import BUILT_IN_TRAITS, Handover
from rescheduler.cluster.node_record import NodeChange
from rescheduler.planner.reasons import Reason
from rescheduler.strategies.strategy_registry import HungStrategy, PluginTimeout

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
    "strategy_failure",
]

MAX_LISTED_REJECTIONS = 1000
"""Rejections that a plan lists: in a large cluster a balancing strategy may ask about very many pods."""

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
    """How much better the cluster is for it, relative to what the strategy improves (0.05 = 5 %)."""
    wave: int = 0
    """Moves of one wave may run at the same time; a wave starts when the previous ones have finished."""
    group: str = ""
    """Pods of one group are handed over together or not at all; empty without a group."""
    hop: bool = False
    """Whether the target is only a stop: a later move of the same uid moves the successor on to its place."""
    rooms: tuple[PlannedRoom, ...] = ()
    """What it makes room for, together with other moves that name the same pod."""


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
            raise TypeError(f"reason and detail must be texts: {reason!r}, {detail!r}")
        self._found.setdefault((rejection.subject, rejection.reason), rejection)

    def __iter__(self) -> Iterator[Rejection]:
        return iter(self._found.values())

    def without(self, moved: Iterable[str]) -> list[Rejection]:
        """Return all rejections by subject, except for pods that another strategy moves.

        That a pod fails, and is left to FailedPods, is not said where that has said more about it.
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

    A bug in rescheduler is not hidden, and Ctrl-C, which arrives in the main thread, is a user's. If a plugin
    does not return, the whole plan starts again.
    """
    is_interrupt = isinstance(error, KeyboardInterrupt)
    is_of_user = is_interrupt and threading.current_thread() is threading.main_thread()
    return strategy not in BUILT_IN_TRAITS and not is_of_user and not isinstance(error, PluginTimeout)


def strategy_failure(name: str, error: BaseException) -> Rejection:
    """Return the refusal that reports an exception of a plugin, with the line that raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    at = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    try:
        text = str(error).encode(errors="replace").decode()
    except Exception:  # noqa: BLE001 - its own text may raise anything
        text = "(its text can't be read)"
    said = text if isinstance(error, HungStrategy) else f"raised {type(error).__name__}: {text}{at}"
    detail = f"{name} {said}"
    return Rejection("", Reason.STRATEGY_FAILED, name, detail[:_MAX_DETAIL])


@dataclass(frozen=True, slots=True)
class PlannedNodeChange:
    """What a plan wants done to a node."""

    node: str
    change: NodeChange
    strategy: str
    reason: str


@dataclass(frozen=True, slots=True)
class NodeLoadChange:
    """Loads of one node in percent of allocatable, by resource: before the plan, and when all is done."""

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
    """What the plan assumes because the input does not say, for people."""
