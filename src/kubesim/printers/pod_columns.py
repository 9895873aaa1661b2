"""Table columns of pods; STATUS is derived from phase, conditions, init containers and containers."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import NamedTuple

from kubesim.apiserver.api_messages import Object
from kubesim.common_fields import parse_timestamp
from kubesim.printers.table_columns import (
    AGE,
    NAME,
    NONE,
    Cell,
    TableColumn,
    TableLayout,
    age,
    condition_status,
    each,
    human_duration,
    name,
    spec,
    status,
    wide,
)

__all__ = ["POD", "pod_conditions"]

_LONG_AGO = datetime.min.replace(tzinfo=UTC)


class _Summary(NamedTuple):
    """The summary of a pod's containers, or of its init containers while they run."""

    reason: str
    ready: int
    restarts: int
    last_restart: datetime


def _cells(pod: Object, now: datetime) -> list[Cell]:
    found = _summary(pod)
    containers = len(spec(pod).get("containers") or ()) + len(_sidecars(pod))
    return [
        name(pod),
        f"{found.ready}/{containers}",
        _terminating(pod) or found.reason,
        _restarts(found, now),
        age(pod, now),
        next((ip["ip"] for ip in status(pod).get("podIPs") or ()), "") or NONE,
        spec(pod).get("nodeName") or NONE,
        status(pod).get("nominatedNodeName") or NONE,
        _readiness_gates(pod),
    ]


def _summary(pod: Object) -> _Summary:
    started = _initialization(pod)
    conditions = status(pod).get("conditions")
    if started.reason and condition_status(conditions, "Initialized") != "True":
        return started
    return _containers(pod, started.reason or _phase(pod), ready_sidecars=started.ready)


def _phase(pod: Object) -> str:
    found = status(pod)
    for condition in found.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            return "SchedulingGated"
    return found.get("reason") or found.get("phase") or ""


def _sidecars(pod: Object) -> set[str]:
    """Return the init containers that keep running beside the containers."""
    init_containers = spec(pod).get("initContainers") or ()
    return {container["name"] for container in init_containers if container.get("restartPolicy") == "Always"}


def _initialization(pod: Object) -> _Summary:
    """Return the reason of the first init container that is neither finished nor a running sidecar."""
    sidecars = _sidecars(pod)
    total = len(spec(pod).get("initContainers") or ())
    seen: list[Object] = []
    ready = 0
    reason = ""
    for position, container in enumerate(status(pod).get("initContainerStatuses") or ()):
        seen.append(container)
        terminated = _state(container, "terminated")
        if terminated is not None and not terminated.get("exitCode"):
            continue
        if container.get("name") in sidecars and container.get("started"):
            ready += bool(container.get("ready"))
            continue
        waiting = (_state(container, "waiting") or {}).get("reason")
        if terminated is not None:
            reason = f"Init:{_end_reason(terminated)}"
        elif waiting and waiting != "PodInitializing":
            reason = f"Init:{waiting}"
        else:
            reason = f"Init:{position}/{total}"
        break
    return _Summary(reason, ready, _restart_count(seen), _last_restart(seen))


def _containers(pod: Object, reason: str, *, ready_sidecars: int) -> _Summary:
    ready = ready_sidecars
    running = False
    failure = ""
    statuses = status(pod).get("containerStatuses") or []
    for container in reversed(statuses):  # so that the reason of the first container is shown
        waiting = (_state(container, "waiting") or {}).get("reason")
        terminated = _state(container, "terminated")
        if waiting:
            reason = waiting
        elif terminated is not None:
            reason = _end_reason(terminated)
            failure = reason if terminated.get("exitCode") else failure
        elif container.get("ready") and _state(container, "running") is not None:
            running = True
            ready += 1
    if reason == "Completed":  # of one container, while others may still run or have failed
        if running and condition_status(status(pod).get("conditions"), "Ready") == "True":
            reason = "Running"
        else:
            reason = failure or ("NotReady" if running else reason)
    sidecars = _sidecars(pod)
    restarted = [c for c in status(pod).get("initContainerStatuses") or () if c.get("name") in sidecars]
    restarted += statuses
    return _Summary(reason, ready, _restart_count(restarted), _last_restart(restarted))


def _state(container: Object, which: str) -> Object | None:
    found: Object | None = (container.get("state") or {}).get(which)
    return found


def _end_reason(terminated: Object) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"


def _restart_count(containers: Iterable[Object]) -> int:
    return sum(container.get("restartCount", 0) for container in containers)


def _last_restart(containers: Iterable[Object]) -> datetime:
    return max(_ends(containers), default=_LONG_AGO)


def _ends(containers: Iterable[Object]) -> Iterator[datetime]:
    for container in containers:
        terminated = (container.get("lastState") or {}).get("terminated") or {}
        if terminated.get("finishedAt"):
            yield parse_timestamp(terminated["finishedAt"])


def _restarts(found: _Summary, now: datetime) -> str:
    if not found.restarts or found.last_restart == _LONG_AGO:
        return str(found.restarts)
    return f"{found.restarts} ({human_duration(now - found.last_restart)} ago)"


def _terminating(pod: Object) -> str:
    """Return the status of a pod that is being deleted, unless it has ended."""
    if "deletionTimestamp" not in pod["metadata"]:
        return ""
    if status(pod).get("reason") == "NodeLost":
        return "Unknown"
    return "" if status(pod).get("phase") in {"Succeeded", "Failed"} else "Terminating"


def _readiness_gates(pod: Object) -> str:
    gates = spec(pod).get("readinessGates") or ()
    if not gates:
        return NONE
    conditions = status(pod).get("conditions")
    passed = sum(condition_status(conditions, gate["conditionType"]) == "True" for gate in gates)
    return f"{passed}/{len(gates)}"


_OUTCOMES = {"Succeeded": "The pod has completed successfully.", "Failed": "The pod failed."}


def pod_conditions(pod: Object) -> list[Object]:
    """Return the row conditions that mark finished pods."""
    phase = status(pod).get("phase")
    if phase not in _OUTCOMES:
        return []
    return [{"type": "Completed", "status": "True", "reason": phase, "message": _OUTCOMES[phase]}]


POD = TableLayout(
    (
        NAME,
        TableColumn("Ready", description="Number of ready containers, and of all containers."),
        TableColumn("Status", description="State of the containers in one word."),
        TableColumn("Restarts", description="Number of container restarts, and the time of the last one."),
        AGE,
        wide("IP", "Address of the pod."),
        wide("Node", "Node that the pod is bound to."),
        wide("Nominated Node", "Node that the scheduler tries first."),
        wide("Readiness Gates", "How many of the extra conditions for readiness hold."),
    ),
    each(_cells),
)
