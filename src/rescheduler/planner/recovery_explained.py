"""Does a pod keep failing, what was tried, what is next; is a node suspect: as data, for whoever shows it."""

from dataclasses import dataclass
from datetime import timedelta

from rescheduler.config.policy import FailedPods, Policy
from rescheduler.model.duration import short_duration
from rescheduler.model.plan import Rejection
from rescheduler.planner.eligibility import Eligibility
from rescheduler.recovery.allowance import Allowance, Malformed, allowance_of, chain_of
from rescheduler.recovery.decision import Move
from rescheduler.recovery.examining import Case
from rescheduler.recovery.ledger import Line, Try
from rescheduler.recovery.lines import revision_of
from rescheduler.recovery.survey import examined, survey
from rescheduler.recovery.words import next_in_words
from rescheduler.snapshot.snapshot import Snapshot

__all__ = ["Recovery", "Suspicion", "recovery_of", "suspicion_of"]


@dataclass(frozen=True, slots=True)
class Recovery:
    trouble: str
    """In words; empty if it is not failing."""
    since_s: float
    retries: int | None
    """How often it may be rescheduled; None if nobody asked for it."""
    by: str
    """Who says so."""
    used: int
    """How often it was."""
    tries: tuple[Try, ...]
    """Where it failed before, as far as that is still listed; the oldest first."""
    next: str
    """What happens now, in words; empty if nothing has to."""
    kept_by: tuple[Rejection, ...]
    """What keeps it from that nevertheless."""


@dataclass(frozen=True, slots=True)
class Suspicion:
    workloads: tuple[str, ...]
    """`Deployment/shop/web`: those that fail on the node, or have failed there lately."""
    window: timedelta
    """How long a failure counts."""


def suspicion_of(snapshot: Snapshot, policy: Policy, node: str) -> Suspicion | None:
    """None for nodes that are not suspect."""
    found = survey(snapshot, policy.failed_pods).suspects.get(node)
    return None if found is None else Suspicion(found, policy.failed_pods.suspect_window)


def recovery_of(
    snapshot: Snapshot, policy: Policy, row: int, *, steered: bool, guarded: bool
) -> Recovery | None:
    """None for pods that don't fail, and that nobody would see to if they did."""
    terms = policy.failed_pods
    found = examined(snapshot, terms, row) if terms.enabled else None
    if found is None:
        return None
    pod = snapshot.pods.records[row]
    case = next((case for case in found.cases if case.pod.uid == pod.uid), None)
    if case is None:
        allowance = allowance_of(pod, chain_of(pod, snapshot.controllers), terms)
        line = found.ledger.line(found.lines[pod.uid], revision_of(pod))
        if allowance is None and not line.failures:
            return None
        return _recovery(None, allowance, line, _waiting(line, terms), ())
    kept_by: tuple[Rejection, ...] = ()
    if isinstance(case.decision, Move):
        eligibility = Eligibility(
            snapshot, policy, urgent=True, steered=steered, guarded=guarded, recovering=True
        )
        kept_by = tuple(eligibility.refusals(row))
    return _recovery(case, case.allowance, case.line, next_in_words(case), kept_by)


def _recovery(
    case: Case | None,
    allowance: Allowance | Malformed | None,
    line: Line,
    what_next: str,
    kept_by: tuple[Rejection, ...],
) -> Recovery:
    if isinstance(allowance, Malformed):
        what_next = f"nothing: {allowance.why}"
    allowed = allowance if isinstance(allowance, Allowance) else None
    return Recovery(
        trouble=case.trouble.words if case is not None else "",
        since_s=case.trouble.since_s if case is not None else 0.0,
        retries=allowed.retries if allowed is not None else None,
        by=allowed.words if allowed is not None else "",
        used=line.count,
        tries=line.failures,
        next=what_next,
        kept_by=kept_by,
    )


def _waiting(line: Line, terms: FailedPods) -> str:
    """Of a pod that does not fail."""
    if not line.failures:
        return ""
    return f"these tries are forgotten when it has run well for {short_duration(terms.recovery_window)}"
