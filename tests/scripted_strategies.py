"""Strategies for tests of the planner: one proposes given moves, one proposes random moves."""

from collections.abc import Iterator, Sequence
from random import Random

import numpy as np

from rescheduler.cluster.node_record import NodeChange
from rescheduler.strategies.strategy import NodeProposal, Proposal, ProposedMove, View

__all__ = ["RandomStrategy", "ScriptedStrategy"]

_URGENT = "NodeMaintenance"
"""The name of a strategy whose trait is urgent."""


class ScriptedStrategy:
    """Propose what the test gives: each proposal is a mapping of pods to nodes, accepted as a whole.

    A proposal may also be the name of a node to cordon. `accepted` says afterwards which moves were accepted.
    """

    def __init__(
        self, *proposals: dict[str, str] | str, urgent: bool = False, name: str = "ScriptedStrategy"
    ) -> None:
        self.name = _URGENT if urgent else name
        self.accepted: list[bool] = []
        self._proposals: Sequence[dict[str, str] | str] = proposals

    def propose(self, view: View) -> Iterator[Proposal | NodeProposal]:
        pods, nodes = view.snapshot.pods.row, view.snapshot.nodes.row
        self.accepted = []
        for proposal in self._proposals:
            if isinstance(proposal, str):
                yield NodeProposal(nodes[proposal], NodeChange.CORDON, "as scripted")
                continue
            moves = tuple(
                ProposedMove(pods[pod], nodes[node], "as scripted", 0.1) for pod, node in proposal.items()
            )
            yield Proposal(moves)
            self.accepted.append(all(view.placement.position[move.pod] == move.target for move in moves))


class RandomStrategy:
    """Move every pod that may move to a random target; now and then two pods change places."""

    def __init__(self, seed: int, *, urgent: bool = False) -> None:
        self.name = _URGENT if urgent else "RandomStrategy"
        self._random = Random(seed)

    def propose(self, view: View) -> Iterator[Proposal]:
        order = list(range(len(view.snapshot.pods)))
        self._random.shuffle(order)
        for pod in order:
            if view.room <= 0:
                return
            if not view.may_move(pod):
                continue
            targets = np.flatnonzero(view.targets(pod)).tolist()
            if len(view.moves_with(pod)) > 1:
                yield self._group(view, view.moves_with(pod))
            elif targets and self._random.random() < 0.7:
                yield Proposal((_move(pod, self._random.choice(targets)),))
            else:
                yield from self._exchange(view, pod)

    def _group(self, view: View, members: tuple[int, ...]) -> Proposal:
        """Send each member where it would fit alone; the planner finds out whether all of them do."""
        moves = []
        for member in members:
            nodes = np.flatnonzero(view.targets(member) if view.may_move(member) else view.open).tolist()
            moves.append(_move(member, self._random.choice(nodes or range(len(view.snapshot.nodes)))))
        return Proposal(tuple(moves))

    def _exchange(self, view: View, pod: int) -> Iterator[Proposal]:
        other = self._random.randrange(len(view.snapshot.pods))
        here, there = int(view.placement.position[pod]), int(view.placement.position[other])
        if here != there and view.may_move(other) and len(view.moves_with(other)) == 1:
            yield Proposal((_move(pod, there), _move(other, here)))
        elif view.may_move(pod):
            view.report_no_target(pod)


def _move(pod: int, target: int) -> ProposedMove:
    return ProposedMove(pod, target, "random", 0.1)
