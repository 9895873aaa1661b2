"""A port of the host is given away once per protocol and address; the wildcard address takes them all."""

from rescheduler.simulator.scheduler.nodes import NodeView
from rescheduler.simulator.scheduler.pods import PodView
from rescheduler.simulator.scheduler.refusals import Check, Refusal
from rescheduler.simulator.scheduler.view import ClusterView

__all__ = ["host_ports"]

_REFUSED = Refusal("NodePorts", ("node(s) didn't have free ports for the requested pod ports",), final=False)


def host_ports(pod: PodView, _: ClusterView) -> Check | None:
    if not pod.host_ports:
        return None

    def check(node: NodeView) -> Refusal | None:
        taken = (port for other in node.with_ports.values() for port in other.host_ports)
        return _REFUSED if any(mine.clashes_with(port) for port in taken for mine in pod.host_ports) else None

    return check
