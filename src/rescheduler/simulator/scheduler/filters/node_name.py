"""A pod that names its node goes there or nowhere."""

from rescheduler.simulator.scheduler.nodes import NodeView
from rescheduler.simulator.scheduler.pods import PodView
from rescheduler.simulator.scheduler.refusals import Check, Refusal
from rescheduler.simulator.scheduler.view import ClusterView

__all__ = ["node_name"]

_REFUSED = Refusal("NodeName", ("node(s) didn't match the requested node name",))


def node_name(pod: PodView, _: ClusterView) -> Check | None:
    if not pod.node:
        return None

    def check(node: NodeView) -> Refusal | None:
        return None if node.name == pod.node else _REFUSED

    return check
