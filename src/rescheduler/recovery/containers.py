"""What containers tell: signs that their pod can't run here, each with the moment from which on it counts.

Containers don't say since when they are in trouble. What is known is when it was their turn: when the kubelet
took the pod, when the init container before them was done, when they last ended.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import Final, NamedTuple

from rescheduler.config.policy import FailedPods
from rescheduler.model.pods import ContainerStatus, PodRecord, Terminated, Waiting

__all__ = ["Sign", "TroubleKind", "container_signs", "unready_since_s"]


class TroubleKind(StrEnum):
    CRASH_LOOP = "CrashLoop"
    IMAGE_ERROR = "ImageError"
    CREATE_ERROR = "CreateError"
    INIT_FAILURE = "InitFailure"
    STUCK_CREATING = "StuckCreating"
    FAILED = "Failed"
    EVICTED = "Evicted"
    NODE_LOST = "NodeLost"


class Sign(NamedTuple):
    counts_from_s: float
    kind: TroubleKind
    since_s: float
    words: str


_CRASH_LOOP: Final = "CrashLoopBackOff"
_IMAGE_ERRORS: Final = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "ErrImageNeverPull",
        "InvalidImageName",
        "ImageInspectError",
        "RegistryUnavailable",
        "SignatureValidationFailed",
    }
)
_ON_ITS_WAY: Final = frozenset({"", "ContainerCreating", "PodInitializing"})
"""What a container waits for that nothing is wrong with; every other reason is an error."""


def container_signs(pod: PodRecord, terms: FailedPods) -> Iterator[Sign]:
    sidecars = {each.name for each in pod.shape.init_containers if each.restarts_always}
    turn_s, begun = pod.started_s, True
    for status in pod.init_container_statuses:
        if status.name in sidecars:
            yield from _signs(pod, status, turn_s, terms)
        elif isinstance(status.state, Terminated) and status.state.exit_code == 0:
            turn_s = max(turn_s or 0, status.state.finished_s)
        else:
            yield from _init_signs(pod, status, turn_s, terms)
            begun = False
            break
    if begun:
        for status in pod.container_statuses:
            yield from _signs(pod, status, turn_s, terms)
    yield from _creating(pod, turn_s, terms)


def unready_since_s(pod: PodRecord) -> int:
    """0 if it is ready, or nobody knows."""
    ready = pod.condition("Ready")
    return ready.since_s if ready is not None and ready.status != "True" else 0


def _signs(pod: PodRecord, status: ContainerStatus, turn_s: int | None, terms: FailedPods) -> Iterator[Sign]:
    """Of a container that should run as long as its pod does."""
    ended = _crashed(pod, status)
    if ended is not None:
        ran_well = ended.finished_s - ended.started_s >= terms.recovery_window.total_seconds()
        # Restarts are counted over a pod's whole life: the end of a long good run starts no loop.
        if status.restart_count >= terms.restart_threshold and not ran_well:
            since_s = unready_since_s(pod) or ended.finished_s
            yield Sign(since_s, TroubleKind.CRASH_LOOP, since_s, _crash_words(status, ended))
    elif (error := _error(status)) is not None and turn_s is not None:
        yield _lasting(status, error, turn_s, terms)


def _init_signs(
    pod: PodRecord, status: ContainerStatus, turn_s: int | None, terms: FailedPods
) -> Iterator[Sign]:
    """Of the one whose turn it is. It may well fail until something else is there: so both count, how often
    and for how long."""
    if turn_s is None:
        return
    ended = _crashed(pod, status)
    if ended is not None and status.restart_count >= terms.restart_threshold:
        due_s = turn_s + terms.stuck_after.total_seconds()
        yield Sign(due_s, TroubleKind.INIT_FAILURE, turn_s, f"init container {_crash_words(status, ended)}")
    elif ended is None and (error := _error(status)) is not None:
        yield _lasting(status, error, turn_s, terms)


def _lasting(status: ContainerStatus, error: str, turn_s: int, terms: FailedPods) -> Sign:
    kind = TroubleKind.IMAGE_ERROR if error in _IMAGE_ERRORS else TroubleKind.CREATE_ERROR
    last = status.last_state
    since_s = max(turn_s, last.finished_s if isinstance(last, Terminated) else 0)
    return Sign(since_s + terms.stuck_after.total_seconds(), kind, since_s, f"{status.name}: {error}")


def _creating(pod: PodRecord, turn_s: int | None, terms: FailedPods) -> Iterator[Sign]:
    """As long as it has no sandbox: volumes or network don't come. After that it pulls images, which takes as
    long as it takes, or says what is wrong."""
    sandbox = pod.condition("PodReadyToStartContainers")
    statuses = (*pod.init_container_statuses, *pod.container_statuses)
    if turn_s is None or (sandbox is not None and sandbox.status == "True"):
        return
    if all(isinstance(each.state, Waiting) and each.state.reason in _ON_ITS_WAY for each in statuses):
        since_s = max(turn_s, sandbox.since_s if sandbox is not None else 0)
        due_s = since_s + terms.stuck_after.total_seconds()
        yield Sign(due_s, TroubleKind.STUCK_CREATING, since_s, "stuck in ContainerCreating")


def _crashed(pod: PodRecord, status: ContainerStatus) -> Terminated | None:
    """How it last ended, if it is to be started again and is not running yet."""
    state, last = status.state, status.last_state
    if isinstance(state, Waiting) and state.reason == _CRASH_LOOP:
        return last if isinstance(last, Terminated) else Terminated()
    if not isinstance(state, Terminated):
        return None
    policy = pod.shape.restart_policy or "Always"
    restarts = policy == "Always" or (policy == "OnFailure" and state.exit_code != 0)
    return state if restarts else None


def _error(status: ContainerStatus) -> str | None:
    state = status.state
    return state.reason if isinstance(state, Waiting) and state.reason not in _ON_ITS_WAY else None


def _crash_words(status: ContainerStatus, ended: Terminated) -> str:
    how = ended.reason if ended.reason not in {"", "Error", "Completed"} else f"exit code {ended.exit_code}"
    restarts = "1 restart" if status.restart_count == 1 else f"{status.restart_count} restarts"
    return f"{status.name}: {_CRASH_LOOP}, {restarts}, {how}"
