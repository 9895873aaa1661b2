"""How a pod's life on its node ends: deleted, given up by the kubelet, or all containers done."""

from datetime import datetime, timedelta
from typing import NamedTuple

from rescheduler.simulator.behaviour.conditions import TERMINAL, conditions
from rescheduler.simulator.behaviour.containers import exited_well, stopped
from rescheduler.simulator.behaviour.instants import read, written
from rescheduler.simulator.behaviour.members import Member, Role
from rescheduler.simulator.behaviour.values import IGNORED, NOTHING
from rescheduler.simulator.behaviour.vocabulary import KILLED_EXIT_CODE
from rescheduler.simulator.exchange import Object

__all__ = [
    "End",
    "all_stopped",
    "end_of",
    "given_up",
    "is_kept_by_others",
    "is_terminal",
    "stops_at",
    "terminated",
]

_PARTS = ("initContainerStatuses", "containerStatuses")
_DEADLINE_MESSAGE = "Pod was active on the node longer than the specified deadline"


def is_terminal(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in TERMINAL


def is_kept_by_others(pod: Object) -> bool:
    """It was deleted with grace 0 already: only finalizers still hold it."""
    return bool(pod["metadata"].get("deletionGracePeriodSeconds") == 0)


# -- given up by the kubelet


class End(NamedTuple):
    """The kubelet gives the pod up at that moment."""

    at: datetime
    reason: str
    message: str


def end_of(pod: Object, containers: list[Member], begun: datetime) -> End | None:
    """When and why the kubelet itself ends the pod, if it does."""
    evictions = [member.how.evicted for member in containers if member.how.evicted]
    ends = [End(begun + each.after, each.reason, each.message) for each in evictions]
    if seconds := pod["spec"].get("activeDeadlineSeconds"):
        ends.append(End(begun + timedelta(seconds=seconds), "DeadlineExceeded", _DEADLINE_MESSAGE))
    return min(ends, default=None)


def given_up(pod: Object, containers: list[Member], end: End, now: datetime) -> Object:
    status = _with_statuses(pod, containers)
    status |= {"phase": "Failed", "reason": end.reason, "message": end.message}
    status.setdefault("startTime", written(now))
    status = all_stopped(status, now, exit_code=KILLED_EXIT_CODE)
    status["conditions"] = conditions(pod, status, now)
    if end.reason == "Evicted":
        target = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "TerminationByKubelet",
            "message": end.message,
            "lastProbeTime": None,
            "lastTransitionTime": written(now),
        }
        status["conditions"] = [*status["conditions"], target]
    return status


# -- deleted


def stops_at(pod: Object, containers: list[Member], slow: float) -> datetime:
    """Containers that run take their time, but not more than the grace period."""
    grace = _grace(pod)
    asked_at = read(pod["metadata"]["deletionTimestamp"]) - grace
    return asked_at + min(grace, _time_needed(containers, slow))


def terminated(pod: Object, containers: list[Member], slow: float, now: datetime) -> Object:
    killed = _time_needed(containers, slow) > _grace(pod)
    status = _with_statuses(pod, containers)
    status = all_stopped(status, now, exit_code=KILLED_EXIT_CODE if killed else 0)
    every = [each for part in _PARTS for each in status.get(part) or ()]
    status["phase"] = "Succeeded" if all(exited_well(each) for each in every) else "Failed"
    return status | {"conditions": conditions(pod, status, now)}


def all_stopped(status: Object, now: datetime, *, exit_code: int) -> Object:
    parts = {
        part: [stopped(each, now, exit_code=exit_code) for each in status[part]]
        for part in _PARTS
        if status.get(part)
    }
    return status | parts


def _grace(pod: Object) -> timedelta:
    return timedelta(seconds=pod["metadata"].get("deletionGracePeriodSeconds") or 0)


def _time_needed(containers: list[Member], slow: float) -> timedelta:
    running = [
        each.how.termination for each in containers if each.status and "running" in each.status["state"]
    ]
    longest = max(running, default=NOTHING)
    return longest if longest == IGNORED else longest * slow


def _with_statuses(pod: Object, containers: list[Member]) -> Object:
    """The pod's status, with a status for each container even if none was written so far."""
    status: Object = dict(pod.get("status") or {})
    if inits := [each.status_or_blank for each in containers if each.role is not Role.MAIN]:
        status["initContainerStatuses"] = inits
    return status | {
        "containerStatuses": [each.status_or_blank for each in containers if each.role is Role.MAIN]
    }
