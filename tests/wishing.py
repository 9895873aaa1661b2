"""Strategies that do as they are told, to drive the planner in tests."""

from collections.abc import Iterator, Sequence
from random import Random

import numpy as np

from rescheduler.cluster.node_record import NodeChange
from rescheduler.strategies.strategy import NodeProposal, Proposal, ProposedMove, View

__all__ = ["Restless", "Wishes"]


class Wishes:
    """Proposes what it was given: each wish a mapping of pods to nodes, to be granted as a whole.

    A wish may also be the name of a node, to be cordoned. `granted` tells afterwards what became of each.
    """

    def __init__(self, *wishes: dict[str, str] | str, urgent: bool = False, name: str = "Wishes") -> None:
        self.name = name
        self.urgent = urgent
        self.granted: list[bool] = []
        self._wishes: Sequence[dict[str, str] | str] = wishes

    def propose(self, view: View) -> Iterator[Proposal | NodeProposal]:
        pods, nodes = view.snapshot.pods.row, view.snapshot.nodes.row
        self.granted = []
        for wish in self._wishes:
            if isinstance(wish, str):
                yield NodeProposal(nodes[wish], NodeChange.CORDON, "as wished")
                continue
            steps = tuple(
                ProposedMove(pods[pod], nodes[node], "as wished", 0.1) for pod, node in wish.items()
            )
            yield Proposal(steps)
            self.granted.append(all(view.placement.position[step.pod] == step.target for step in steps))


class Restless:
    """Moves whatever may be moved, to any node that would take it; now and then two pods change places."""

    name = "Restless"
    urgent = False

    def __init__(self, seed: int, *, urgent: bool = False) -> None:
        self.urgent = urgent
        self._dice = Random(seed)

    def propose(self, view: View) -> Iterator[Proposal]:
        order = list(range(len(view.snapshot.pods)))
        self._dice.shuffle(order)
        for pod in order:
            if view.room <= 0:
                return
            if not view.may_move(pod):
                continue
            targets = np.flatnonzero(view.targets(pod)).tolist()
            if len(view.moves_with(pod)) > 1:
                yield self._group(view, view.moves_with(pod))
            elif targets and self._dice.random() < 0.7:
                yield Proposal((_step(pod, self._dice.choice(targets)),))
            else:
                yield from self._exchange(view, pod)

    def _group(self, view: View, members: tuple[int, ...]) -> Proposal:
        """Each where it would fit by itself: whether they all do is for the planner to find out."""
        steps = []
        for member in members:
            nodes = np.flatnonzero(view.targets(member) if view.may_move(member) else view.open).tolist()
            steps.append(_step(member, self._dice.choice(nodes or range(len(view.snapshot.nodes)))))
        return Proposal(tuple(steps))

    def _exchange(self, view: View, pod: int) -> Iterator[Proposal]:
        other = self._dice.randrange(len(view.snapshot.pods))
        here, there = int(view.placement.position[pod]), int(view.placement.position[other])
        if here != there and view.may_move(other) and len(view.moves_with(other)) == 1:
            yield Proposal((_step(pod, there), _step(other, here)))
        elif view.may_move(pod):
            view.report_no_target(pod)


def _step(pod: int, target: int) -> ProposedMove:
    return ProposedMove(pod, target, "restless", 0.1)
