"""Requests must fit into what the node has left, and the node must take one pod more."""

from rescheduler.simulator.scheduler.nodes import NodeView
from rescheduler.simulator.scheduler.pods import PodView
from rescheduler.simulator.scheduler.refusals import Check, Refusal
from rescheduler.simulator.scheduler.view import ClusterView

__all__ = ["resources"]

_ALWAYS_FIRST = ("cpu", "memory", "ephemeral-storage")


def resources(pod: PodView, _: ClusterView) -> Check:
    """The order of the reasons is the real one: the pod count, the usual three, then the rest."""
    asked = [(name, amount) for name in _ALWAYS_FIRST if (amount := pod.wanted.get(name, 0)) > 0]
    asked += sorted(
        (name, amount) for name, amount in pod.wanted.items() if amount > 0 and name not in _ALWAYS_FIRST
    )

    def check(node: NodeView) -> Refusal | None:
        reasons = ["Too many pods"] if len(node.pods) + 1 > node.room_for_pods else []
        too_small = False
        for name, amount in asked:
            has = node.allocatable.get(name, 0)
            if amount > has - node.requested.get(name, 0):
                reasons.append(f"Insufficient {name}")
                too_small |= amount > has
        return Refusal("NodeResourcesFit", tuple(reasons), final=too_small) if reasons else None

    return check
