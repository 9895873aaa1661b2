"""Pods that are never touched, however badly they do: asked before anything that is not a planned move."""

from typing import Final

from rescheduler.config.policy import Policy
from rescheduler.controller.known_cluster import KnownCluster
from rescheduler.model.pods import PodRecord
from rescheduler.planner.eligibility import Eligibility
from rescheduler.planner.reasons import Reason

__all__ = ["protects"]

_NEVER: Final = frozenset(
    {
        Reason.MIRROR_POD,
        Reason.NOT_SAFE_TO_EVICT,
        Reason.DO_NOT_DISRUPT,
        Reason.EXCLUDED_NAMESPACE,
        Reason.SYSTEM_POD,
        Reason.PRIORITY_TOO_HIGH,
        Reason.OPTED_OUT,
        Reason.EXCLUDED_BY_SELECTOR,
    }
)
"""What does not depend on how a pod would leave its node, nor on where it would go."""


def protects(cluster: KnownCluster, policy: Policy, pod: PodRecord) -> str:
    """Why it stays as it is, in words; empty if nothing protects it."""
    snapshot = cluster.snapshot()
    row = snapshot.pods.row.get(pod.key)
    if row is None or snapshot.pods.records[row].uid != pod.uid:
        return "it is not known any more"
    refusals = Eligibility(snapshot, policy, urgent=True, recovering=True).refusals(row)
    return next((each.detail for each in refusals if each.reason in _NEVER), "")
