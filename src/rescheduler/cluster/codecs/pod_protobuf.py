"""Decode pods from protobuf, with the message views of views.proto.

Python handles only what differs between pods, because each access costs as much as parsing half a pod; the
rest is cached by its bytes. Several pods are parsed in one call, which halves the cost per pod.
"""

from collections.abc import Iterable, Sequence
from sys import intern
from typing import NamedTuple

from rescheduler.cluster.codecs.pod_spec_codec import (
    PER_NODE_CAPACITY,
    DecodeCache,
    VolumeSources,
    affinity_from,
    requests_from,
    shape_from,
    volume_from,
    volume_sources_of,
    with_claims_of,
)
from rescheduler.cluster.object_meta import OwnerReference, is_kept_annotation
from rescheduler.cluster.pod_constraints import Affinity
from rescheduler.cluster.pod_record import (
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    PodCondition,
    PodRecord,
    PodShape,
    PodVolume,
    keeps_transition_time,
    resize_is_infeasible,
)
from rescheduler.cluster.resource_amounts import Resources
from rescheduler.kube.codecs import api_pb2, views_pb2
from rescheduler.kube.codecs.codec import LATEST_S, epoch_seconds
from rescheduler.kube.codecs.protobuf_codec import builtins_of

__all__ = [
    "ProtobufPodReader",
    "SharedMetadataReader",
    "SharedPodMetadata",
    "SharedPodStatus",
    "containers_at",
    "shared_pod_status",
]


class SharedPodStatus(NamedTuple):
    """A status without times, so that pods can share it: every time in it is 0."""

    phase: str
    reason: str
    nominated_node: str
    resize: str
    conditions: tuple[PodCondition, ...]
    timed: tuple[int, ...]
    """Positions of the conditions whose time is kept."""
    containers: tuple[ContainerStatus, ...]
    init_containers: tuple[ContainerStatus, ...]
    has_ended_containers: bool
    """Whether a container has ended, whose times differ from pod to pod."""
    has_resources: bool
    """Whether the status may change which resources the pod counts for."""


def shared_pod_status(raw: bytes) -> SharedPodStatus:
    status = api_pb2.PodStatus.FromString(raw)
    conditions = tuple(
        PodCondition(intern(each.type), intern(each.status), intern(each.reason), each.message)
        for each in status.conditions
    )
    of_containers = (*status.containerStatuses, *status.initContainerStatuses)
    ends = (end for each in of_containers for end in (each.state, each.lastState))
    return SharedPodStatus(
        phase=intern(status.phase),
        reason=intern(status.reason),
        nominated_node=intern(status.nominatedNodeName),
        resize=intern(status.resize),
        conditions=conditions,
        timed=tuple(n for n, each in enumerate(conditions) if keeps_transition_time(each.type, each.status)),
        containers=tuple(map(_container, status.containerStatuses)),
        init_containers=tuple(map(_container, status.initContainerStatuses)),
        has_ended_containers=any(end.HasField("terminated") for end in ends),
        has_resources=resize_is_infeasible(conditions)
        or bool(status.allocatedResources)
        or status.HasField("resources")
        or any(each.allocatedResources or each.HasField("resources") for each in of_containers),
    )


def _container(status: api_pb2.ContainerStatus) -> ContainerStatus:
    return ContainerStatus(
        intern(status.name),
        status.ready,
        status.started if status.HasField("started") else None,
        status.restartCount,
        _state(status.state),
        _state(status.lastState),
    )


def _state(state: api_pb2.ContainerState) -> ContainerState | None:
    if state.HasField("running"):
        return ContainerStateRunning()
    if state.HasField("waiting"):
        return ContainerStateWaiting(intern(state.waiting.reason), state.waiting.message)
    if state.HasField("terminated"):
        end = state.terminated
        return ContainerStateTerminated(end.exitCode, end.signal, intern(end.reason))
    return None


def conditions_at(status: SharedPodStatus, times: views_pb2.OwnTimes) -> tuple[PodCondition, ...]:
    """Return the same conditions with their own times."""
    conditions, own = list(status.conditions), times.conditions
    for n in status.timed:
        each = conditions[n]
        since = own[n].lastTransitionTime.seconds
        if not 0 <= since <= LATEST_S:
            since = epoch_seconds(since)
        conditions[n] = PodCondition(each.type, each.status, each.reason, each.message, since)
    return tuple(conditions)


