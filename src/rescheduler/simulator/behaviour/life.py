"""The life of a pod on its node: what a kubelet would write now, and when to ask again.

Level-triggered: everything is read from the pod as the API holds it, nothing is remembered. So simulated
kubelets and the testbed's share this, both go on after a restart where they were, and asking twice at the
same moment changes nothing.

A dead node is simply not asked about: its pods neither start nor finish terminating.
"""

import hashlib
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from rescheduler.simulator.behaviour.conditions import TERMINAL, conditions
from rescheduler.simulator.behaviour.containers import Circumstances, exited_well, live, started_at
from rescheduler.simulator.behaviour.ending import (
    all_stopped,
    end_of,
    given_up,
    is_kept_by_others,
    is_terminal,
    stops_at,
    terminated,
)
from rescheduler.simulator.behaviour.instants import earliest, read, whole_second, written
from rescheduler.simulator.behaviour.members import Member, Role, members
from rescheduler.simulator.behaviour.vocabulary import Behaviour
from rescheduler.simulator.exchange import Object

__all__ = ["Delete", "Host", "Step", "Update", "advance"]


@dataclass(frozen=True, slots=True)
class Host:
    """What a pod's life takes from its node."""

    ip: str = ""
    slow: float = 1.0


class Update(NamedTuple):
    """Write this status: the whole of it, with what others wrote into it."""

    status: Object


class Delete(NamedTuple):
    """All containers have ended: delete for good, with grace 0 and this uid as precondition."""

    uid: str


class Step(NamedTuple):
    action: Update | Delete | None
    wake_at: datetime | None


_NOTHING_TO_DO = Step(None, None)
_SOME_HOST = Host()


def advance(pod: Object, behaviour: Behaviour, now: datetime, host: Host = _SOME_HOST) -> Step:
    """What to do for this pod now. Pods without a node have no kubelet, so nothing."""
    if not pod["spec"].get("nodeName"):
        return _NOTHING_TO_DO
    leaving = "deletionTimestamp" in pod["metadata"]
    if is_terminal(pod):
        gone = leaving and not is_kept_by_others(pod)
        return Step(Delete(pod["metadata"]["uid"]), None) if gone else _NOTHING_TO_DO
    containers = members(pod, behaviour)
    if leaving:
        due = stops_at(pod, containers, host.slow)
        if now < due:
            return Step(None, due)
        return Step(Update(terminated(pod, containers, host.slow, now)), None)
    return _live_on(pod, containers, now, host)


def _live_on(pod: Object, containers: list[Member], now: datetime, host: Host) -> Step:
    before = pod.get("status") or {}
    begun = read(before["startTime"]) if "startTime" in before else whole_second(now)
    end = end_of(pod, containers, begun)
    if end and end.at <= now:
        return Step(Update(given_up(pod, containers, end, now)), None)
    turn: datetime | None = begun
    statuses, wakes = [], [end.at if end else None]
    for member in containers:
        where = Circumstances(pod, now, turn, member.role, host.slow)
        status, wake_at = live(member.spec, member.status, member.how, where)
        statuses.append(status)
        wakes.append(wake_at)
        turn = _next_turn(member.role, status, turn)
    after = _status(pod, containers, statuses, begun, now, host)
    return Step(Update(after) if after != before else None, earliest(*wakes))


def _next_turn(role: Role, status: Object, turn: datetime | None) -> datetime | None:
    """Since when the container after this one may start; ordinary ones start together."""
    if role is Role.MAIN or turn is None:
        return turn
    if role is Role.SIDECAR:
        return started_at(status)
    return read(status["state"]["terminated"]["finishedAt"]) if exited_well(status) else None


def _status(
    pod: Object, containers: list[Member], statuses: list[Object], begun: datetime, now: datetime, host: Host
) -> Object:
    first_main = len(pod["spec"].get("initContainers") or ())
    inits, mains = statuses[:first_main], statuses[first_main:]
    status: Object = (pod.get("status") or {}) | {
        "phase": _phase(pod, containers, inits, mains),
        "startTime": written(begun),
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
    if not status.get("podIP") and any(_has_begun(each) for each in statuses):
        ip = host.ip if pod["spec"].get("hostNetwork") else _ip_of(pod["metadata"].get("uid", ""))
        status |= {"podIP": ip, "podIPs": [{"ip": ip}]}
    return status | {"conditions": conditions(pod, status, now)}


def _phase(pod: Object, containers: list[Member], inits: list[Object], mains: list[Object]) -> str:
    policy = pod["spec"].get("restartPolicy", "Always")
    ended_inits = [
        exited_well(status)
        for member, status in zip(containers, inits, strict=False)
        if member.role is Role.INIT and "terminated" in status["state"]
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


def _has_begun(status: Object) -> bool:
    """Whether the kubelet has got as far as this container: then the pod has its sandbox and its address."""
    reason = status["state"].get("waiting", {}).get("reason")
    return reason not in {"ContainerCreating", "PodInitializing"}


def _ip_of(uid: str) -> str:
    """Made of the uid, so that nobody has to keep a list: of 16 million, two pods may rarely share one."""
    first, second, third = hashlib.sha256(uid.encode()).digest()[:3]
    return f"10.{first}.{second}.{third}"
