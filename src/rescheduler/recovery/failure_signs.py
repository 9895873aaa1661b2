"""Decide whether a pod fails where it is, by its containers, its phase and its node.

Each failure sign has the time from which on it counts, so that a short problem is no failure. The status of a
container does not say since when it fails. It can start when the kubelet accepted the pod, when the previous
init container succeeded, or when it last ended; failures count from then on.

A pod that is only slow to become ready, that waits for a node, or that has succeeded does not fail.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from rescheduler.cluster.node_record import NodeRecord
from rescheduler.cluster.pod_record import (
    CRASH_LOOP,
    IMAGE_ERRORS,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    PodRecord,
    is_starting,
    waiting_error,
)
from rescheduler.config.policy import FailedPodsPolicy

__all__ = [
    "FailureKind",
    "FailureSign",
    "PodFailure",
    "container_signs",
    "failure_and_next_check",
    "failure_of",
    "next_failure_check_s",
    "unready_since_s",
]


class FailureKind(StrEnum):
    CRASH_LOOP = "CrashLoop"
    IMAGE_ERROR = "ImageError"
    CREATE_ERROR = "CreateError"
    INIT_FAILURE = "InitFailure"
    STUCK_CREATING = "StuckCreating"
    FAILED = "Failed"
    EVICTED = "Evicted"
    NODE_LOST = "NodeLost"


class FailureSign(NamedTuple):
    """A fact that means "can't run here", from `counts_from_s` on."""

    counts_from_s: float
    kind: FailureKind
    since_s: float
    message: str


def container_signs(pod: PodRecord, terms: FailedPodsPolicy) -> Iterator[FailureSign]:
    sidecars = {each.name for each in pod.shape.init_containers if each.restarts_always}
    turn_s, is_initialized = pod.started_s, True
    for status in pod.init_container_statuses:
        if status.name in sidecars:
            yield from _app_container_signs(pod, status, turn_s, terms)
        elif isinstance(status.state, ContainerStateTerminated) and status.state.exit_code == 0:
            turn_s = max(turn_s or 0, status.state.finished_s)
        else:
            yield from _init_container_signs(pod, status, turn_s, terms)
            is_initialized = False
            break
    if is_initialized:
        for status in pod.container_statuses:
            yield from _app_container_signs(pod, status, turn_s, terms)
    yield from _stuck_creating_signs(pod, turn_s, terms)


def unready_since_s(pod: PodRecord) -> int:
    """Return since when the pod is not ready; 0 if it is ready or that is unknown."""
    ready = pod.condition("Ready")
    return ready.since_s if ready is not None and ready.status != "True" else 0


def _app_container_signs(
    pod: PodRecord, status: ContainerStatus, turn_s: int | None, terms: FailedPodsPolicy
) -> Iterator[FailureSign]:
    """Yield the signs of a container that should run as long as its pod."""
    ended = _last_crash(pod, status)
    if ended is not None:
        ran_well = ended.finished_s - ended.started_s >= terms.recovery_window.total_seconds()
        # Restarts are counted over the whole life of a pod: one crash after a long run is no crash loop.
        if status.restart_count >= terms.restart_threshold and not ran_well:
            since_s = unready_since_s(pod) or ended.finished_s
            yield FailureSign(since_s, FailureKind.CRASH_LOOP, since_s, _crash_message(status, ended))
    elif (error := waiting_error(status)) and turn_s is not None:
        yield _lasting_error_sign(status, error, turn_s, terms)


def _init_container_signs(
    pod: PodRecord, status: ContainerStatus, turn_s: int | None, terms: FailedPodsPolicy
) -> Iterator[FailureSign]:
    """Yield the signs of the current init container. It may fail while it waits for another service, so it
    must have failed both often and for long."""
    if turn_s is None:
        return
    ended = _last_crash(pod, status)
    if ended is not None and status.restart_count >= terms.restart_threshold:
        due_s = turn_s + terms.stuck_after.total_seconds()
        yield FailureSign(
            due_s, FailureKind.INIT_FAILURE, turn_s, f"init container {_crash_message(status, ended)}"
        )
    elif ended is None and (error := waiting_error(status)):
        yield _lasting_error_sign(status, error, turn_s, terms)


def _lasting_error_sign(
    status: ContainerStatus, error: str, turn_s: int, terms: FailedPodsPolicy
) -> FailureSign:
    kind = FailureKind.IMAGE_ERROR if error in IMAGE_ERRORS else FailureKind.CREATE_ERROR
    last = status.last_state
    since_s = max(turn_s, last.finished_s if isinstance(last, ContainerStateTerminated) else 0)
    return FailureSign(since_s + terms.stuck_after.total_seconds(), kind, since_s, f"{status.name}: {error}")


def _stuck_creating_signs(
    pod: PodRecord, turn_s: int | None, terms: FailedPodsPolicy
) -> Iterator[FailureSign]:
    """Yield a sign if the pod has had no sandbox for long, because a volume or its network is missing. With a
    sandbox, it pulls images, which may take any time, or its containers have a waiting reason."""
    sandbox = pod.condition("PodReadyToStartContainers")
    statuses = (*pod.init_container_statuses, *pod.container_statuses)
    if turn_s is None or (sandbox is not None and sandbox.status == "True"):
        return
    if all(map(is_starting, statuses)):
        since_s = max(turn_s, sandbox.since_s if sandbox is not None else 0)
        due_s = since_s + terms.stuck_after.total_seconds()
        yield FailureSign(due_s, FailureKind.STUCK_CREATING, since_s, "stuck in ContainerCreating")


def _last_crash(pod: PodRecord, status: ContainerStatus) -> ContainerStateTerminated | None:
    """Return how the container last ended, if the kubelet is about to restart it."""
    state, last = status.state, status.last_state
    if isinstance(state, ContainerStateWaiting) and state.reason == CRASH_LOOP:
        return last if isinstance(last, ContainerStateTerminated) else ContainerStateTerminated()
    if not isinstance(state, ContainerStateTerminated):
        return None
    policy = pod.shape.restart_policy or "Always"
    restarts = policy == "Always" or (policy == "OnFailure" and state.exit_code != 0)
    return state if restarts else None


def _crash_message(status: ContainerStatus, ended: ContainerStateTerminated) -> str:
    how = ended.reason if ended.reason not in {"", "Error", "Completed"} else f"exit code {ended.exit_code}"
    restarts = "1 restart" if status.restart_count == 1 else f"{status.restart_count} restarts"
    return f"{status.name}: {CRASH_LOOP}, {restarts}, {how}"


@dataclass(frozen=True, slots=True)
class PodFailure:
    """Why a pod can't run where it is."""

    kind: FailureKind
    since_s: float
    message: str
    """The failure in words, such as "app: CrashLoopBackOff, 5 restarts, exit code 1"."""


