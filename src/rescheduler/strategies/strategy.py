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

    Several moves are accepted if they can be made in some order, if necessary with a hop: two pods may change
    places although neither fits before the other has left.
    """

    moves: tuple[ProposedMove, ...]
    rooms: tuple[Room, ...] = ()
    """The rooms that the moves make. If they are accepted, the view shows these pods on their nodes."""


@dataclass(frozen=True, slots=True)
class NodeProposal:
    """A proposal to cordon a node, or to uncordon one that we cordoned. A node to cordon is no target."""

    node: int
    change: NodeChange
    reason: str


class View(Protocol):
    """The cluster as one strategy sees it, in the middle of planning."""

    snapshot: Snapshot
    placement: Placement
    """The placement after all accepted moves. Strategies may try moves in `placement.trial()`."""
    policy: Policy
    nodes: Flags
    """[node]: is considered by the strategy (`strategyNodeSelectors`). `targets` is not limited to these
    nodes: a strategy that balances among its nodes uses `targets(pod) & nodes`."""
    hot: Flags
    """[node]: was too hot for `hotChecks` checks in a row. True for all nodes if load is not measured or no
    earlier check is known. Combine it with the strategy's own check of the present: `overloaded &
    view.hot`."""

    @property
    def failing_pods(self) -> FailingPods:
        """Return the failing pods and the suspect nodes."""
        ...

    @property
    def open(self) -> Flags:
        """Return [node]: may be a target: it is Ready, and not cordoned, being emptied or being removed."""
        ...

    @property
    def being_emptied(self) -> Flags:
        """Return [node]: is in maintenance, evacuated, or cordoned by this plan."""
        ...

    @property
    def autoscalers(self) -> NodeAutoscalers:
        """Return the node autoscalers that were found, or that are configured."""
        ...

    @property
    def scale_down_candidates(self) -> Flags:
        """Return [node]: would be removed next by a node autoscaler. Balancing must not fill it."""
        ...

    @property
    def room(self) -> int:
        """Return how many more moves this plan may have."""
        ...

    @property
    def most_moves(self) -> int:
        """Return how many moves one plan may have, including those that it already has."""
        ...

    def in_fair_order(self, pods: Sequence[int]) -> Iterator[int]:
        """Yield these pods in the order in which to propose them, as many as this plan may move.

        If all of them may move, it is the given order; otherwise namespaces take turns.
        """
        ...

    def may_move(self, pod: int) -> bool:
        """Return whether no protection applies; a refusal is recorded in the plan, with its reason."""
        ...

    def targets(self, pod: int) -> Flags:
        """Return [node]: the pod may go there: the node is `open`, not its own, and no rule forbids it.

        The handover decides whether the pod itself takes room meanwhile. Suspect nodes, and nodes where pods
        of its workload keep failing, are included only if there are no others; so are nodes that are removed
        soon or tainted PreferNoSchedule. Unless the strategy is urgent, no target worsens a spread
        constraint.
        """
        ...

    def may_go(self, pod: int, node: int) -> bool:
        """Return `targets(pod)[node]`, which is cheaper than all targets."""
        ...

    def handover(self, pod: int) -> Handover:
        """Return the handover of a pod that may move. Raises `ValueError` for others."""
        ...

    def moves_with(self, pod: int) -> tuple[int, ...]:
        """Return all pods that a proposal must move together with this one, including itself.

        For most strategies, this is the whole group. For an urgent strategy, it is the members of the group
        on nodes being emptied (in maintenance, or cordoned by a proposal of this plan).
        """
        ...

    def reserve(self, asks: Ints, node: int) -> None:
        """Keep this amount of each resource free on the node in the rest of the plan."""
        ...

    def report_no_target(self, pod: int) -> None:
        """Report that the strategy wants to move the pod, but no node can take it, and why not."""
        ...

    def report_staying(self, pod: int, reason: str, detail: str) -> None:
        """Report why the strategy does not move a pod that an operator might expect to move."""
        ...

    def report_node(self, node: int | None, reason: str, detail: str) -> None:
        """Report why the strategy does not change a node that an operator might expect it to change.

        `None` means all nodes.
        """
        ...


class Strategy(Protocol):
    """A strategy is created without arguments, once per check; the view has everything that it needs.

    What the planner and the controllers must know about it is in `StrategyTraits` (`api/podmigration.py`).
    """

    name: ClassVar[str]
    """The name in the configuration."""

    def propose(self, view: View) -> Iterator[Proposal | NodeProposal]: ...


@runtime_checkable
class HotNodeStrategy(Protocol):
    """A strategy that acts only on nodes that were too hot for several checks."""

    def too_hot(self, view: View) -> Flags:
        """Return [node]: is too hot now."""
        ...
