"""The conditions of a pod, derived from its container statuses; conditions of other writers are kept."""

from datetime import datetime
from typing import NamedTuple

from kubesim.apiserver.api_messages import Object
from kubesim.common_fields import format_timestamp

__all__ = ["TERMINAL", "ConditionVerdict", "conditions"]

TERMINAL = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}
"""The final phases of a pod, and the reason of its conditions in each."""


class ConditionVerdict(NamedTuple):
    holds: bool
    reason: str = ""
    message: str = ""


def conditions(pod: Object, status: Object, now: datetime) -> list[Object]:
    """Return the conditions for a new status, which still has the old conditions."""
    kept: dict[str, Object] = {each["type"]: each for each in status.get("conditions") or ()}
    ready_containers = _containers_ready(pod, status)
    verdicts = {
        "PodReadyToStartContainers": ConditionVerdict(
            status["phase"] not in TERMINAL and bool(status.get("podIP")),
        ),
        "Initialized": _initialized(pod, status),
        "Ready": _ready(pod, kept, ready_containers),
        "ContainersReady": ready_containers,
    }
    generation = pod["metadata"].get("generation")
    for name, verdict in verdicts.items():
        kept[name] = _condition(name, verdict, kept.get(name), generation, now)
    return list(kept.values())


def _condition(
    name: str, verdict: ConditionVerdict, before: Object | None, generation: int | None, now: datetime
) -> Object:
    status = "True" if verdict.holds else "False"
    since: str | None = format_timestamp(now)
    if before and before["status"] == status:
        since = before.get("lastTransitionTime")  # kept even if it is not set, as a kubelet does
    made: Object = {
        "type": name,
        "status": status,
        "lastProbeTime": None,
        "lastTransitionTime": since,
    }
    if verdict.reason:
        made["reason"] = verdict.reason
    if verdict.message:
        made["message"] = verdict.message
    if generation:
        made["observedGeneration"] = generation
    return made


def _initialized(pod: Object, status: Object) -> ConditionVerdict:
    if status["phase"] == "Succeeded":
        return ConditionVerdict(True, TERMINAL["Succeeded"])
    started = any("waiting" not in each["state"] or each["lastState"] for each in status["containerStatuses"])
    incomplete = [
        each["name"]
        for spec, each in zip(
            pod["spec"].get("initContainers") or (), status.get("initContainerStatuses") or (), strict=True
        )
        if not (each["started"] if spec.get("restartPolicy") == "Always" else each["ready"])
    ]
    if started or not incomplete:
        return ConditionVerdict(True)
    names = " ".join(incomplete)
    return ConditionVerdict(
        False, "ContainersNotInitialized", f"containers with incomplete status: [{names}]"
    )


def _containers_ready(pod: Object, status: Object) -> ConditionVerdict:
    if status["phase"] in TERMINAL:
        return ConditionVerdict(False, TERMINAL[status["phase"]])
    sidecars = {
        spec["name"]
        for spec in pod["spec"].get("initContainers") or ()
        if spec.get("restartPolicy") == "Always"
    }
    asked = [each for each in status.get("initContainerStatuses") or () if each["name"] in sidecars]
    unready = [each["name"] for each in [*asked, *status["containerStatuses"]] if not each["ready"]]
    if unready:
        return ConditionVerdict(
            False, "ContainersNotReady", f"containers with unready status: [{' '.join(unready)}]"
        )
    return ConditionVerdict(True)


def _ready(pod: Object, known: dict[str, Object], containers: ConditionVerdict) -> ConditionVerdict:
    if not containers.holds:
        return containers
    closed = []
    for gate in pod["spec"].get("readinessGates") or ():
        name = gate["conditionType"]
        if name not in known:
            closed.append(f'corresponding condition of pod readiness gate "{name}" does not exist.')
        elif known[name]["status"] != "True":
            state = known[name]["status"]
            closed.append(f'the status of pod readiness gate "{name}" is not "True", but {state}')
    if closed:
        return ConditionVerdict(False, "ReadinessGatesNotReady", ", ".join(closed))
    return ConditionVerdict(True)
