"""A port of the host is given away once per protocol and address; the wildcard address takes them all."""

from rescheduler.rules.check import Check
from rescheduler.rules.class_index import ClassIndex
from rescheduler.rules.neighbours import Neighbours
from rescheduler.rules.refusal import Refusal, Rule

__all__ = ["host_ports"]


def host_ports(number: int, index: ClassIndex, neighbours: Neighbours) -> Check | None:
    """For the pods of the class of that number."""
    ports = index.classes[number].constraints.host_ports
    clashing = {other for port in ports for other in index.with_port(port)}
    if not clashing:
        return None
    named = ", ".join(f"{port.port}/{port.protocol}" for port in ports)
    refusal = Refusal(
        Rule.NODE_PORTS, ("node(s) didn't have free ports for the requested pod ports",), f"asks {named}"
    )
    return neighbours.without(clashing, refusal)
