"""Pods that wait for room, and which of the nodes that we cordoned would give it to them."""

from collections.abc import Iterator, Sequence

import numpy as np

from rescheduler.model.node_marks import UNSCHEDULABLE_TAINT
from rescheduler.model.pods import PodRecord
from rescheduler.rules.refusal import Rule
from rescheduler.rules.taints import untolerated
from rescheduler.snapshot.snapshot import NOWHERE
from rescheduler.strategies.strategy import View

__all__ = ["lacks_room", "nodes_to_reopen", "waiting_pods"]

_SHORTAGES = ("Insufficient ", "Too many pods")
"""How the scheduler's message tells of nodes that are full."""


def waiting_pods(view: View) -> list[int]:
    """Pods for which the scheduler found no node: highest priority first, as it takes them."""
    pods = view.snapshot.pods
    unscheduled = np.flatnonzero(pods.node == NOWHERE).tolist()
    waiting = [pod for pod in unscheduled if _is_unschedulable(pods.records[pod])]
    return sorted(waiting, key=lambda pod: (-int(pods.priority[pod]), pod))


def _is_unschedulable(pod: PodRecord) -> bool:
    if pod.node or pod.is_terminating or pod.is_finished:
        return False
    condition = pod.condition("PodScheduled")
    return condition is not None and condition.status == "False" and condition.reason == "Unschedulable"


def lacks_room(view: View, pod: int) -> bool:
    """Whether the scheduler says so, and there is a node that is large enough at all."""
    condition = view.snapshot.pods.records[pod].condition("PodScheduled")
    if condition is None or not any(words in condition.message for words in _SHORTAGES):
        return False
    return bool((view.snapshot.nodes.allocatable >= view.snapshot.pods.requests[pod]).all(axis=1).any())


def nodes_to_reopen(view: View, waiting: Sequence[int], cordoned: Sequence[int]) -> Iterator[tuple[int, int]]:
    """As few of the cordoned nodes as it takes, each with the first pod that needs it.

    `cordoned` comes with those first that are best to reopen. A pod that fits on a node which is open, or
    will be, needs no other: it takes its room there.
    """
    board = view.board
    reopened: list[int] = []
    with board.trial():
        for pod in waiting:
            fits = np.flatnonzero(board.fits(pod, source_stays=False) & view.open)
            place = int(fits[0]) if fits.size else _first_without_cordon(view, pod, reopened)
            if place is None:
                place = _first_without_cordon(view, pod, cordoned)
                if place is None:
                    continue
                reopened.append(place)
                yield place, pod
            board.place(pod, place)


def _first_without_cordon(view: View, pod: int, nodes: Sequence[int]) -> int | None:
    return next((node for node in nodes if _fits_without_cordon(view, pod, node)), None)


def _fits_without_cordon(view: View, pod: int, node: int) -> bool:
    refusals = view.board.refusals(pod, node, source_stays=False)
    return all(_comes_of_cordon(view, pod, node, refusal.rule) for refusal in refusals)


def _comes_of_cordon(view: View, pod: int, node: int, rule: Rule) -> bool:
    """The control plane taints what is cordoned: that is no taint of the node's own."""
    if rule is Rule.TAINT_TOLERATION:
        taints = view.snapshot.nodes.records[node].taints
        tolerations = view.snapshot.pods.records[pod].constraints.tolerations
        return all(taint.key == UNSCHEDULABLE_TAINT for taint in untolerated(taints, tolerations))
    return rule is Rule.NODE_UNSCHEDULABLE
