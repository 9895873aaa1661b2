"""Taints keep pods away that don't tolerate them; a cordoned node counts as if it had one."""

import re
from collections.abc import Iterable
from typing import Final

import numpy as np

from rescheduler.cluster.node_record import Taint
from rescheduler.cluster.pod_constraints import Toleration
from rescheduler.rules.node_affinity import NodeLabels
from rescheduler.rules.rule_check import NodeRefusal, SchedulerRule, StaticCheck

__all__ = [
    "Tolerations",
    "node_unschedulable",
    "taint_toleration",
    "tolerates",
    "tolerates_cordon",
    "untolerated",
]

Tolerations = tuple[Toleration, ...]

_REPELLING_EFFECTS: Final = frozenset({"NoSchedule", "NoExecute"})
_CORDONED: Final = Taint("node.kubernetes.io/unschedulable", effect="NoSchedule")
_INTEGER: Final = re.compile(r"0|-?[1-9][0-9]{0,18}")


def tolerates_cordon(tolerations: Tolerations) -> bool:
    """Return whether the scheduler puts a pod with these tolerations on a cordoned node like on any other."""
    return any(tolerates(toleration, _CORDONED) for toleration in tolerations)


def node_unschedulable(tolerations: Tolerations, node_labels: NodeLabels) -> StaticCheck | None:
    """Cordoned nodes, unless the pod tolerates the taint that goes with it."""
    if tolerates_cordon(tolerations):
        return None
    refusal = NodeRefusal(
        SchedulerRule.NODE_UNSCHEDULABLE, ("node(s) were unschedulable",), "the node is cordoned"
    )
    return StaticCheck(node_labels.nodes.schedulable, lambda _: refusal)


def taint_toleration(tolerations: Tolerations, node_labels: NodeLabels) -> StaticCheck | None:
    """NoSchedule and NoExecute keep new pods away; PreferNoSchedule is only a preference."""

    def explain(node: int) -> NodeRefusal:
        named = ", ".join(map(_shown, untolerated(node_labels.records[node].taints, tolerations)))
        return NodeRefusal(
            SchedulerRule.TAINT_TOLERATION, ("node(s) had untolerated taint(s)",), f"taint {named}"
        )

    tolerated: dict[tuple[Taint, ...], bool] = {(): True}
    passes = [
        found
        if (found := tolerated.get(taints)) is not None
        else tolerated.setdefault(taints, not untolerated(taints, tolerations))
        for taints in (record.taints for record in node_labels.records)
    ]
    return None if all(passes) else StaticCheck(np.array(passes, np.bool_), explain)


def untolerated(taints: Iterable[Taint], tolerations: Tolerations) -> list[Taint]:
    """Those that keep a pod with these tolerations away."""
    return [
        taint
        for taint in taints
        if taint.effect in _REPELLING_EFFECTS
        and not any(tolerates(toleration, taint) for toleration in tolerations)
    ]


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """An empty key or effect means every one."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    match toleration.operator:
        case "" | "Equal":
            return toleration.value == taint.value
        case "Exists":
            return True
        case "Gt" | "Lt":
            return _compares(taint.value, toleration.operator, toleration.value)
        case _:
            return False


def _compares(value: str, operator: str, bound: str) -> bool:
    """Behind a feature gate: where it is off, the API server admits no pod with these operators."""
    if not _INTEGER.fullmatch(value) or not _INTEGER.fullmatch(bound):
        return False
    return int(value) > int(bound) if operator == "Gt" else int(value) < int(bound)


def _shown(taint: Taint) -> str:
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"
