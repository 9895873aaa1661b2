"""FailedPods: move a failing pod to another node, as often as its owner allows.

For `rescheduler explain`, describe which attempts of a pod failed and what happens next, and why a node is
suspect.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import ClassVar, Final

import numpy as np

from kubevalues.duration import short_duration
from rescheduler.api.well_known_names import MIGRATION_STATUS_LABEL
from rescheduler.cluster.pod_classes import owner_chain
from rescheduler.cluster.snapshot import Snapshot
from rescheduler.config.config_validation import FAILED_PODS
from rescheduler.config.policy import FailedPodsPolicy, Policy
from rescheduler.recovery.attempt_ledger import FailedAttempt, ReplicaLineage
from rescheduler.recovery.failing_pods import examine_pod, find_failing_pods
from rescheduler.recovery.failure_signs import FailureKind
from rescheduler.recovery.recovery_decision import (
    MalformedRetries,
    NoAction,
    NotRequested,
    Reschedule,
    RetriesExhausted,
    RetryAllowance,
    allowance_of,
)
from rescheduler.recovery.replica_lineage import revision_of
from rescheduler.recovery.workload_examination import FailingReplica, next_action_message, node_list_message
from rescheduler.strategies.strategy import Proposal, ProposedMove, View
from rescheduler.strategies.target_search import least_loaded

__all__ = [
    "FailedPods",
    "RecoveryExplanation",
    "SuspectNodeExplanation",
    "explain_failing_pod",
    "explain_suspect_node",
]

_COMPLETED: Final = "completed"


class FailedPods:
    """Moves a failing pod to a node on which its replica has not failed; to any node if it failed on all.

    Recoveries that need no move (a pod of a DaemonSet restarts, a controller has replaced its pod) are
    performed by the recovery controller. Here they are only reported.
    """

    name: ClassVar[str] = FAILED_PODS

    def propose(self, view: View) -> Iterator[Proposal]:
        priority = view.snapshot.pods.priority
        failing = view.failing_pods.failing
        moving: list[int] = []
        for row in sorted(failing, key=lambda row: (int(priority[row]), row)):
            decision = failing[row].decision
            if not isinstance(decision, Reschedule):
                _report_staying(view, row, failing[row])
            elif _is_cooling_down(view, failing[row]):
                rest = short_duration(view.policy.failed_pods.stuck_after)
                view.report_staying(row, "CoolingDown", f"its last migration failed less than {rest} ago")
            else:
                moving.append(row)
        for row in view.in_fair_order(moving):
            if view.may_move(row):
                yield from _propose_move(view, row, failing[row], 1 / len(failing))


def _propose_move(view: View, row: int, replica: FailingReplica, gain: float) -> Iterator[Proposal]:
    decision, known = replica.decision, view.snapshot.nodes.row
    assert isinstance(decision, Reschedule)
    targets = view.targets(row)
    if (here := known.get(replica.pod.node)) is not None:
        targets[here] = False  # a pod in phase Failed does not count on its node any more
    if not targets.any():
        view.report_no_target(row)
        return
    untried = targets.copy()
    untried[[known[node] for node in decision.avoid if node in known]] = False
    # The replica failed on all nodes: a second attempt is better than none.
    allowed = untried if untried.any() else targets
    target = least_loaded(view, row, np.flatnonzero(view.placement.keeping_spread(row, allowed)))
    yield Proposal(
        (ProposedMove(row, target, _move_reason(replica, decision, start_over=not untried.any()), gain),)
    )


def _is_cooling_down(view: View, replica: FailingReplica) -> bool:
    """Return whether a migration of the pod failed recently without being recorded as an attempt: its copy
    never ran, or its failure is not recorded yet."""
    if replica.pod.labels.get(MIGRATION_STATUS_LABEL) == _COMPLETED:
        return False  # the successor fails, too
    moved_s = view.snapshot.recent_moves.get(replica.pod.uid, 0.0)
    rest_s = view.policy.failed_pods.stuck_after.total_seconds()
    return int(moved_s) > replica.lineage.last_s and view.snapshot.taken_at_s - moved_s < rest_s


def _report_staying(view: View, row: int, replica: FailingReplica) -> None:
    match replica.decision:
        case RetriesExhausted():
            view.report_staying(row, "GaveUp", f"{replica.failure.message}; {next_action_message(replica)}")
        case NoAction(why):
            lost = replica.failure.kind is FailureKind.NODE_LOST
            view.report_staying(
                row, "NodeLost" if lost else "RecordFull", f"{replica.failure.message}; {why}"
            )
        case NotRequested() if isinstance(replica.allowance, MalformedRetries):
            view.report_staying(row, "RetriesMalformed", replica.allowance.why)
        case NotRequested():
            pass
        case _:
            view.report_staying(
                row, "NoMoveNeeded", f"{replica.failure.message}; {next_action_message(replica)}"
            )


def _move_reason(replica: FailingReplica, decision: Reschedule, *, start_over: bool) -> str:
    since = datetime.fromtimestamp(replica.failure.since_s, UTC).strftime("%H:%M")
    tried = [node for node in decision.avoid if node != replica.pod.node]
    parts = [
        f"{replica.failure.message}, since {since} UTC",
        f"attempt {decision.number} of {replica.retries}",
        *([f"not on {node_list_message(tried)}"] if tried and not start_over else []),
        *(["it failed on all other nodes, so they are tried again"] if start_over and tried else []),
    ]
    return "; ".join(parts)


@dataclass(frozen=True, slots=True)
class RecoveryExplanation:
    """Whether a pod fails, which attempts failed, and what happens next."""

    failure: str
    """The message of its failure; empty if it does not fail."""
    since_s: float
    retries: int | None
    """How often it may be rescheduled; None if its owner does not ask for recovery."""
    by: str
    """The object or setting that sets `retries`."""
    used: int
    """How often it was rescheduled."""
    tries: tuple[FailedAttempt, ...]
    """The failed attempts that are still listed, the oldest first."""
    next: str
    """The next action, in words; empty if none is needed."""
    needs_move: bool
    """Whether the next action is a move, which protections may prevent."""


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
        what_next = f"nothing, because {allowance.why}"
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
    """Return the next action for a pod that does not fail."""
    if not lineage.failures:
        return ""
    return (
        f"the attempts are forgotten when the pod has been ready for {short_duration(terms.recovery_window)}"
    )
