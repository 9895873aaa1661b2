"""The lifecycle of a pod on its node: what its kubelet writes now, and when to ask again.

It is level-triggered and keeps no state of its own: everything is read from the pod in the API. Simulated
kubelets and those of the testbed share it. Pods on a dead node neither start nor finish terminating, because
their kubelet does not call it.
"""

import hashlib
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from kubesim.apiserver.api_messages import Object
from kubesim.behaviour.behaviour_rules import KILLED_EXIT_CODE, Behaviour
from kubesim.behaviour.container_lifecycle import (
    ContainerContext,
    advance_container,
    exited_well,
    started_at,
    stopped,
)
from kubesim.behaviour.kubelet_conditions import TERMINAL, conditions
from kubesim.behaviour.rule_matching import ContainerRole, PodContainer, members
from kubesim.behaviour.usage_patterns import IGNORED, NOTHING
from kubesim.common_fields import earliest, format_timestamp, parse_timestamp, whole_second

__all__ = [
    "HostFacts",
    "PodEnd",
    "PodRemoval",
    "PodStep",
    "StatusUpdate",
    "advance",
    "all_stopped",
    "end_of",
    "ended_by_kubelet",
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
    """Return whether the pod was deleted with grace 0 and only finalizers keep it."""
    return bool(pod["metadata"].get("deletionGracePeriodSeconds") == 0)


# -- ended by the kubelet


class PodEnd(NamedTuple):
    """When and why the kubelet ends a pod."""

    at: datetime
    reason: str
    message: str


def end_of(pod: Object, containers: list[PodContainer], started: datetime) -> PodEnd | None:
    """Return when and why the kubelet itself ends the pod, if it does."""
    evictions = [member.how.evicted for member in containers if member.how.evicted]
    ends = [PodEnd(started + each.after, each.reason, each.message) for each in evictions]
    if seconds := pod["spec"].get("activeDeadlineSeconds"):
        ends.append(PodEnd(started + timedelta(seconds=seconds), "DeadlineExceeded", _DEADLINE_MESSAGE))
    return min(ends, default=None)


def ended_by_kubelet(pod: Object, containers: list[PodContainer], end: PodEnd, now: datetime) -> Object:
    status = _with_statuses(pod, containers)
    status |= {"phase": "Failed", "reason": end.reason, "message": end.message}
    status.setdefault("startTime", format_timestamp(now))
    status = all_stopped(status, now, exit_code=KILLED_EXIT_CODE)
    status["conditions"] = conditions(pod, status, now)
    if end.reason == "Evicted":
        target = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "TerminationByKubelet",
            "message": end.message,
            "lastProbeTime": None,
            "lastTransitionTime": format_timestamp(now),
        }
        status["conditions"] = [*status["conditions"], target]
    return status


# -- deleted


def stops_at(pod: Object, containers: list[PodContainer], slow: float) -> datetime:
    """Return when the containers have stopped, at the latest at the end of the grace period."""
    grace = _grace(pod)
    asked_at = parse_timestamp(pod["metadata"]["deletionTimestamp"]) - grace
    return asked_at + min(grace, _time_needed(containers, slow))


def terminated(pod: Object, containers: list[PodContainer], slow: float, now: datetime) -> Object:
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


def _time_needed(containers: list[PodContainer], slow: float) -> timedelta:
    running = [
        each.how.termination for each in containers if each.status and "running" in each.status["state"]
    ]
    longest = max(running, default=NOTHING)
    return longest if longest == IGNORED else longest * slow


def _with_statuses(pod: Object, containers: list[PodContainer]) -> Object:
    """Return the pod's status with a status for each container."""
    status: Object = dict(pod.get("status") or {})
    if inits := [each.status_or_blank for each in containers if each.role is not ContainerRole.MAIN]:
        status["initContainerStatuses"] = inits
    return status | {
        "containerStatuses": [each.status_or_blank for each in containers if each.role is ContainerRole.MAIN]
    }


@dataclass(frozen=True, slots=True)
class HostFacts:
    """The values of its node that a pod depends on."""

    ip: str = ""
    slow: float = 1.0


class StatusUpdate(NamedTuple):
    """Write this complete status, including the fields of other writers."""

    status: Object


class PodRemoval(NamedTuple):
    """Delete the pod with grace 0 and this uid as precondition: all containers have ended."""

    uid: str


class PodStep(NamedTuple):
    action: StatusUpdate | PodRemoval | None
    wake_at: datetime | None


_NOTHING_TO_DO = PodStep(None, None)
_SOME_HOST = HostFacts()


