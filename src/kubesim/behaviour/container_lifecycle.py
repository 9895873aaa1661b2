"""The lifecycle of a container: waiting → running → terminated → (back-off) → running …

Everything is derived from the status in the API and the time, so the same question at the same time has the
same answer, also after a restart. Back-off is that of a kubelet: 10 seconds, doubled each time, up to 5
minutes.
"""

import hashlib
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from kubesim.apiserver.api_messages import Object
from kubesim.behaviour.behaviour_rules import BlockedRule, ContainerRun
from kubesim.behaviour.rule_matching import ContainerBehaviour, ContainerRole
from kubesim.common_fields import earliest, format_timestamp, parse_timestamp
from kubevalues.duration import format_duration

__all__ = [
    "LONGEST",
    "ContainerContext",
    "ContainerProgress",
    "ImagePull",
    "advance_container",
    "exited_well",
    "pull_at",
    "restart_delay",
    "shown",
    "started_at",
    "stopped",
]

FIRST = timedelta(seconds=10)
LONGEST = timedelta(minutes=5)
RESET_AFTER = 2 * LONGEST
"""A container that ran for this long restarts without back-off."""
NOTICED_AFTER = timedelta(seconds=1)
"""How long an exit is visible before the kubelet acts on it."""
PULL_TAKES = timedelta(seconds=1)


def restart_delay(restarts: int, ran_for: timedelta) -> timedelta:
    """Return the time from an exit to the next start, after this number of restarts."""
    if restarts == 0 or ran_for >= RESET_AFTER:
        return NOTICED_AFTER
    return _wait(restarts)


class ImagePull(NamedTuple):
    """The state of an image pull: failing now, or waiting for the next attempt."""

    failing: bool
    wait: timedelta
    until: datetime


def pull_at(began: datetime, now: datetime) -> ImagePull:
    attempt, wait = began, FIRST
    while now >= attempt + PULL_TAKES + wait:
        attempt += PULL_TAKES + wait
        wait = min(2 * wait, LONGEST)
    if now < attempt + PULL_TAKES:
        return ImagePull(failing=True, wait=wait, until=attempt + PULL_TAKES)
    return ImagePull(failing=False, wait=wait, until=attempt + PULL_TAKES + wait)


def _wait(failures: int) -> timedelta:
    doublings = min(failures - 1, 10)  # far beyond the longest
    return min(FIRST * (1 << doublings), LONGEST)


def shown(wait: timedelta) -> str:
    """Return a duration as Go prints it: 10s, 1m20s, 5m0s."""
    return format_duration(wait)


@dataclass(frozen=True, slots=True)
class ContainerContext:
    """The values besides its own status and behaviour on which a container depends."""

    pod: Object
    now: datetime
    turn: datetime | None
    """The time from which it may start; None while other containers have to finish first."""
    role: ContainerRole
    slow: float = 1.0


class ContainerProgress(NamedTuple):
    status: Object
    wake_at: datetime | None


def advance_container(
    container: Object, before: Object | None, how: ContainerBehaviour, where: ContainerContext
) -> ContainerProgress:
    """Return the container's status now, and when it changes next."""
    status = before or {"name": container["name"], "restartCount": 0, "lastState": {}, "state": {}}
    # The loop ends: an exit takes effect a second later, so no pass returns to its first state.
    while True:
        progress = _step(status, container, how, where)
        if progress.status["state"] == status["state"]:
            break
        status = progress.status
    ready, changes_at = _readiness(progress.status["state"], how, where)
    shape = _with_container_fields(progress.status, container, where.pod, ready=ready)
    return ContainerProgress(shape, earliest(progress.wake_at, changes_at))


def stopped(status: Object, now: datetime, *, exit_code: int) -> Object:
    """Return the status of a container that ended with its pod."""
    if "running" in status["state"]:
        reason = "Error" if exit_code else "Completed"
        state = _terminated(status, now, exit_code, reason)
        return status | {"state": state, "ready": False, "started": False}
    if last := status["lastState"].get("terminated"):
        return status | {"state": {"terminated": last}, "ready": False, "started": False}
    return status


def exited_well(status: Object) -> bool:
    ended = status["state"].get("terminated")
    return ended is not None and bool(ended["exitCode"] == 0)


def started_at(status: Object) -> datetime | None:
    """Return when it last started, or None."""
    for state in (status["state"], status["lastState"]):
        for started in (state.get("running"), state.get("terminated")):
            if started and started.get("startedAt"):
                return parse_timestamp(started["startedAt"])
    return None


# -- one transition


def _step(
    status: Object, container: Object, how: ContainerBehaviour, where: ContainerContext
) -> ContainerProgress:
    state = status["state"]
    if "running" in state:
        return _from_running(status, _run_of(how, where.role), where)
    if "terminated" in state:
        return _from_terminated(status, where)
    if status["lastState"].get("terminated"):
        return _from_back_off(status, where)
    return _from_nothing(status, container, how, where)


def _from_nothing(
    status: Object, container: Object, how: ContainerBehaviour, where: ContainerContext
) -> ContainerProgress:
    if where.turn is None:
        return ContainerProgress(_waiting(status, "PodInitializing"), None)
    due = where.turn + how.startup * where.slow
    if where.now < due:
        inits = where.pod["spec"].get("initContainers")
        return ContainerProgress(_waiting(status, "PodInitializing" if inits else "ContainerCreating"), due)
    if how.blocked is None or (how.blocked.heals and where.now >= due + how.blocked.heals):
        return ContainerProgress(_running(status, where.now), None)
    healed_at = due + how.blocked.heals if how.blocked.heals else None
    shown, changes_at = _blocked_state(how.blocked, container, due, where.now)
    return ContainerProgress(status | {"state": shown}, earliest(changes_at, healed_at))


