"""Pods that keep failing where they are: whose business are they?"""

from rescheduler.cluster.snapshot import NO_ROW
from rescheduler.planner.protections.pod_candidate import PodCandidate, Protection
from rescheduler.recovery.failure_signs import failure_of
from rescheduler.recovery.recovery_decision import RetryAllowance, allowance_of, owner_chain

__all__ = ["failing", "recovered"]


def failing(candidate: PodCandidate) -> Protection | None:
    """A pod that somebody sees to already is not moved for balance, spread or cost."""
    terms, snapshot = candidate.policy.failed_pods, candidate.snapshot
    if candidate.urgent or not terms.enabled or _is_healthy(candidate):
        return None
    allowance = allowance_of(candidate.pod, owner_chain(candidate.pod, snapshot.controllers), terms)
    if not isinstance(allowance, RetryAllowance) or allowance.retries == 0:
        return None
    row = snapshot.nodes.row.get(candidate.pod.node)
    node = None if row is None else snapshot.nodes.records[row]
    trouble = failure_of(candidate.pod, node, terms, snapshot.taken_at_s)
    return None if trouble is None else Protection(trouble.words)


def recovered(candidate: PodCandidate) -> Protection | None:
    """Asked again just before it is moved."""
    return Protection("it is ready now") if candidate.context.recovering and _is_healthy(candidate) else None


def _is_healthy(candidate: PodCandidate) -> bool:
    node = candidate.snapshot.pods.node[candidate.row]
    return bool(
        candidate.snapshot.pods.ready[candidate.row]
        and node != NO_ROW
        and candidate.snapshot.nodes.ready[node]
    )