def containers_at(
    containers: tuple[ContainerStatus, ...], times: Iterable[views_pb2.OwnContainerTimes]
) -> tuple[ContainerStatus, ...]:
    """Return the same containers with their own times."""
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
    if isinstance(state, ContainerStateTerminated):
        end = times.terminated
        return ContainerStateTerminated(
            state.exit_code,
            state.signal,
            state.reason,
            epoch_seconds(end.startedAt.seconds),
            epoch_seconds(end.finishedAt.seconds),
        )
    return state


class SharedPodMetadata(NamedTuple):
    namespace: str
    labels: dict[str, str]
    owners: tuple[OwnerReference, ...]
    finalizers: tuple[str, ...]
    has_kept_annotations: bool
    deleted_s: int | None
    deletion_grace_s: int | None


class SharedMetadataReader:
    """A reader that decodes labels one by one, because each pod of a StatefulSet has two of its own."""

    def __init__(self) -> None:
        self._labels: DecodeCache[bytes, tuple[str, str]] = DecodeCache(_label)
        self._owners: DecodeCache[bytes, OwnerReference] = DecodeCache(_owner)
        self._is_kept: DecodeCache[str, bool] = DecodeCache(is_kept_annotation)

    def part(self, raw: bytes) -> SharedPodMetadata:
        meta = views_pb2.SharedMeta.FromString(raw)
        is_deleted = meta.HasField("deletionTimestamp")
        has_grace = meta.HasField("deletionGracePeriodSeconds")
        return SharedPodMetadata(
            namespace=intern(meta.namespace),
            labels=dict([self._labels[label] for label in meta.labels]),
            owners=tuple([self._owners[owner] for owner in meta.ownerReferences]),
            finalizers=tuple(meta.finalizers),
            has_kept_annotations=any(self._is_kept[annotation.key] for annotation in meta.annotations),
            deleted_s=api_pb2.Time.FromString(meta.deletionTimestamp).seconds if is_deleted else None,
            deletion_grace_s=meta.deletionGracePeriodSeconds if has_grace else None,
        )


def _label(raw: bytes) -> tuple[str, str]:
    entry = views_pb2.StringEntry.FromString(raw)
    return intern(entry.key), intern(entry.value)


def _owner(raw: bytes) -> OwnerReference:
    owner = api_pb2.OwnerReference.FromString(raw)
    return OwnerReference(
        intern(owner.kind), intern(owner.name), owner.uid, intern(owner.apiVersion), owner.controller
    )


_NO_ANNOTATIONS: dict[str, str] = {}


class SharedPodParts(NamedTuple):
    """Everything that a pod shares with similar pods."""

    meta: SharedPodMetadata
    shape: PodShape
    sources: VolumeSources
    status: SharedPodStatus
    requests: Resources
    needs_full_decode: bool
    """Whether the pod has annotations that are kept or ephemeral volumes, which neither view decodes."""