def _from_running(status: Object, run: ContainerRun, where: ContainerContext) -> ContainerProgress:
    well_again = run.times is not None and status["restartCount"] >= run.times
    if run.lasts is None or (well_again and where.role is not ContainerRole.INIT):
        return ContainerProgress(status, None)
    due = parse_timestamp(status["state"]["running"]["startedAt"]) + run.lasts
    if where.now < due:
        return ContainerProgress(status, due)
    exit_code, reason = (0, "Completed") if well_again else (run.exit_code, run.shown_reason)
    return ContainerProgress(status | {"state": _terminated(status, where.now, exit_code, reason)}, None)


def _from_terminated(status: Object, where: ContainerContext) -> ContainerProgress:
    if not _restarts(status, where):
        return ContainerProgress(status, None)
    ended = status["state"]["terminated"]
    noticed_at = parse_timestamp(ended["finishedAt"]) + NOTICED_AFTER
    if where.now < noticed_at:
        return ContainerProgress(status, noticed_at)
    return _from_back_off(status | {"state": {}, "lastState": {"terminated": ended}}, where)


def _from_back_off(status: Object, where: ContainerContext) -> ContainerProgress:
    ended = status["lastState"]["terminated"]
    finished = parse_timestamp(ended["finishedAt"])
    wait = restart_delay(status["restartCount"], finished - parse_timestamp(ended["startedAt"]))
    if where.now >= finished + wait:
        return ContainerProgress(
            _running(status, where.now) | {"restartCount": status["restartCount"] + 1}, None
        )
    metadata = where.pod["metadata"]
    pod = f"{metadata['name']}_{metadata.get('namespace', '')}({metadata.get('uid', '')})"
    message = f"back-off {shown(wait)} restarting failed container={status['name']} pod={pod}"
    return ContainerProgress(_waiting(status, "CrashLoopBackOff", message), finished + wait)


def _run_of(how: ContainerBehaviour, role: ContainerRole) -> ContainerRun:
    return how.init if role is ContainerRole.INIT else how.run


def _restarts(status: Object, where: ContainerContext) -> bool:
    if where.role is ContainerRole.SIDECAR:
        return True
    policy = where.pod["spec"].get("restartPolicy", "Always")
    if policy == "Always" and where.role is ContainerRole.MAIN:
        return True
    return policy != "Never" and not exited_well(status)


# -- states


def _waiting(status: Object, reason: str, message: str = "") -> Object:
    waiting = {"reason": reason, "message": message} if message else {"reason": reason}
    return status | {"state": {"waiting": waiting}}


def _running(status: Object, now: datetime) -> Object:
    return status | {"state": {"running": {"startedAt": format_timestamp(now)}}}


def _terminated(status: Object, now: datetime, exit_code: int, reason: str) -> Object:
    ended = {
        "exitCode": exit_code,
        "reason": reason,
        "startedAt": status["state"]["running"]["startedAt"],
        "finishedAt": format_timestamp(now),
    }
    if "containerID" in status:
        ended["containerID"] = status["containerID"]
    return {"terminated": ended}


def _blocked_state(
    blocked: BlockedRule, container: Object, since: datetime, now: datetime
) -> tuple[Object, datetime | None]:
    reason, changes_at = blocked.reason, None
    message = blocked.message
    if blocked.pulls:
        image = container.get("image", "")
        pull = pull_at(since, now)
        changes_at = pull.until
        cause = blocked.message or f'failed to pull and unpack image "{image}": not found'
        if pull.failing:
            reason, message = "ErrImagePull", cause
        else:
            reason, message = "ImagePullBackOff", f'Back-off pulling image "{image}": ErrImagePull: {cause}'
    waiting = {"reason": reason, "message": message} if message else {"reason": reason}
    return {"waiting": waiting}, changes_at


def _readiness(
    state: Object, how: ContainerBehaviour, where: ContainerContext
) -> tuple[bool, datetime | None]:
    """Return whether it is ready, and when that changes."""
    if where.role is ContainerRole.INIT:
        return "terminated" in state and state["terminated"]["exitCode"] == 0, None
    if "running" not in state or how.readiness.after is None:
        return False, None
    due = parse_timestamp(state["running"]["startedAt"]) + how.readiness.after * where.slow
    if where.now < due:
        return False, due
    up, down = how.readiness.ready, how.readiness.unready
    if up is None or down is None:
        return True, None
    into = (where.now - due) % (up + down)
    changes_in = (up if into < up else up + down) - into
    return into < up, where.now + changes_in


# -- the rest of a status, which follows from its state


def _with_container_fields(status: Object, container: Object, pod: Object, *, ready: bool) -> Object:
    image = container.get("image", "")
    with_fields = {
        "name": container["name"],
        "state": status["state"],
        "lastState": status["lastState"],
        "ready": ready,
        "started": "running" in status["state"],
        "restartCount": status["restartCount"],
        "image": image,
        "imageID": "",
    }
    if started_at(status) is not None:
        with_fields["imageID"] = f"{_repository(image)}@sha256:{_hash(image)}"
        identity = f"{pod['metadata'].get('uid')}/{container['name']}/{status['restartCount']}"
        with_fields["containerID"] = f"containerd://{_hash(identity)}"
    resources = container.get("resources")
    if resources:
        # An in-place resize is granted immediately.
        with_fields["resources"] = resources
        if resources.get("requests"):
            with_fields["allocatedResources"] = resources["requests"]
    return with_fields


def _repository(image: str) -> str:
    path, slash, name = image.partition("@")[0].rpartition("/")
    return f"{path}{slash}{name.partition(':')[0]}"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
