"""The result of one check: the plan."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from rescheduler.api.podmigration import Handover
from rescheduler.cluster.node_record import NodeChange

__all__ = [
    "Move",
    "NodeLoadChange",
    "Plan",
    "PlannedNodeChange",
    "Rejection",
]


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
    """In words and numbers: "source 85.0%, target 45.0%"."""
    gain: float
    """How much better the cluster is for it, relative to what the strategy improves (0.05 = 5 %)."""
    wave: int = 0
    """Moves of one wave may run at the same time; a wave starts when the previous ones have finished."""
    group: str = ""
    """Pods of one group are handed over together or not at all; empty without a group."""
    hop: bool = False
    """Only a stop on the way: a later move of the same uid takes its successor on to its place."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """A refusal is data, with its cause."""

    subject: str
    """The pod (`namespace/name`) or node that it is about; empty if it is about the whole plan."""
    reason: str
    """One of `rescheduler.planner.reasons.Reason`, or of a rule: what programs compare."""
    by: str = ""
    """The object that is the cause: a budget, a claim, a node; empty if the subject itself is."""
    detail: str = ""
    """In words, for people."""


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
    """By subject. Of a great many only the first: `refused_counts` has them all."""
    refused_counts: Mapping[str, int] = field(default_factory=dict)
    """How many subjects were refused for each reason."""
    assumptions: tuple[str, ...] = ()
    """What the plan assumes because the input does not say, for people."""