class ProtobufPodReader:
    """A reader that caches the parts that pods share; one per process is enough."""

    def __init__(self) -> None:
        self._parts: DecodeCache[bytes, SharedPodParts] = DecodeCache(self._part)
        self._affinities: DecodeCache[bytes, Affinity] = DecodeCache(_affinity, capacity=PER_NODE_CAPACITY)
        # These are used only for pods that differ from all earlier pods.
        self._metas: DecodeCache[bytes, SharedPodMetadata] = DecodeCache(SharedMetadataReader().part)
        self._specs: DecodeCache[bytes, tuple[PodShape, VolumeSources]] = DecodeCache(self._spec)
        self._shapes: DecodeCache[bytes, PodShape] = DecodeCache(_shape)
        self._volumes: DecodeCache[bytes, PodVolume | None] = DecodeCache(_volume)
        self._statuses: DecodeCache[bytes, SharedPodStatus] = DecodeCache(shared_pod_status)
        self._granted: DecodeCache[tuple[bytes, bytes], Resources] = DecodeCache(_requests)

    def records(self, items: bytes) -> list[PodRecord]:
        """Decode consecutive items of a list, each preceded by its tag and length.

        Raises protobuf's `DecodeError`, and ValueError for invalid contents.
        """
        shared = views_pb2.SharedPods.FromString(items)
        shared.DiscardUnknownFields()
        parts, affinities = self._parts, self._affinities
        in_full: Sequence[api_pb2.Pod] = ()
        found: list[PodRecord] = []
        for own, common in zip(views_pb2.OwnPods.FromString(items).items, shared.items, strict=True):
            meta, shape, sources, status, requests, needs_full_decode = parts[common.SerializeToString()]
            identity, spec, times = own.metadata, own.spec, own.status
            volumes, kept = sources.recorded, _NO_ANNOTATIONS
            if needs_full_decode:
                in_full = in_full or api_pb2.PodList.FromString(items).items
                volumes, kept = _read_in_full(in_full[len(found)], sources)
            containers, init_containers = status.containers, status.init_containers
            if status.has_ended_containers:
                containers = containers_at(containers, times.containerStatuses)
                init_containers = containers_at(init_containers, times.initContainerStatuses)
            started_s: int | None = (seconds := times.startTime.seconds)
            if not 0 < seconds <= LATEST_S:  # most are in that range, and a call costs more than this
                started_s = epoch_seconds(seconds) if times.HasField("startTime") else None
            found.append(
                PodRecord(
                    f"{meta.namespace}/{identity.name}",
                    meta.namespace,
                    identity.uid,
                    identity.resourceVersion,
                    identity.creationTimestamp.seconds,
                    meta.deleted_s,
                    meta.deletion_grace_s,
                    meta.labels,
                    kept,
                    meta.owners,
                    meta.finalizers,
                    intern(spec.nodeName),
                    shape,
                    affinities[spec.affinity],
                    volumes,
                    requests,
                    status.phase,
                    status.reason,
                    conditions_at(status, times) if status.timed else status.conditions,
                    containers,
                    init_containers,
                    started_s,
                    status.nominated_node,
                    status.resize,
                )
            )
        return found

    def _part(self, raw: bytes) -> SharedPodParts:
        pod = views_pb2.SharedPod.FromString(raw)
        meta = self._metas[pod.metadata.SerializeToString()]
        template, encoded_status = pod.spec.SerializeToString(), pod.status.SerializeToString()
        shape, sources = self._specs[template]
        status = self._statuses[encoded_status]
        requests = self._granted[template, encoded_status] if status.has_resources else shape.requests
        return SharedPodParts(
            meta, shape, sources, status, requests, meta.has_kept_annotations or sources.has_ephemeral
        )

    def _spec(self, raw: bytes) -> tuple[PodShape, VolumeSources]:
        spec = views_pb2.SharedSpec.FromString(raw)
        sources = volume_sources_of([self._volumes[volume.volumeSource] for volume in spec.volumes])
        # Without volumes, all pods of a StatefulSet have one shape, too.
        spec.ClearField("volumes")
        return self._shapes[spec.SerializeToString()], sources


def _read_in_full(pod: api_pb2.Pod, sources: VolumeSources) -> tuple[tuple[PodVolume, ...], dict[str, str]]:
    names = [volume.name for volume in pod.spec.volumes]
    annotations = pod.metadata.annotations
    kept = {name: annotations[name] for name in annotations if is_kept_annotation(name)}
    return with_claims_of(pod.metadata.name, sources, names), kept or _NO_ANNOTATIONS


# -- decoders whose result depends only on the bytes, so that it can be cached


def _shape(template: bytes) -> PodShape:
    return shape_from(builtins_of(api_pb2.PodSpec.FromString(template)))


def _volume(source: bytes) -> PodVolume | None:
    return volume_from(builtins_of(api_pb2.VolumeSource.FromString(source)))


def _affinity(raw: bytes) -> Affinity:
    return affinity_from(builtins_of(api_pb2.Affinity.FromString(raw)))


def _requests(key: tuple[bytes, bytes]) -> Resources:
    template, status = key
    return requests_from(
        builtins_of(api_pb2.PodSpec.FromString(template)),
        builtins_of(api_pb2.PodStatus.FromString(status)),
    )
