"""Pods that keep failing where they are: whose business are they?"""

from rescheduler.planner.protections.case import Because, Case
from rescheduler.recovery.allowance import Allowance, allowance_of, chain_of
from rescheduler.recovery.trouble import trouble_of
from rescheduler.snapshot.snapshot import NOWHERE

__all__ = ["failing", "recovered"]


def failing(case: Case) -> Because | None:
    """A pod that somebody sees to already is not moved for balance, spread or cost."""
    terms, snapshot = case.policy.failed_pods, case.snapshot
    if case.urgent or not terms.enabled or _runs_well(case):
        return None
    allowance = allowance_of(case.pod, chain_of(case.pod, snapshot.controllers), terms)
    if not isinstance(allowance, Allowance) or allowance.retries == 0:
        return None
    row = snapshot.nodes.row.get(case.pod.node)
    node = None if row is None else snapshot.nodes.records[row]
    trouble = trouble_of(case.pod, node, terms, snapshot.taken_at_s)
    return None if trouble is None else Because(trouble.words)


def recovered(case: Case) -> Because | None:
    """Asked again just before it is moved."""
    return Because("it is ready now") if case.around.recovering and _runs_well(case) else None


def _runs_well(case: Case) -> bool:
    node = case.snapshot.pods.node[case.row]
    return bool(case.snapshot.pods.ready[case.row] and node != NOWHERE and case.snapshot.nodes.ready[node])
