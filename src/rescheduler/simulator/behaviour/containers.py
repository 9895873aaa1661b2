"""The life of one container, told by its status: waiting → running → terminated → (back-off) → running …

Everything follows from the status that the API holds and from the time; whoever asks twice at the same
moment gets the same answer.
"""

import hashlib
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from rescheduler.simulator.behaviour import backoff
from rescheduler.simulator.behaviour.choice import ContainerBehaviour
from rescheduler.simulator.behaviour.instants import earliest, read, written
from rescheduler.simulator.behaviour.members import Role
from rescheduler.simulator.behaviour.vocabulary import Blocked, Run
from rescheduler.simulator.exchange import Object

__all__ = ["Circumstances", "Progress", "exited_well", "live", "started_at", "stopped"]


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What a container's life depends on beside its own status and behaviour."""

    pod: Object
    now: datetime
    turn: datetime | None
    """Since when it may start; None while others have to finish first."""
    role: Role
    slow: float = 1.0


class Progress(NamedTuple):
    status: Object
    wake_at: datetime | None


def live(container: Object, before: Object | None, how: ContainerBehaviour, where: Circumstances) -> Progress:
    """As far as it has come by now, and when it goes on."""
    status = before or {"name": container["name"], "restartCount": 0, "lastState": {}, "state": {}}
    # This ends: an exit is noticed only a second later, so no round leads back to its own beginning.
    while True:
        progress = _step(status, container, how, where)
        if progress.status["state"] == status["state"]:
            break
        status = progress.status
    ready, changes_at = _readiness(progress.status["state"], how, where)
    shape = _dressed(progress.status, container, where.pod, ready=ready)
    return Progress(shape, earliest(progress.wake_at, changes_at))


def stopped(status: Object, now: datetime, *, exit_code: int) -> Object:
    """The same container, ended with its pod."""
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
    """When it last started; None if it never did."""
    for state in (status["state"], status["lastState"]):
        for begun in (state.get("running"), state.get("terminated")):
            if begun and begun.get("startedAt"):
                return read(begun["startedAt"])
    return None


# -- one transition


def _step(status: Object, container: Object, how: ContainerBehaviour, where: Circumstances) -> Progress:
    state = status["state"]
    if "running" in state:
        return _from_running(status, _run_of(how, where.role), where)
    if "terminated" in state:
        return _from_terminated(status, where)
    if status["lastState"].get("terminated"):
        return _from_back_off(status, where)
    return _from_nothing(status, container, how, where)


def _from_nothing(
    status: Object, container: Object, how: ContainerBehaviour, where: Circumstances
) -> Progress:
    if where.turn is None:
        return Progress(_waiting(status, "PodInitializing"), None)
    due = where.turn + how.startup * where.slow
    if where.now < due:
        inits = where.pod["spec"].get("initContainers")
        return Progress(_waiting(status, "PodInitializing" if inits else "ContainerCreating"), due)
    if how.blocked is None or (how.blocked.heals and where.now >= due + how.blocked.heals):
        return Progress(_running(status, where.now), None)
    healed_at = due + how.blocked.heals if how.blocked.heals else None
    shown, changes_at = _obstacle(how.blocked, container, due, where.now)
    return Progress(status | {"state": shown}, earliest(changes_at, healed_at))


def _from_running(status: Object, run: Run, where: Circumstances) -> Progress:
    well_again = run.times is not None and status["restartCount"] >= run.times
    if run.lasts is None or (well_again and where.role is not Role.INIT):
        return Progress(status, None)
    due = read(status["state"]["running"]["startedAt"]) + run.lasts
    if where.now < due:
        return Progress(status, due)
    exit_code, reason = (0, "Completed") if well_again else (run.exit_code, run.shown_reason)
    return Progress(status | {"state": _terminated(status, where.now, exit_code, reason)}, None)


def _from_terminated(status: Object, where: Circumstances) -> Progress:
    if not _restarts(status, where):
        return Progress(status, None)
    ended = status["state"]["terminated"]
    noticed_at = read(ended["finishedAt"]) + backoff.NOTICED_AFTER
    if where.now < noticed_at:
        return Progress(status, noticed_at)
    return _from_back_off(status | {"state": {}, "lastState": {"terminated": ended}}, where)


