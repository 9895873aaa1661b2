"""The status of a Deployment: counts, and the conditions that `kubectl rollout status` reads. Pure."""

from datetime import datetime

from kubesim.apiserver.api_messages import Object
from kubesim.common_fields import condition, format_timestamp, seconds_since
from kubesim.controllers.deployment_sizes import (
    DeploymentReplicaSets,
    actual_of,
    available_of,
    max_unavailable,
    size_of,
)

__all__ = [
    "counted_status",
    "has_deadline",
    "is_complete",
    "pause_condition",
    "put_condition",
    "rollout_status",
    "seconds_to_deadline",
]

_NO_DEADLINE = 2**31 - 1
_TIMED_OUT, _DONE, _PAUSED = "ProgressDeadlineExceeded", "NewReplicaSetAvailable", "DeploymentPaused"


def put_condition(status: Object, type_: str, value: str, reason: str, message: str, now: datetime) -> bool:
    """Write a condition into `status`, and return whether its value or reason changed."""
    before = condition(status, type_)
    if before is not None and (before["status"], before.get("reason")) == (value, reason):
        return False
    since = format_timestamp(now)
    if before is not None and before["status"] == value:
        since = before.get("lastTransitionTime", since)
    new = {
        "type": type_,
        "status": value,
        "lastUpdateTime": format_timestamp(now),
        "lastTransitionTime": since,
        "reason": reason,
        "message": message,
    }
    status["conditions"] = [*_others(status, type_), new]
    return True


def _others(status: Object, type_: str) -> list[Object]:
    return [item for item in status.get("conditions") or () if item["type"] != type_]


def has_deadline(deployment: Object) -> bool:
    return deployment["spec"].get("progressDeadlineSeconds") not in {None, _NO_DEADLINE}


def pause_condition(deployment: Object, now: datetime) -> Object | None:
    """Return the status with a pause or its end, so that paused time does not count as missing progress."""
    if not has_deadline(deployment):
        return None
    status = dict(deployment.get("status", {}))
    before = condition(status, "Progressing") or {}
    if before.get("reason") == _TIMED_OUT:
        return None
    is_paused, was_paused = bool(deployment["spec"].get("paused")), before.get("reason") == _PAUSED
    if is_paused == was_paused:
        return None
    reason, message = (
        (_PAUSED, "Deployment is paused") if is_paused else ("DeploymentResumed", "Deployment is resumed")
    )
    put_condition(status, "Progressing", "Unknown", reason, message, now)
    return status


def counted_status(sets: DeploymentReplicaSets, now: datetime) -> Object:
    """Return the status with counts and availability."""
    deployment = sets.deployment
    available = sum(map(available_of, sets.all))
    counts = {
        "observedGeneration": deployment["metadata"].get("generation", 0),
        "replicas": sum(map(actual_of, sets.all)),
        "updatedReplicas": actual_of(sets.new) if sets.new is not None else 0,
        "readyReplicas": sum(each.get("status", {}).get("readyReplicas", 0) for each in sets.all),
        "availableReplicas": available,
        "unavailableReplicas": max(0, sum(map(size_of, sets.all)) - available),
    }
    status: Object = {name: count for name, count in counts.items() if count}
    status["terminatingReplicas"] = sum(
        each.get("status", {}).get("terminatingReplicas", 0) for each in sets.all
    )
    before = deployment.get("status", {})
    for field in ("collisionCount", "conditions"):
        if field in before:
            status[field] = before[field]
    if available >= size_of(deployment) - max_unavailable(deployment):
        reason, message = "MinimumReplicasAvailable", "Deployment has minimum availability."
        put_condition(status, "Available", "True", reason, message, now)
    else:
        reason, message = "MinimumReplicasUnavailable", "Deployment does not have minimum availability."
        put_condition(status, "Available", "False", reason, message, now)
    return status


