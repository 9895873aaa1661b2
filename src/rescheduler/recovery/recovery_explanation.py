"""Does a pod keep failing, what was tried, what is next; is a node suspect: as data, for whoever shows it."""

from dataclasses import dataclass
from datetime import timedelta

from kubevalues.duration import short_duration
from rescheduler.cluster.snapshot import Snapshot
from rescheduler.config.policy import FailedPodsPolicy, Policy
from rescheduler.planner.plan import Rejection
from rescheduler.planner.protections.eligibility import Eligibility
from rescheduler.recovery.attempt_ledger import FailedAttempt, ReplicaLineage
from rescheduler.recovery.failing_pods import examine_pod, find_failing_pods
from rescheduler.recovery.recovery_decision import (
    MalformedRetries,
    Reschedule,
    RetryAllowance,
    allowance_of,
    owner_chain,
)
from rescheduler.recovery.replica_lineage import revision_of
from rescheduler.recovery.workload_examination import FailingReplica, next_action_message

__all__ = ["RecoveryExplanation", "SuspectNodeExplanation", "explain_failing_pod", "explain_suspect_node"]


@dataclass(frozen=True, slots=True)
class RecoveryExplanation:
    trouble: str
    """In words; empty if it is not failing."""
    since_s: float
    retries: int | None
    """How often it may be rescheduled; None if nobody asked for it."""
    by: str
    """Who says so."""
    used: int
    """How often it was."""
    tries: tuple[FailedAttempt, ...]
    """Where it failed before, as far as that is still listed; the oldest first."""
    next: str
    """What happens now, in words; empty if nothing has to."""
    kept_by: tuple[Rejection, ...]
    """What keeps it from that nevertheless."""


@dataclass(frozen=True, slots=True)
class SuspectNodeExplanation:
    workloads: tuple[str, ...]
    """`Deployment/shop/web`: those that fail on the node, or have failed there lately."""
    window: timedelta
    """How long a failure counts."""


def explain_suspect_node(snapshot: Snapshot, policy: Policy, node: str) -> SuspectNodeExplanation | None:
    """None for nodes that are not suspect."""
    found = find_failing_pods(snapshot, policy.failed_pods).suspects.get(node)
    return None if found is None else SuspectNodeExplanation(found, policy.failed_pods.suspect_window)


def explain_failing_pod(
    snapshot: Snapshot, policy: Policy, row: int, *, steered: bool, guarded: bool
) -> RecoveryExplanation | None:
    """None for pods that don't fail, and that nobody would see to if they did."""
    terms = policy.failed_pods
    found = examine_pod(snapshot, terms, row) if terms.enabled else None
    if found is None:
        return None
    pod = snapshot.pods.records[row]
    case = next((case for case in found.cases if case.pod.uid == pod.uid), None)
    if case is None:
        allowance = allowance_of(pod, owner_chain(pod, snapshot.controllers), terms)
        line = found.ledger.line(found.lines[pod.uid], revision_of(pod))
        if allowance is None and not line.failures:
            return None
        return _explanation(None, allowance, line, _next_of_healthy(line, terms), ())
    kept_by: tuple[Rejection, ...] = ()
    if isinstance(case.decision, Reschedule):
        eligibility = Eligibility(
            snapshot, policy, urgent=True, steered=steered, guarded=guarded, recovering=True
        )
        kept_by = tuple(eligibility.refusals(row))
    return _explanation(case, case.allowance, case.line, next_action_message(case), kept_by)


def _explanation(
    case: FailingReplica | None,
    allowance: RetryAllowance | MalformedRetries | None,
    line: ReplicaLineage,
    what_next: str,
    kept_by: tuple[Rejection, ...],
) -> RecoveryExplanation:
    if isinstance(allowance, MalformedRetries):
        what_next = f"nothing: {allowance.why}"
    allowed = allowance if isinstance(allowance, RetryAllowance) else None
    return RecoveryExplanation(
        trouble=case.trouble.words if case is not None else "",
        since_s=case.trouble.since_s if case is not None else 0.0,
        retries=allowed.retries if allowed is not None else None,
        by=allowed.words if allowed is not None else "",
        used=line.count,
        tries=line.failures,
        next=what_next,
        kept_by=kept_by,
    )


def _next_of_healthy(line: ReplicaLineage, terms: FailedPodsPolicy) -> str:
    """Of a pod that does not fail."""
    if not line.failures:
        return ""
    return f"these tries are forgotten when it has run well for {short_duration(terms.recovery_window)}"
