"""Find the nodes that can take a pod, the best of them, and the rules that forbid the others."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rescheduler.api.podmigration import Handover
from rescheduler.cluster.node_record import flapped_lately
from rescheduler.cluster.snapshot import Flags, open_nodes
from rescheduler.config.policy import Policy
from rescheduler.rules.placement import Placement
from rescheduler.rules.rule_check import SchedulerRule
from rescheduler.rules.taint_toleration import LastChoiceNodes, preferred

__all__ = [
    "NodeAvailability",
    "UnavailableNodes",
    "availability_message",
    "least_loaded_node",
    "node_availability",
]

_PLANNER = "Planner"
_CLOSED = "node(s) were being emptied"
_FLAPPING = "node(s) had just become Ready again"
_UNEVEN = "node(s) would worsen a topology spread constraint"
_SHOWN = 3
"""The number of nodes whose details a message shows."""


@dataclass(frozen=True, slots=True)
class UnavailableNodes:
    """One reason, and all nodes that it applies to."""

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
    """The reason with the most nodes first. A node that several rules forbid is listed for each."""

    def anywhere(self, node: str) -> "NodeAvailability":
        """Return the same for replicas, which may also be on `node`, where this pod is."""
        others = [each for each in self.forbidden if each.rule != SchedulerRule.ALREADY_HERE]
        own = [
            UnavailableNodes(each.rule, each.reason, (("each pod's own node", ""),))
            for each in self.forbidden
            if each.rule == SchedulerRule.ALREADY_HERE
        ]
        available = tuple(sorted({*self.available, node}))
        return NodeAvailability(self.nodes, available, (*others, *own))


def node_availability(
    placement: Placement, pod: int, *, source_stays: bool, open_to: Flags, keeps_spread: bool = False
) -> NodeAvailability:
    """Return the nodes that can take the pod; `open_to` are the nodes that the planner sends pods to. With
    `keeps_spread`, nodes that would worsen a spread constraint can't."""
    records = placement.snapshot.nodes.records
    found: dict[tuple[str, str], list[tuple[str, str]]] = {}
    here = int(placement.position[pod])
    fits = placement.fits(pod, source_stays=source_stays) & open_to
    if keeps_spread:
        fits &= placement.keeps_spread(pod)
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
            # No rule of the scheduler forbids it: the scheduler ignores the spread of pods that stay, and
            # does not know maintenance or what the plan itself cordons.
            is_flapping = flapped_lately(records[node], placement.snapshot.taken_at_s)
            ours = _UNEVEN if open_to[node] else _FLAPPING if is_flapping else _CLOSED
            found.setdefault((_PLANNER, ours), []).append((name, ""))
    forbidden = [UnavailableNodes(*at, tuple(nodes)) for at, nodes in found.items()]
    forbidden.sort(key=lambda each: (-len(each.nodes), each.rule, each.reason))
    return NodeAvailability(
        len(records), tuple(records[row].name for row in np.flatnonzero(fits)), tuple(forbidden)
    )


def availability_message(availability: NodeAvailability) -> str:
    """Return one line: "0/12 nodes are available: 3 Insufficient cpu (n1 requests 2000m …), 9 node(s) …"."""
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


def least_loaded_node(
    placement: Placement, row: int, handover: Handover, policy: Policy, has_room_at: Callable[[str], bool]
) -> str:
    """Return the least loaded node that can take the pod, if possible one that worsens no spread constraint.

    Nodes that are removed soon, or tainted PreferNoSchedule, are used only if there are no others. Nodes to
    which as many pods move as the limits allow come last, because the move would have to wait.
    """
    nodes = placement.snapshot.nodes
    fits = placement.fits(row, source_stays=handover.source_stays) & open_nodes(placement.snapshot, policy)
    tolerations = placement.snapshot.pods.records[row].constraints.tolerations
    last_choice = LastChoiceNodes(placement.snapshot, policy).of(tolerations, balancing=False)
    candidates = np.flatnonzero(placement.keeping_spread(row, preferred(fits, last_choice)))
    load = placement.load_with(row, candidates).tolist()
    _, _, best = min(
        (not has_room_at(nodes.records[node].name), percent, node)
        for percent, node in zip(load, candidates.tolist(), strict=True)
    )
    return nodes.records[best].name
