"""TaintToleration and NodeUnschedulable: taints and cordons keep away pods that don't tolerate them. Nodes
with soft taints, and nodes that are removed soon, are the last choice."""

import re
from collections.abc import Iterable
from functools import cached_property
from typing import Final

import numpy as np

from rescheduler.cluster.node_autoscalers import NO_AUTOSCALERS, NodeAutoscalers, scale_down_candidates
from rescheduler.cluster.node_record import Taint, flapped_lately, is_deletion_candidate, soft_taints
from rescheduler.cluster.pod_constraints import Toleration
from rescheduler.cluster.pod_record import NODE_BOUND_KINDS
from rescheduler.cluster.snapshot import CPU, MEMORY, NO_ROW, Flags, Floats, Ints, Snapshot
from rescheduler.config.policy import NodeAutoscaler, Policy
from rescheduler.rules.node_affinity import NodeLabels
from rescheduler.rules.rule_check import NodeRefusal, SchedulerRule, StaticCheck

__all__ = [
    "LastChoiceNodes",
    "Tolerations",
    "node_unschedulable",
    "preferred",
    "shown_taint",
    "soft_taint_counts",
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
    """Return whether the scheduler may place a pod with these tolerations on a cordoned node."""
    return any(tolerates(toleration, _CORDONED) for toleration in tolerations)


def node_unschedulable(tolerations: Tolerations, node_labels: NodeLabels) -> StaticCheck | None:
    """Refuse cordoned nodes, unless the pod tolerates the taint of a cordon."""
    if tolerates_cordon(tolerations):
        return None
    refusal = NodeRefusal(
        SchedulerRule.NODE_UNSCHEDULABLE, ("node(s) were unschedulable",), "the node is cordoned"
    )
    return StaticCheck(node_labels.nodes.schedulable, lambda _: refusal)


def taint_toleration(tolerations: Tolerations, node_labels: NodeLabels) -> StaticCheck | None:
    """Check the taints NoSchedule and NoExecute, which keep new pods away; PreferNoSchedule is a
    preference."""

    def explain(node: int) -> NodeRefusal:
        named = ", ".join(map(shown_taint, untolerated(node_labels.records[node].taints, tolerations)))
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
    """Return the taints that keep a pod with these tolerations away."""
    return [
        taint
        for taint in taints
        if taint.effect in _REPELLING_EFFECTS
        and not any(tolerates(toleration, taint) for toleration in tolerations)
    ]


def soft_taint_counts(tolerations: Tolerations, node_labels: NodeLabels) -> Ints:
    """Return [node]: how many PreferNoSchedule taints a pod with these tolerations doesn't tolerate."""
    found = np.zeros(len(node_labels), np.int64)
    for row, node in enumerate(node_labels.records):
        if node.taints:
            found[row] = sum(
                not any(tolerates(toleration, taint) for toleration in tolerations)
                for taint in soft_taints(node)
            )
    return found


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Return whether the toleration matches the taint. An empty key or effect matches every one."""
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
    """Compare as numbers. This is behind a feature gate: if it is off, the API server admits no pod with
    these operators."""
    if not _INTEGER.fullmatch(value) or not _INTEGER.fullmatch(bound):
        return False
    return int(value) > int(bound) if operator == "Gt" else int(value) < int(bound)


def shown_taint(taint: Taint) -> str:
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"


class LastChoiceNodes:
    """Nodes that get a pod only if no other node can take it: removed soon, tainted PreferNoSchedule, or just
    Ready again."""

    def __init__(self, snapshot: Snapshot, policy: Policy) -> None:
        records = snapshot.nodes.records
        self._snapshot = snapshot
        self._policy = policy
        self._soft = [(row, taints) for row, node in enumerate(records) if (taints := soft_taints(node))]
        self._candidates = [row for row, node in enumerate(records) if is_deletion_candidate(node)]
        self.flapping: Flags = np.fromiter(
            (flapped_lately(node, snapshot.taken_at_s) for node in records), np.bool_, len(records)
        )
        """[node]: became Ready again a moment ago. No pod is sent there that need not move."""
        self._by_tolerations: dict[Tolerations, Flags] = {}

    @cached_property
    def autoscalers(self) -> NodeAutoscalers:
        """Return the node autoscalers that were found or are configured."""
        setting = self._policy.node_autoscaler
        if setting is NodeAutoscaler.AUTO and not self._snapshot.has_autoscaler_signs():
            return NO_AUTOSCALERS
        return self._snapshot.autoscalers().as_configured(setting)

    @cached_property
    def scale_down_candidates(self) -> Flags:
        """Return [node]: a node autoscaler would remove it next."""
        snapshot = self._snapshot
        if not self.autoscalers.evidence:
            flags = np.zeros(len(snapshot.nodes), np.bool_)
            flags[self._candidates] = True
            return flags
        share = snapshot.nodes.requested / np.maximum(snapshot.nodes.allocatable, 1)
        used: Floats = share[:, [CPU, MEMORY]].max(axis=1)
        return scale_down_candidates(
            snapshot.nodes.records, self.autoscalers, used.tolist(), _movable_pod_counts(snapshot)
        )

    def of(self, tolerations: Tolerations, *, balancing: bool) -> Flags:
        """Return [node]: is a last choice; for `balancing`, also if an autoscaler would remove it next."""
        found = self._by_tolerations.get(tolerations)
        if found is None:
            found = self.flapping.copy()
            found[self._candidates] = True
            for row, taints in self._soft:
                if not all(any(tolerates(each, taint) for each in tolerations) for taint in taints):
                    found[row] = True
            self._by_tolerations[tolerations] = found
        return found | self.scale_down_candidates if balancing else found


def preferred(nodes: Flags, last_choice: Flags | None) -> Flags:
    """Return the nodes without those that are the last choice, unless there are no others."""
    if last_choice is None:
        return nodes
    better: Flags = nodes & ~last_choice
    return better if better.any() else nodes


def _movable_pod_counts(snapshot: Snapshot) -> list[int]:
    """Return [node]: how many pods don't belong to the node, according to their workload."""
    of_nodes = [row for row, workload in enumerate(snapshot.workloads) if workload.kind in NODE_BOUND_KINDS]
    counted = (snapshot.pods.node != NO_ROW) & ~np.isin(snapshot.pods.workload, of_nodes)
    found: list[int] = np.bincount(snapshot.pods.node[counted], minlength=len(snapshot.nodes)).tolist()
    return found