def failure_of(
    pod: PodRecord, node: NodeRecord | None, terms: FailedPodsPolicy, now_s: float
) -> PodFailure | None:
    """Return the failure of a pod; None if it does not fail, or not for long enough.

    `node` is the one that the pod is bound to, None if it does not exist."""
    return failure_and_next_check(pod, node, terms, now_s)[0]


def next_failure_check_s(
    pod: PodRecord, node: NodeRecord | None, terms: FailedPodsPolicy, now_s: float
) -> float | None:
    """Return when the next sign counts if nothing changes; None if there is none."""
    return failure_and_next_check(pod, node, terms, now_s)[1]


def failure_and_next_check(
    pod: PodRecord, node: NodeRecord | None, terms: FailedPodsPolicy, now_s: float
) -> tuple[PodFailure | None, float | None]:
    """Return the results of `failure_of` and `next_failure_check_s`, which share most of their work."""
    signs = list(_pod_signs(pod, node, terms, now_s))
    counting = (
        PodFailure(each.kind, each.since_s, each.message) for each in signs if each.counts_from_s <= now_s
    )
    to_come = (each.counts_from_s for each in signs if each.counts_from_s > now_s)
    return next(counting, None), min(to_come, default=None)


def _pod_signs(
    pod: PodRecord, node: NodeRecord | None, terms: FailedPodsPolicy, now_s: float
) -> Iterator[FailureSign]:
    if not pod.node or pod.phase == "Succeeded":
        return
    if pod.phase == "Failed":
        if not pod.is_terminating:
            yield from _failed_phase_signs(pod, terms, now_s)
    elif node is None or not node.is_ready:
        # The container statuses are outdated: only the node counts.
        yield from _lost_node_signs(pod, node, terms)
    elif not pod.is_ready and not pod.is_terminating:
        yield from container_signs(pod, terms)


def _failed_phase_signs(pod: PodRecord, terms: FailedPodsPolicy, now_s: float) -> Iterator[FailureSign]:
    since_s = _ended_s(pod)
    # Failed pods that were replaced remain for long. Old ones must not use up attempts.
    if pod.owner is None or now_s - since_s < terms.recovery_window.total_seconds():
        kind = FailureKind.EVICTED if pod.reason == "Evicted" else FailureKind.FAILED
        why = pod.reason if pod.reason not in {"", "Failed"} else _exit_code_message(pod)
        message = "evicted by the kubelet" if why == "Evicted" else f"failed: {why}".removesuffix(": ")
        yield FailureSign(since_s, kind, since_s, message)


def _lost_node_signs(
    pod: PodRecord, node: NodeRecord | None, terms: FailedPodsPolicy
) -> Iterator[FailureSign]:
    if node is None:
        # A pod that no kubelet has accepted yet may be on a node that is not in the cache yet.
        since_s, state = max(unready_since_s(pod), pod.started_s) if pod.started_s else 0, "gone"
    else:
        ready = node.condition("Ready")
        since_s = ready.since_s if ready is not None else 0
        state = "not Ready" if ready is not None and ready.status == "False" else "unreachable"
    if since_s:
        # A terminating pod may still stop by itself within its grace period.
        due_s = max(since_s + terms.node_lost_after.total_seconds(), pod.deleted_s or 0)
        yield FailureSign(due_s, FailureKind.NODE_LOST, since_s, f"node {pod.node} is {state}")


def _ended_s(pod: PodRecord) -> int:
    """Return the latest time at which the pod may have failed; its replacement was created later."""
    statuses = (*pod.init_container_statuses, *pod.container_statuses)
    ends = (each.state.finished_s for each in statuses if isinstance(each.state, ContainerStateTerminated))
    return max((unready_since_s(pod), *ends)) or pod.started_s or pod.created_s


def _exit_code_message(pod: PodRecord) -> str:
    for each in (*pod.init_container_statuses, *pod.container_statuses):
        if isinstance(each.state, ContainerStateTerminated) and each.state.exit_code:
            return f"{each.name}: exit code {each.state.exit_code}"
    return ""