def advance(pod: Object, behaviour: Behaviour, now: datetime, host: HostFacts = _SOME_HOST) -> PodStep:
    """Return what the kubelet does for this pod now; pods without a node have no kubelet."""
    if not pod["spec"].get("nodeName"):
        return _NOTHING_TO_DO
    leaving = "deletionTimestamp" in pod["metadata"]
    if is_terminal(pod):
        gone = leaving and not is_kept_by_others(pod)
        return PodStep(PodRemoval(pod["metadata"]["uid"]), None) if gone else _NOTHING_TO_DO
    containers = members(pod, behaviour)
    if leaving:
        due = stops_at(pod, containers, host.slow)
        if now < due:
            return PodStep(None, due)
        return PodStep(StatusUpdate(terminated(pod, containers, host.slow, now)), None)
    return _advance_containers(pod, containers, now, host)


def _advance_containers(
    pod: Object, containers: list[PodContainer], now: datetime, host: HostFacts
) -> PodStep:
    before = pod.get("status") or {}
    started = _started(pod, now)
    end = end_of(pod, containers, started)
    if end and end.at <= now:
        return PodStep(StatusUpdate(ended_by_kubelet(pod, containers, end, now)), None)
    turn: datetime | None = started
    statuses, wakes = [], [end.at if end else None]
    for member in containers:
        where = ContainerContext(pod, now, turn, member.role, host.slow)
        status, wake_at = advance_container(member.spec, member.status, member.how, where)
        statuses.append(status)
        wakes.append(wake_at)
        turn = _next_turn(member.role, status, turn)
    after = _status(pod, containers, statuses, started, now, host)
    return PodStep(StatusUpdate(after) if after != before else None, earliest(*wakes))


def _started(pod: Object, now: datetime) -> datetime:
    """Return when the kubelet accepted the pod.

    If it runs already, and comes from a file that does not say since when, that is when it was created.
    """
    before, created = pod.get("status") or {}, pod["metadata"].get("creationTimestamp")
    if "startTime" in before:
        return parse_timestamp(before["startTime"])
    if before.get("phase") == "Running" and created:
        return parse_timestamp(created)
    return whole_second(now)


def _next_turn(role: ContainerRole, status: Object, turn: datetime | None) -> datetime | None:
    """Return from when the container after this one may start; ordinary containers start together."""
    if role is ContainerRole.MAIN or turn is None:
        return turn
    if role is ContainerRole.SIDECAR:
        return started_at(status)
    return parse_timestamp(status["state"]["terminated"]["finishedAt"]) if exited_well(status) else None


def _status(
    pod: Object,
    containers: list[PodContainer],
    statuses: list[Object],
    started: datetime,
    now: datetime,
    host: HostFacts,
) -> Object:
    first_main = len(pod["spec"].get("initContainers") or ())
    inits, mains = statuses[:first_main], statuses[first_main:]
    status: Object = (pod.get("status") or {}) | {
        "phase": _phase(pod, containers, inits, mains),
        "startTime": format_timestamp(started),
        "containerStatuses": mains,
    }
    if inits:
        status["initContainerStatuses"] = inits
    if status["phase"] in TERMINAL:
        status = all_stopped(status, now, exit_code=0)  # sidecars end with the others
    if generation := pod["metadata"].get("generation"):
        status["observedGeneration"] = generation
    if host.ip:
        status |= {"hostIP": host.ip, "hostIPs": [{"ip": host.ip}]}
    if not (status.get("podIP") or status.get("podIPs")) and any(_has_started(each) for each in statuses):
        ip = host.ip if pod["spec"].get("hostNetwork") else _ip_of(pod["metadata"].get("uid", ""))
        status |= {"podIP": ip, "podIPs": [{"ip": ip}]}
    return status | {"conditions": conditions(pod, status, now)}


def _phase(pod: Object, containers: list[PodContainer], inits: list[Object], mains: list[Object]) -> str:
    policy = pod["spec"].get("restartPolicy", "Always")
    ended_inits = [
        exited_well(status)
        for member, status in zip(containers, inits, strict=False)
        if member.role is ContainerRole.INIT and "terminated" in status["state"]
    ]
    if policy == "Never" and not all(ended_inits):
        return "Failed"
    if any("waiting" in each["state"] and not each["lastState"] for each in mains):
        return "Pending"
    if policy == "Always" or not all("terminated" in each["state"] for each in mains):
        return "Running"
    if all(exited_well(each) for each in mains):
        return "Succeeded"
    return "Failed" if policy == "Never" else "Running"


def _has_started(status: Object) -> bool:
    """Return whether the kubelet has reached this container, so that the pod has a sandbox and an address."""
    reason = status["state"].get("waiting", {}).get("reason")
    return reason not in {"ContainerCreating", "PodInitializing"}


def _ip_of(uid: str) -> str:
    """Return an address derived from the uid; among 16 million, two pods rarely share one."""
    first, second, third = hashlib.sha256(uid.encode()).digest()[:3]
    return f"10.{first}.{second}.{third}"
