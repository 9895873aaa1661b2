"""Explains a failing pod or a suspect node, as data for `rescheduler explain`."""

from dataclasses import dataclass
from datetime import timedelta

from kubevalues.duration import short_duration
from rescheduler.cluster.pod_classes import owner_chain
from rescheduler.cluster.snapshot import Snapshot
from rescheduler.config.policy import FailedPodsPolicy, Policy
from rescheduler.recovery.attempt_ledger import FailedAttempt, ReplicaLineage
from rescheduler.recovery.failing_pods import examine_pod, find_failing_pods
from rescheduler.recovery.recovery_decision import (
    MalformedRetries,
    Reschedule,
    RetryAllowance,
    allowance_of,
)
from rescheduler.recovery.replica_lineage import revision_of
from rescheduler.recovery.workload_examination import FailingReplica, next_action_message

__all__ = ["RecoveryExplanation", "SuspectNodeExplanation", "explain_failing_pod", "explain_suspect_node"]


@dataclass(frozen=True, slots=True)
class RecoveryExplanation:
    """Whether a pod fails, which attempts failed, and what happens next."""

    failure: str
    """The message of its failure; empty if it does not fail."""
    since_s: float
    retries: int | None
    """How often it may be rescheduled; None if its owner does not ask for recovery."""
    by: str
    """The place where that is set."""
    used: int
    """How often it was rescheduled."""
    tries: tuple[FailedAttempt, ...]
    """The failed attempts that are still listed, the oldest first."""
    next: str
    """What happens next; empty if nothing has to."""
    needs_move: bool
    """Whether that is a move, which protections may prevent."""


@dataclass(frozen=True, slots=True)
class SuspectNodeExplanation:
    """Why a node is suspect."""

    workloads: tuple[str, ...]
    """`Deployment/shop/web`: the workloads that fail on the node, or failed there recently."""
    window: timedelta
    """How long a failure counts."""


def explain_suspect_node(snapshot: Snapshot, policy: Policy, node: str) -> SuspectNodeExplanation | None:
    """Explain why a node is suspect; None if it is not."""
    found = find_failing_pods(snapshot, policy.failed_pods).suspects.get(node)
    return None if found is None else SuspectNodeExplanation(found, policy.failed_pods.suspect_window)


def explain_failing_pod(snapshot: Snapshot, policy: Policy, row: int) -> RecoveryExplanation | None:
    """Explain a pod that fails, has failed, or would be recovered; None for all others."""
    terms = policy.failed_pods
    found = examine_pod(snapshot, terms, row) if terms.enabled else None
    if found is None:
        return None
    pod = snapshot.pods.records[row]
    replica = next((replica for replica in found.failing if replica.pod.uid == pod.uid), None)
    if replica is None:
        allowance = allowance_of(pod, owner_chain(pod.namespace, pod.owner, snapshot.controllers), terms)
        lineage = found.ledger.lineage(found.lineages[pod.uid], revision_of(pod))
        if allowance is None and not lineage.failures:
            return None
        return _explanation(None, allowance, lineage, _next_of_healthy(lineage, terms))
    return _explanation(replica, replica.allowance, replica.lineage, next_action_message(replica))


def _explanation(
    replica: FailingReplica | None,
    allowance: RetryAllowance | MalformedRetries | None,
    lineage: ReplicaLineage,
    what_next: str,
) -> RecoveryExplanation:
    if isinstance(allowance, MalformedRetries):
        what_next = f"nothing: {allowance.why}"
    allowed = allowance if isinstance(allowance, RetryAllowance) else None
    return RecoveryExplanation(
        failure=replica.failure.message if replica is not None else "",
        since_s=replica.failure.since_s if replica is not None else 0.0,
        retries=allowed.retries if allowed is not None else None,
        by=allowed.source if allowed is not None else "",
        used=lineage.count,
        tries=lineage.failures,
        next=what_next,
        needs_move=replica is not None and isinstance(replica.decision, Reschedule),
    )


def _next_of_healthy(lineage: ReplicaLineage, terms: FailedPodsPolicy) -> str:
    """Return what happens next to a pod that does not fail."""
    if not lineage.failures:
        return ""
    return f"these attempts are forgotten when it has been ready for {short_duration(terms.recovery_window)}"
