"""The result of one check: the plan, and the history of hot nodes that the next check continues."""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field

from rescheduler.api.podmigration import Handover
from rescheduler.cluster.node_record import NodeChange
from rescheduler.config.policy import UsageSource

__all__ = [
    "HotNodeHistory",
    "Move",
    "NodeLoadChange",
    "Plan",
    "PlannedNodeChange",
    "Rejection",
    "hot_subjects",
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
    """Moves of one wave may be under way together; a wave begins when those before it are finished."""
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


@dataclass(frozen=True, slots=True)
class HotNodeHistory:
    """How many checks in a row found each node too hot; empty after a start."""

    source: UsageSource | None = None
    checks: int = 0
    """Checks with this source, whatever they found."""
    in_a_row: Mapping[Hashable, int] = field(default_factory=dict)
    """Checks up to the last one that found this too hot, without a break; at least 1."""

    def after(self, too_hot: Iterable[Hashable], source: UsageSource) -> "HotNodeHistory":
        """After one more check.

        What is too hot is a node's name; or a strategy and a node, where strategies differ.
        Load from another source is not comparable, so counting restarts.
        """
        before = self if self.source is source else HotNodeHistory()
        counted = {subject: before.in_a_row.get(subject, 0) + 1 for subject in too_hot}
        return HotNodeHistory(source, before.checks + 1, counted)


def hot_subjects(
    heat: HotNodeHistory | None, too_hot: Iterable[Hashable], hot_checks: int
) -> frozenset[Hashable]:
    """Which of those that are too hot now count as hot. `heat` has the present check in it already.

    Without it (a single plan knows no checks before), all of them.
    """
    if heat is None or heat.source is UsageSource.REQUESTS:
        return frozenset(too_hot)
    return frozenset(subject for subject in too_hot if heat.in_a_row.get(subject, 0) >= hot_checks)
