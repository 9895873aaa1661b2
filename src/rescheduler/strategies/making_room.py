"""Room for a pod that fits nowhere: one bystander moves on, and the pod takes its place."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np

from rescheduler.rules.refusal import Rule
from rescheduler.strategies.placing import roomiest, share_of_node
from rescheduler.strategies.strategy import View
from rescheduler.strategies.tenants import is_ours

__all__ = ["Help", "room_for"]

_BY_NEIGHBOURS = frozenset({Rule.NODE_RESOURCES, Rule.NODE_PORTS, Rule.POD_AFFINITY})
"""Rules by which a pod on a node can keep another off it."""
_NODES_TRIED = 20
_BYSTANDERS_TRIED = 8
"""Per node, smallest first. Both bound the time: where so many can't help, the next rarely can."""


@dataclass(frozen=True, slots=True)
class Help:
    bystander: int
    refuge: int
    """The node that the bystander would go to."""
    place: int
    """The node that it would leave to the pod."""


def room_for(view: View, pod: int, nodes: Iterable[int]) -> Help | None:
    """`nodes` are where the pod would like to go, best first; None if nobody there can help.

    Bystanders did nothing to be disturbed: only those that run on without a break are asked.
    """
    board = view.board
    stays = view.handover(pod).source_stays
    within_reach = (node for node in nodes if _is_others_doing(view, pod, node, stays=stays))
    for node in islice(within_reach, _NODES_TRIED):
        for bystander in islice(_bystanders(view, node), _BYSTANDERS_TRIED):
            with board.trial():
                refuges = view.targets(bystander)
                refuges[node] = False
                choices = np.flatnonzero(refuges)
                if not choices.size:
                    continue
                refuge = roomiest(view, bystander, choices)
                board.move(bystander, refuge)
                if board.fits_on(pod, node, source_stays=stays):
                    return Help(bystander, refuge, node)
    return None


def _is_others_doing(view: View, pod: int, node: int, *, stays: bool) -> bool:
    """Whether it is other pods on that node that keep this one off, and nothing else."""
    refusals = view.board.refusals(pod, node, source_stays=stays)
    return bool(refusals) and all(refusal.rule in _BY_NEIGHBOURS for refusal in refusals)


def _bystanders(view: View, node: int) -> Iterator[int]:
    """Lowest priority first, then smallest."""
    pods = view.snapshot.pods
    for each in sorted(
        view.board.pods_on(node),
        key=lambda each: (int(pods.priority[each]), share_of_node(view, each), each),
    ):
        if is_ours(pods.records[each]) or not view.may_move(each):
            continue
        if view.together(each) == (each,) and view.handover(each).source_stays:
            yield each