def _from_back_off(status: Object, where: Circumstances) -> Progress:
    ended = status["lastState"]["terminated"]
    finished = read(ended["finishedAt"])
    wait = backoff.restart_delay(status["restartCount"], finished - read(ended["startedAt"]))
    if where.now >= finished + wait:
        return Progress(_running(status, where.now) | {"restartCount": status["restartCount"] + 1}, None)
    metadata = where.pod["metadata"]
    pod = f"{metadata['name']}_{metadata.get('namespace', '')}({metadata.get('uid', '')})"
    message = f"back-off {backoff.shown(wait)} restarting failed container={status['name']} pod={pod}"
    return Progress(_waiting(status, "CrashLoopBackOff", message), finished + wait)


def _run_of(how: ContainerBehaviour, role: Role) -> Run:
    return how.init if role is Role.INIT else how.run


def _restarts(status: Object, where: Circumstances) -> bool:
    if where.role is Role.SIDECAR:
        return True
    policy = where.pod["spec"].get("restartPolicy", "Always")
    if policy == "Always" and where.role is Role.MAIN:
        return True
    return policy != "Never" and not exited_well(status)


# -- states


def _waiting(status: Object, reason: str, message: str = "") -> Object:
    told = {"reason": reason, "message": message} if message else {"reason": reason}
    return status | {"state": {"waiting": told}}


def _running(status: Object, now: datetime) -> Object:
    return status | {"state": {"running": {"startedAt": written(now)}}}


def _terminated(status: Object, now: datetime, exit_code: int, reason: str) -> Object:
    ended = {
        "exitCode": exit_code,
        "reason": reason,
        "startedAt": status["state"]["running"]["startedAt"],
        "finishedAt": written(now),
    }
    if "containerID" in status:
        ended["containerID"] = status["containerID"]
    return {"terminated": ended}


def _obstacle(
    blocked: Blocked, container: Object, since: datetime, now: datetime
) -> tuple[Object, datetime | None]:
    reason, changes_at = blocked.reason, None
    message = blocked.message
    if blocked.pulls:
        image = container.get("image", "")
        pull = backoff.pull_at(since, now)
        changes_at = pull.until
        cause = blocked.message or f'failed to pull and unpack image "{image}": not found'
        if pull.failing:
            reason, message = "ErrImagePull", cause
        else:
            reason, message = "ImagePullBackOff", f'Back-off pulling image "{image}": ErrImagePull: {cause}'
    told = {"reason": reason, "message": message} if message else {"reason": reason}
    return {"waiting": told}, changes_at


def _readiness(state: Object, how: ContainerBehaviour, where: Circumstances) -> tuple[bool, datetime | None]:
    """Whether it is ready, and when that changes."""
    if where.role is Role.INIT:
        return "terminated" in state and state["terminated"]["exitCode"] == 0, None
    if "running" not in state or how.readiness.after is None:
        return False, None
    due = read(state["running"]["startedAt"]) + how.readiness.after * where.slow
    if where.now < due:
        return False, due
    up, down = how.readiness.ready, how.readiness.unready
    if up is None or down is None:
        return True, None
    into = (where.now - due) % (up + down)
    changes_in = (up if into < up else up + down) - into
    return into < up, where.now + max(changes_in, timedelta(milliseconds=1))


# -- the rest of a status, which follows from its state


def _dressed(status: Object, container: Object, pod: Object, *, ready: bool) -> Object:
    image = container.get("image", "")
    dressed = {
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
        dressed["imageID"] = f"{_repository(image)}@sha256:{_hash(image)}"
        identity = f"{pod['metadata'].get('uid')}/{container['name']}/{status['restartCount']}"
        dressed["containerID"] = f"containerd://{_hash(identity)}"
    resources = container.get("resources")
    if resources:
        # What a resize in place changes is granted at once.
        dressed["resources"] = resources
        if resources.get("requests"):
            dressed["allocatedResources"] = resources["requests"]
    return dressed


def _repository(image: str) -> str:
    path, slash, name = image.partition("@")[0].rpartition("/")
    return f"{path}{slash}{name.partition(':')[0]}"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