def is_complete(deployment: Object, status: Object) -> bool:
    wanted = size_of(deployment)
    counts = ("updatedReplicas", "replicas", "availableReplicas")
    return all(status.get(name, 0) == wanted for name in counts) and (
        status.get("observedGeneration", 0) >= deployment["metadata"].get("generation", 0)
    )


def rollout_status(sets: DeploymentReplicaSets, now: datetime) -> Object:
    """Return the status with counts, progress, and failures of its ReplicaSets."""
    deployment, status = sets.deployment, counted_status(sets, now)
    progressing = condition(deployment.get("status", {}), "Progressing")
    if not has_deadline(deployment):
        status["conditions"] = _others(status, "Progressing")
    elif not _was_done(status, progressing):
        _set_progress(sets, status, progressing, now)
    failure = _replica_failure(sets)
    status["conditions"] = [*_others(status, "ReplicaFailure"), *([failure] if failure else [])]
    return status


def _was_done(status: Object, progressing: Object | None) -> bool:
    same = status.get("replicas", 0) == status.get("updatedReplicas", 0)
    return same and progressing is not None and progressing.get("reason") == _DONE


def _set_progress(
    sets: DeploymentReplicaSets, status: Object, progressing: Object | None, now: datetime
) -> None:
    deployment = sets.deployment
    who = (
        f'ReplicaSet "{sets.new["metadata"]["name"]}"'
        if sets.new is not None
        else f'Deployment "{deployment["metadata"]["name"]}"'
    )
    if is_complete(deployment, status):
        put_condition(status, "Progressing", "True", _DONE, f"{who} has successfully progressed.", now)
    elif _has_progressed(deployment.get("status", {}), status):
        # Record progress every time, even for the same reason: the deadline counts from here.
        status["conditions"] = _others(status, "Progressing")
        put_condition(status, "Progressing", "True", "ReplicaSetUpdated", f"{who} is progressing.", now)
        if progressing is not None and progressing["status"] == "True":
            status["conditions"][-1]["lastTransitionTime"] = progressing["lastTransitionTime"]
    elif _has_timed_out(deployment, status, now):
        put_condition(status, "Progressing", "False", _TIMED_OUT, f"{who} has timed out progressing.", now)


def _has_progressed(before: Object, after: Object) -> bool:
    def count(status: Object, name: str) -> int:
        return int(status.get(name, 0))

    def old(status: Object) -> int:
        return count(status, "replicas") - count(status, "updatedReplicas")

    grown = ("updatedReplicas", "readyReplicas", "availableReplicas")
    return old(after) < old(before) or any(count(after, name) > count(before, name) for name in grown)


def _has_timed_out(deployment: Object, status: Object, now: datetime) -> bool:
    progressing = condition(status, "Progressing")
    if progressing is None or progressing.get("reason") == _DONE:
        return False
    if progressing.get("reason") == _TIMED_OUT:
        return True
    deadline_s: int = deployment["spec"]["progressDeadlineSeconds"]
    return seconds_since(progressing["lastUpdateTime"], now) > deadline_s


def _replica_failure(sets: DeploymentReplicaSets) -> Object | None:
    for each in (*((sets.new,) if sets.new is not None else ()), *sets.old):
        found = condition(each.get("status", {}), "ReplicaFailure")
        if found is not None:
            return {**found, "lastUpdateTime": found["lastTransitionTime"]}
    return None


def seconds_to_deadline(deployment: Object, now: datetime) -> float | None:
    """Return the seconds until the progress deadline, or None if there is nothing to wait for."""
    status = deployment.get("status", {})
    progressing = condition(status, "Progressing")
    if not has_deadline(deployment) or progressing is None or is_complete(deployment, status):
        return None
    if progressing.get("reason") in {_TIMED_OUT, _DONE}:
        return None
    left = deployment["spec"]["progressDeadlineSeconds"] - seconds_since(progressing["lastUpdateTime"], now)
    return float(max(left, 0.0)) + 1.0
