"""The status of a pod from protobuf: what pods share of it, and the times that are their own."""

from collections.abc import Iterable
from sys import intern
from typing import NamedTuple

from rescheduler.cluster.pod_record import (
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    PodCondition,
    keeps_transition_time,
    resize_is_infeasible,
)
from rescheduler.kube.codecs import pods_pb2, views_pb2

__all__ = ["SharedPodStatus", "containers_at", "shared_pod_status"]


class SharedPodStatus(NamedTuple):
    """A status at no time in particular: every time in it is 0."""

    phase: str
    reason: str
    nominated_node: str
    resize: str
    conditions: tuple[PodCondition, ...]
    timed: tuple[int, ...]
    """Positions of the conditions whose time is kept."""
    containers: tuple[ContainerStatus, ...]
    init_containers: tuple[ContainerStatus, ...]
    tells_resources: bool
    """Something in it may make the pod count for other resources than its spec says."""


def shared_pod_status(raw: bytes) -> SharedPodStatus:
    status = pods_pb2.PodStatus.FromString(raw)
    conditions = tuple(
        PodCondition(intern(each.type), intern(each.status), intern(each.reason), each.message)
        for each in status.conditions
    )
    of_containers = (*status.containerStatuses, *status.initContainerStatuses)
    return SharedPodStatus(
        phase=intern(status.phase),
        reason=intern(status.reason),
        nominated_node=intern(status.nominatedNodeName),
        resize=intern(status.resize),
        conditions=conditions,
        timed=tuple(n for n, each in enumerate(conditions) if keeps_transition_time(each.type, each.status)),
        containers=tuple(map(_container, status.containerStatuses)),
        init_containers=tuple(map(_container, status.initContainerStatuses)),
        tells_resources=resize_is_infeasible(conditions)
        or bool(status.allocatedResources)
        or status.HasField("resources")
        or any(each.allocatedResources or each.HasField("resources") for each in of_containers),
    )


def _container(status: pods_pb2.ContainerStatus) -> ContainerStatus:
    return ContainerStatus(
        intern(status.name),
        status.ready,
        status.started if status.HasField("started") else None,
        status.restartCount,
        _state(status.state),
        _state(status.lastState),
    )


def _state(state: pods_pb2.ContainerState) -> ContainerState | None:
    if state.HasField("running"):
        return ContainerStateRunning()
    if state.HasField("waiting"):
        return ContainerStateWaiting(intern(state.waiting.reason), state.waiting.message)
    if state.HasField("terminated"):
        end = state.terminated
        return ContainerStateTerminated(end.exitCode, end.signal, intern(end.reason))
    return None


def conditions_at(status: SharedPodStatus, times: views_pb2.OwnTimes) -> tuple[PodCondition, ...]:
    """The same conditions with their own times."""
    conditions, own = list(status.conditions), times.conditions
    for n in status.timed:
        each = conditions[n]
        since = own[n].lastTransitionTime.seconds
        conditions[n] = PodCondition(each.type, each.status, each.reason, each.message, since)
    return tuple(conditions)


def containers_at(
    containers: tuple[ContainerStatus, ...], times: Iterable[views_pb2.OwnContainerTimes]
) -> tuple[ContainerStatus, ...]:
    """The same containers with their own times."""
    return tuple(
        [
            ContainerStatus(
                status.name,
                status.ready,
                status.started,
                status.restart_count,
                status.state and _state_at(status.state, own.state),
                status.last_state and _state_at(status.last_state, own.lastState),
            )
            for status, own in zip(containers, times, strict=True)
        ]
    )


def _state_at(state: ContainerState, times: views_pb2.OwnStateTimes) -> ContainerState:
    if isinstance(state, ContainerStateRunning):
        return ContainerStateRunning(times.running.startedAt.seconds)
    if isinstance(state, ContainerStateTerminated):
        end = times.terminated
        return ContainerStateTerminated(
            state.exit_code, state.signal, state.reason, end.startedAt.seconds, end.finishedAt.seconds
        )
    return state
