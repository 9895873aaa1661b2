"""The nodes that can take a pod, and the rules that forbid the others."""

from dataclasses import dataclass

import numpy as np

from rescheduler.cluster.snapshot import Flags
from rescheduler.rules.placement import Placement
from rescheduler.rules.rule_check import SchedulerRule

__all__ = [
    "NodeAvailability",
    "UnavailableNodes",
    "availability_message",
    "node_availability",
]

_PLANNER = "Planner"
_CLOSED = "node(s) were being emptied"
_SHOWN = 3
"""Nodes whose details are put into words."""


@dataclass(frozen=True, slots=True)
class UnavailableNodes:
    """One reason, and all nodes that it holds for."""

    rule: str
    """Named as the scheduler's plugin, or `Planner`."""
    reason: str
    """The reason in the scheduler's own words: "Insufficient cpu"."""
    nodes: tuple[tuple[str, str], ...]
    """Names, each with its own details: "requests 2000m, 1500m of 8000m free"."""


@dataclass(frozen=True, slots=True)
class NodeAvailability:
    nodes: int
    available: tuple[str, ...]
    forbidden: tuple[UnavailableNodes, ...]
    """Most nodes first. A node that several rules forbid stands under each."""


def node_availability(
    placement: Placement, pod: int, *, source_stays: bool, open_to: Flags
) -> NodeAvailability:
    """Return the nodes that can take the pod; `open_to` are the nodes that the planner sends pods to."""
    records = placement.snapshot.nodes.records
    found: dict[tuple[str, str], list[tuple[str, str]]] = {}
    here = int(placement.position[pod])
    fits = placement.fits(pod, source_stays=source_stays) & open_to
    for node in np.flatnonzero(~fits).tolist():
        name = records[node].name
        if node == here:
            found.setdefault((SchedulerRule.ALREADY_HERE, "node(s) were already running the pod"), []).append(
                (name, "")
            )
            continue
        refusals = placement.refusals(pod, node, source_stays=source_stays)
        for refusal in refusals:
            for reason in refusal.reasons:
                found.setdefault((refusal.rule, reason), []).append((name, refusal.detail))
        if not refusals:
            # Cordoned by the plan itself, or in maintenance: no rule of the scheduler forbids it.
            found.setdefault((_PLANNER, _CLOSED), []).append((name, ""))
    forbidden = [UnavailableNodes(*at, tuple(nodes)) for at, nodes in found.items()]
    forbidden.sort(key=lambda each: (-len(each.nodes), each.rule, each.reason))
    return NodeAvailability(
        len(records), tuple(records[row].name for row in np.flatnonzero(fits)), tuple(forbidden)
    )


def availability_message(availability: NodeAvailability) -> str:
    """Return one line: "0/12 nodes are available: 3 Insufficient cpu (n1 asks 2000m, …), 9 node(s) …"."""
    parts = ", ".join(
        f"{len(each.nodes)} {each.reason}{_example_nodes(each)}" for each in availability.forbidden
    )
    return f"{len(availability.available)}/{availability.nodes} nodes are available: {parts}"


def _example_nodes(each: UnavailableNodes) -> str:
    details = [f"{name} {detail}" for name, detail in each.nodes[:_SHOWN] if detail]
    if not details:
        return ""
    more = ["…"] if len(each.nodes) > _SHOWN else []
    return f" ({'; '.join([*details, *more])})"
