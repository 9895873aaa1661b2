"""What an eviction costs a Job: one of the failures that it allows itself.

The Job controller counts every pod that is deleted before it succeeded as failed, evicted ones too (seen in
its source, v1.37: `isPodFailed`), unless its `podFailurePolicy` ignores the condition DisruptionTarget, which
evictions set. When more have failed than `backoffLimit` allows, the Job itself fails: so the last one is
never ours.
"""

from typing import Any, Final

from rescheduler.controller.followed import said
from rescheduler.kube.resources import Object

__all__ = ["forbids_eviction"]

_DEFAULT_LIMIT: Final = 6


def forbids_eviction(job: Object) -> str:
    """Why, in words; empty if the Job would go on with another pod."""
    if _ignores_disruptions(job):
        return ""
    failed, limit = _number(said(job, "status", "failed"), 0), _limit(job)
    if failed < limit:
        return ""
    return f"its Job would fail: {failed} of its pods have failed, and backoffLimit is {limit}"


def _limit(job: Object) -> int:
    per_index = said(job, "spec", "backoffLimitPerIndex")
    if per_index is not None:
        # How often an index has failed is known to its pods only: one that may fail never is the clear case.
        return 0 if per_index == 0 else 1 << 31
    return _number(said(job, "spec", "backoffLimit"), _DEFAULT_LIMIT)


def _ignores_disruptions(job: Object) -> bool:
    """By the first rule that would apply: those about exit codes come to nothing while containers run."""
    for rule in said(job, "spec", "podFailurePolicy", "rules") or ():
        conditions = rule.get("onPodConditions") or ()
        if any(_is_disruption(each) for each in conditions):
            return bool(rule.get("action") == "Ignore")
    return False


def _is_disruption(condition: Any) -> bool:
    return bool(condition.get("type") == "DisruptionTarget" and condition.get("status", "True") == "True")


def _number(value: Any, otherwise: int) -> int:
    return value if isinstance(value, int) else otherwise
