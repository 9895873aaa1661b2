"""The interface of a strategy, and the view of the cluster that it gets.

A strategy is a generator over a `View`. The planner answers each proposal before the generator continues:
if it accepts the proposal, the view shows the pods on their new nodes; if not, `may_move` returns False
for all its pods from then on. So a strategy needs no bookkeeping.

A strategy stops when `view.room` is 0, unless it has nodes to cordon or uncordon. Among equally good moves
it proposes pods of lower priority first, then those that come first in the snapshot.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

from rescheduler.api.podmigration import Handover
from rescheduler.cluster.node_autoscalers import NodeAutoscalers
from rescheduler.cluster.node_record import NodeChange
from rescheduler.cluster.snapshot import Flags, Ints, Snapshot
from rescheduler.config.policy import Policy
from rescheduler.recovery.failing_pods import FailingPods
from rescheduler.rules.placement import Placement

__all__ = [
    "HotNodeStrategy",
    "NodeProposal",
    "Proposal",
    "ProposedMove",
    "Room",
    "Strategy",
    "View",
]


@dataclass(frozen=True, slots=True)
class ProposedMove:
    """A move of one pod to one node, both as rows of the snapshot."""

    pod: int
    target: int
    reason: str
    """The reason in words and numbers: "source 85.0%, target 45.0%"."""
    gain: float


@dataclass(frozen=True, slots=True)
class Room:
    """Room on a node for a pod that waits to be scheduled, both as rows of the snapshot."""

    pod: int
    node: int


@dataclass(frozen=True, slots=True)
class Proposal:
    """Moves that are accepted all together or not at all: usually one.

    Several are judged by whether there is an order in which they can be made, with a stop on a third node if
    need be: two pods may change places although neither fits before the other has left.
    """

    moves: tuple[ProposedMove, ...]
    rooms: tuple[Room, ...] = ()
    """What the moves make room for. If they are accepted, the view shows these pods on their nodes."""


@dataclass(frozen=True, slots=True)
class NodeProposal:
    """A proposal to cordon a node, or to uncordon one that we cordoned. A node to cordon is no target any
    more."""

    node: int
    change: NodeChange
    reason: str


class View(Protocol):
    """The cluster as one strategy sees it, in the middle of planning."""

    snapshot: Snapshot
    placement: Placement
    """The placement after all moves so far. Strategies may try moves in `placement.trial()`."""
    policy: Policy
    nodes: Flags
    """[node]: those that the strategy is asked to look at (`strategyNodeSelectors`). `targets` is not limited
    to them: a strategy that balances among its nodes takes `targets(pod) & nodes`."""
    hot: Flags
    """[node]: where being too hot counts now. All of them, unless load is measured and checks before this
    one are known: then those found too hot for `hotChecks` checks in a row. To be joined with the
    strategy's own judgement of the present: `overloaded & view.hot`."""

    @property
    def failing_pods(self) -> FailingPods:
        """Return which pods keep failing where they are, and which nodes are suspect for that."""
        ...

    @property
    def open(self) -> Flags:
        """Return [node]: those that may be a target at all: Ready, not cordoned, being emptied or removed."""
        ...

    @property
    def being_emptied(self) -> Flags:
        """Return [node]: those in maintenance, evacuated, or cordoned by this plan."""
        ...

    @property
    def autoscalers(self) -> NodeAutoscalers:
        """Return the node autoscalers that were found, or that are configured."""
        ...

    @property
    def scale_down_candidates(self) -> Flags:
        """Return [node]: those that a node autoscaler would remove next. Balancing must not fill them."""
        ...

    @property
    def room(self) -> int:
        """Return how many more moves this plan may have."""
        ...

    @property
    def most_moves(self) -> int:
        """Return how many moves a plan may have at most, however few it has by now."""
        ...

    def in_fair_order(self, pods: Sequence[int]) -> Iterator[int]:
        """Yield these pods in the order in which to propose them, as many as this plan may move.

        In the given order if all of them may move; otherwise namespaces take turns.
        """
        ...

    def may_move(self, pod: int) -> bool:
        """Return whether no protection applies; a refusal is recorded in the plan, with its reason."""
        ...

    def targets(self, pod: int) -> Flags:
        """Return [node]: where it may go: every rule, and `open`, and not where it is.

        Asked with the pod itself in the way or not, as its handover has it. Suspect nodes, and those where
        pods of its workload keep failing, are among them only if there are no others;
        likewise nodes that are removed soon or tainted PreferNoSchedule. Unless the strategy is
        urgent, only where no spread constraint is left worse than it is.
        """
        ...

    def may_go(self, pod: int, node: int) -> bool:
        """Return `targets(pod)[node]`, which is cheaper than all targets."""
        ...

    def handover(self, pod: int) -> Handover:
        """Return how it would be moved. Only for pods that may move."""
        ...

    def moves_with(self, pod: int) -> tuple[int, ...]:
        """Return all pods that a proposal must move with this one: itself, or its group.

        Of a group, those that have to go: for an urgent strategy the members on nodes being emptied (in
        maintenance, or cordoned by a proposal of this plan), for every other the whole group.
        """
        ...

    def reserve(self, asks: Ints, node: int) -> None:
        """Keep so much of each resource free on that node in the rest of this plan."""
        ...

    def report_no_target(self, pod: int) -> None:
        """Note that the strategy wants it to move and that there is no target, with what forbids each."""
        ...

    def report_staying(self, pod: int, reason: str, detail: str) -> None:
        """Note that the strategy does not move a pod that an operator might expect to move."""
        ...

    def report_node(self, node: int | None, reason: str, detail: str) -> None:
        """Note that the strategy leaves a node alone that an operator might expect it to change.

        None stands for all nodes.
        """
        ...


class Strategy(Protocol):
    """A strategy is made without arguments, once per check; all that it needs to know is in the view.

    What the planner and the controllers must know about it is in `StrategyTraits` (`api/podmigration.py`).
    """

    name: ClassVar[str]
    """The name in the configuration."""

    def propose(self, view: View) -> Iterator[Proposal | NodeProposal]: ...


@runtime_checkable
class HotNodeStrategy(Protocol):
    """A strategy that acts only on nodes that were too hot for several checks: it says which are, in this
    check."""

    def too_hot(self, view: View) -> Flags:
        """Return [node]: those that would be relieved now if they stayed like this."""
        ...
