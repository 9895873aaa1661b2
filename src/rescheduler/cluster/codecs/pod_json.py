"""Decode pods from JSON.

As with protobuf, the parts that pods of a template share are cached by their bytes: the structs below,
encoded again, are equal for all pods of a template. They name only the fields that are needed; the parser
skips all others.

Parts that pods share stay unparsed, as they are looked up by their bytes. Such a `Raw` points into the
page it came from and would keep all of it alive, so it must not outlive the decoding of its pod.
"""

from datetime import datetime
from sys import intern
from typing import Annotated, Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

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
)
from rescheduler.cluster.resource_amounts import Resources
from rescheduler.kube.codecs.codec import epoch_seconds, without_nulls

__all__ = [
    "NO_BYTES",
    "ContainerResourceStatus",
    "ContainerStateFields",
    "ContainerStatusFields",
    "JsonPodReader",
    "PodConditionFields",
    "PodFields",
    "PodResourceStatus",
]

Part = Raw | UnsetType
Moment = Annotated[datetime, msgspec.Meta(tz=True)]
NO_BYTES: Final = Raw(b"")


class JsonFields(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    pass


class PodMetadataFields(JsonFields):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: Moment | None = None
    deletion_timestamp: Moment | None = None
    deletion_grace_period_seconds: int | None = None
    labels: Raw = NO_BYTES
    annotations: dict[str, str] = {}
    owner_references: Raw = NO_BYTES
    finalizers: tuple[str, ...] = ()


class ContainerFields(JsonFields):
    name: str = ""
    image: str = ""
    ports: Part = UNSET
    resources: Part = UNSET
    lifecycle: Part = UNSET
    security_context: Part = UNSET
    restart_policy: str = ""
    restart_policy_rules: Part = UNSET


class PodSpecFields(JsonFields):
    """The spec of a pod. Encoded again without `node_name`, `volumes` and `affinity`, it is the key of its
    shape."""

    node_name: str = ""
    volumes: list[dict[str, Raw]] = []
    """Each entry has the name and the source of a volume."""
    affinity: Raw = NO_BYTES
    containers: list[ContainerFields] = []
    init_containers: list[ContainerFields] = []
    restart_policy: str = ""
    termination_grace_period_seconds: int | None = None
    node_selector: Part = UNSET
    host_network: bool = False
    host_pid: bool = msgspec.field(name="hostPID", default=False)
    host_ipc: bool = msgspec.field(name="hostIPC", default=False)
    security_context: Part = UNSET
    scheduler_name: str = ""
    tolerations: Part = UNSET
    priority_class_name: str = ""
    priority: int = 0
    preemption_policy: str = ""
    readiness_gates: Part = UNSET
    overhead: Part = UNSET
    topology_spread_constraints: Part = UNSET
    host_users: bool | None = None
    scheduling_gates: Part = UNSET
    resource_claims: Part = UNSET
    resources: Part = UNSET
    scheduling_group: Part = UNSET


class PodConditionFields(JsonFields):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: Moment | None = None


class RunningFields(JsonFields):
    pass


class WaitingFields(JsonFields):
    reason: str = ""
    message: str = ""


class TerminatedFields(JsonFields):
    exit_code: int = 0
    signal: int = 0
    reason: str = ""
    started_at: Moment | None = None
    finished_at: Moment | None = None


class ContainerStateFields(JsonFields):
    running: RunningFields | None = None
    waiting: WaitingFields | None = None
    terminated: TerminatedFields | None = None


class ContainerStatusFields(JsonFields):
    name: str = ""
    ready: bool = False
    started: bool | None = None
    restart_count: int = 0
    state: ContainerStateFields | None = None
    last_state: ContainerStateFields | None = None
    allocated_resources: Part = UNSET
    resources: Part = UNSET


class PodStatusFields(JsonFields):
    phase: str = ""
    reason: str = ""
    conditions: list[PodConditionFields] = []
    container_statuses: list[ContainerStatusFields] = []
    init_container_statuses: list[ContainerStatusFields] = []
    start_time: Moment | None = None
    nominated_node_name: str = ""
    resize: str = ""
    allocated_resources: Part = UNSET
    resources: Part = UNSET


class PodFields(JsonFields):
    metadata: PodMetadataFields = msgspec.field(default_factory=PodMetadataFields)
    spec: PodSpecFields = msgspec.field(default_factory=PodSpecFields)
    status: PodStatusFields = msgspec.field(default_factory=PodStatusFields)


class ContainerResourceStatus(JsonFields):
    """The resources of one container in the status."""

    name: str
    allocated_resources: Part = UNSET
    resources: Part = UNSET


class PodResourceStatus(JsonFields):
    """The resources in the status. Encoded, they are part of the key of the pod's requests."""

    container_statuses: list[ContainerResourceStatus] = []
    allocated_resources: Part = UNSET
    resources: Part = UNSET
    conditions: list[PodConditionFields] = []


_decode = msgspec.json.decode
_encode = msgspec.json.Encoder().encode
_decode_pod = msgspec.json.Decoder(PodFields).decode
_decode_labels = msgspec.json.Decoder(dict[str, str]).decode
_decode_owners = msgspec.json.Decoder(tuple[OwnerReference, ...]).decode

_ConditionKey = tuple[str, str, str, str]
"""Type, status, reason and message."""
_NO_NAME = Raw(b'""')
_NO_ANNOTATIONS: dict[str, str] = {}


class JsonPodReader:
    """A reader that caches the parts that pods share; one per process is enough."""

    def __init__(self) -> None:
        self._labels: DecodeCache[bytes, dict[str, str]] = DecodeCache(_labels)
        self._owners: DecodeCache[bytes, tuple[OwnerReference, ...]] = DecodeCache(_owners)
        self._is_kept: DecodeCache[str, bool] = DecodeCache(is_kept_annotation)
        self._conditions: DecodeCache[_ConditionKey, tuple[PodCondition, bool]] = DecodeCache(_untimed)
        self._shapes: DecodeCache[bytes, PodShape] = DecodeCache(_shape)
        self._affinities: DecodeCache[bytes, Affinity] = DecodeCache(_affinity, capacity=PER_NODE_CAPACITY)
        self._sources: DecodeCache[bytes, VolumeSources] = DecodeCache(_sources)
        self._granted: DecodeCache[tuple[bytes, bytes], Resources] = DecodeCache(_requests)

    def record(self, raw: bytes | Raw) -> PodRecord:
        """Return the record; raise `msgspec.DecodeError`, and ValueError for invalid contents."""
        try:
            return self._record(_decode_pod(raw))
        except msgspec.ValidationError:
            # Files written by hand have nulls where the API server leaves a field out.
            return self._record(_decode_pod(_encode(without_nulls(_decode(raw)))))

    def _record(self, pod: PodFields) -> PodRecord:
        meta, spec, status = pod.metadata, pod.spec, pod.status
        namespace, name = intern(meta.namespace), meta.name
        node = intern(spec.node_name)
        affinity = self._affinities[bytes(spec.affinity)]
        volumes = self._volumes(name, spec.volumes)
        # The rest is the same in all pods of a template.
        spec.node_name = ""
        spec.affinity = NO_BYTES
        spec.volumes = []
        template = _encode(spec)
        shape = self._shapes[template]
        resources = _resources_in_status(status)
        return PodRecord(
            f"{namespace}/{name}",
            namespace,
            meta.uid,
            meta.resource_version,
            epoch_seconds(meta.creation_timestamp),
            None if meta.deletion_timestamp is None else epoch_seconds(meta.deletion_timestamp),
            meta.deletion_grace_period_seconds,
            self._labels[bytes(meta.labels)],
            self._kept_annotations(meta.annotations),
            self._owners[bytes(meta.owner_references)],
            meta.finalizers,
            node,
            shape,
            affinity,
            volumes,
            self._granted[template, resources] if resources != _NO_RESOURCES_IN_STATUS else shape.requests,
            intern(status.phase),
            intern(status.reason),
            tuple([self._condition(condition) for condition in status.conditions]),
            tuple(map(_container, status.container_statuses)),
            tuple(map(_container, status.init_container_statuses)),
            None if status.start_time is None else epoch_seconds(status.start_time),
            intern(status.nominated_node_name),
            intern(status.resize),
        )

    def _kept_annotations(self, annotations: dict[str, str]) -> dict[str, str]:
        is_kept = self._is_kept
        return {name: value for name, value in annotations.items() if is_kept[name]} or _NO_ANNOTATIONS

    def _condition(self, form: PodConditionFields) -> PodCondition:
        condition, is_timed = self._conditions[form.type, form.status, form.reason, form.message]
        if not is_timed:
            return condition
        since_s = epoch_seconds(form.last_transition_time)
        return PodCondition(condition.type, condition.status, condition.reason, condition.message, since_s)

    def _volumes(self, pod: str, volumes: list[dict[str, Raw]]) -> tuple[PodVolume, ...]:
        names = [volume.pop("name", _NO_NAME) for volume in volumes]
        sources = self._sources[_encode(volumes)]
        if not sources.has_ephemeral:
            return sources.recorded
        return with_claims_of(pod, sources, [_decode(name, type=str) for name in names])


def _resources_in_status(status: PodStatusFields) -> bytes:
    grants = []
    statuses = (*status.container_statuses, *status.init_container_statuses)
    if any([each.allocated_resources is not UNSET or each.resources is not UNSET for each in statuses]):  # noqa: C419 - runs per pod
        grants = [
            ContainerResourceStatus(each.name, each.allocated_resources, each.resources) for each in statuses
        ]
    pending = [each for each in status.conditions if each.type == "PodResizePending"]
    return _encode(PodResourceStatus(grants, status.allocated_resources, status.resources, pending))


_NO_RESOURCES_IN_STATUS = _encode(PodResourceStatus())


def _container(status: ContainerStatusFields) -> ContainerStatus:
    return ContainerStatus(
        intern(status.name),
        status.ready,
        status.started,
        status.restart_count,
        None if status.state is None else _state(status.state),
        None if status.last_state is None else _state(status.last_state),
    )


_RUNNING = ContainerStateRunning()


def _state(state: ContainerStateFields) -> ContainerState | None:
    if state.running is not None:
        return _RUNNING
    if state.waiting is not None:
        return ContainerStateWaiting(intern(state.waiting.reason), state.waiting.message)
    if state.terminated is not None:
        end = state.terminated
        return ContainerStateTerminated(
            end.exit_code,
            end.signal,
            intern(end.reason),
            epoch_seconds(end.started_at),
            epoch_seconds(end.finished_at),
        )
    return None


# -- decoders whose result depends only on the bytes, so that it can be cached


def _labels(raw: bytes) -> dict[str, str]:
    return {intern(name): intern(value) for name, value in _decode_labels(raw).items()} if raw else {}


def _owners(raw: bytes) -> tuple[OwnerReference, ...]:
    return _decode_owners(raw) if raw else ()


def _untimed(key: _ConditionKey) -> tuple[PodCondition, bool]:
    """Return the condition without its time, and whether its time is kept."""
    kind, status, reason, message = key
    return PodCondition(intern(kind), intern(status), intern(reason), message), keeps_transition_time(
        kind, status
    )


def _shape(template: bytes) -> PodShape:
    return shape_from(_decode(template))


def _affinity(raw: bytes) -> Affinity:
    return affinity_from(_decode(raw) if raw else {})


def _sources(raw: bytes) -> VolumeSources:
    return volume_sources_of(map(volume_from, without_nulls(_decode(raw))))


def _requests(key: tuple[bytes, bytes]) -> Resources:
    template, resources = key
    return requests_from(_decode(template), _decode(resources))
