"""Pods from JSON.

As with protobuf, what a template gives to its pods is found by its bytes: the forms of pod_forms.py,
encoded again, are the same for every pod of a template.
"""

from sys import intern

import msgspec
from msgspec import UNSET, Raw

from rescheduler.kube.wire import pod_forms as forms
from rescheduler.kube.wire.memo import PER_NODE, Memo
from rescheduler.kube.wire.moments import seconds
from rescheduler.kube.wire.nulls import without_nulls
from rescheduler.kube.wire.shapes import affinity_from, requests_from, shape_from
from rescheduler.kube.wire.volume_sources import Sources, sources_of, volume_from, with_claims_of
from rescheduler.model.constraints import Affinity
from rescheduler.model.metadata import Owner, is_mark
from rescheduler.model.pods import (
    ContainerState,
    ContainerStatus,
    PodCondition,
    PodRecord,
    PodShape,
    Running,
    Terminated,
    Waiting,
    keeps_time,
)
from rescheduler.model.resources import Resources
from rescheduler.model.volumes import Volume

__all__ = ["PodsFromJson"]

_decode = msgspec.json.decode
_encode = msgspec.json.Encoder().encode
_decode_pod = msgspec.json.Decoder(forms.Pod).decode
_decode_labels = msgspec.json.Decoder(dict[str, str]).decode
_decode_owners = msgspec.json.Decoder(tuple[Owner, ...]).decode

_ConditionKey = tuple[str, str, str, str]
"""Type, status, reason and message."""
_NO_NAME = Raw(b'""')
_NO_MARKS: dict[str, str] = {}


class PodsFromJson:
    """Holds what pods share; one per process is enough."""

    def __init__(self) -> None:
        self._labels: Memo[bytes, dict[str, str]] = Memo(_labels)
        self._owners: Memo[bytes, tuple[Owner, ...]] = Memo(_owners)
        self._marks: Memo[str, bool] = Memo(is_mark)
        self._conditions: Memo[_ConditionKey, tuple[PodCondition, bool]] = Memo(_untimed)
        self._shapes: Memo[bytes, PodShape] = Memo(_shape)
        self._affinities: Memo[bytes, Affinity] = Memo(_affinity, capacity=PER_NODE)
        self._sources: Memo[bytes, Sources] = Memo(_sources)
        self._granted: Memo[tuple[bytes, bytes], Resources] = Memo(_requests)

    def record(self, raw: bytes | Raw) -> PodRecord:
        """Raises `msgspec.DecodeError`, and ValueError for contents that make no sense."""
        try:
            return self._record(_decode_pod(raw))
        except msgspec.ValidationError:
            # Files written by hand have nulls where the API server leaves a field out.
            return self._record(_decode_pod(_encode(without_nulls(_decode(raw)))))

    def _record(self, pod: forms.Pod) -> PodRecord:
        meta, spec, status = pod.metadata, pod.spec, pod.status
        namespace, name = intern(meta.namespace), meta.name
        node = intern(spec.node_name)
        affinity = self._affinities[bytes(spec.affinity)]
        volumes = self._volumes(name, spec.volumes)
        # What is left is the same in all pods of a template.
        spec.node_name = ""
        spec.affinity = forms.NOTHING
        spec.volumes = []
        template = _encode(spec)
        shape = self._shapes[template]
        told = _told(status)
        return PodRecord(
            f"{namespace}/{name}",
            namespace,
            meta.uid,
            meta.resource_version,
            seconds(meta.creation_timestamp),
            None if meta.deletion_timestamp is None else seconds(meta.deletion_timestamp),
            meta.deletion_grace_period_seconds,
            self._labels[bytes(meta.labels)],
            self._marks_in(meta.annotations),
            self._owners[bytes(meta.owner_references)],
            meta.finalizers,
            node,
            shape,
            affinity,
            volumes,
            self._granted[template, told] if told != _TOLD_NOTHING else shape.requests,
            intern(status.phase),
            intern(status.reason),
            tuple([self._condition(condition) for condition in status.conditions]),
            tuple(map(_container, status.container_statuses)),
            tuple(map(_container, status.init_container_statuses)),
            None if status.start_time is None else seconds(status.start_time),
            intern(status.nominated_node_name),
            intern(status.resize),
        )

    def _marks_in(self, annotations: dict[str, str]) -> dict[str, str]:
        marks = self._marks
        return {name: value for name, value in annotations.items() if marks[name]} or _NO_MARKS

    def _condition(self, form: forms.Condition) -> PodCondition:
        condition, is_timed = self._conditions[form.type, form.status, form.reason, form.message]
        if not is_timed:
            return condition
        since_s = seconds(form.last_transition_time)
        return PodCondition(condition.type, condition.status, condition.reason, condition.message, since_s)

    def _volumes(self, pod: str, volumes: list[dict[str, Raw]]) -> tuple[Volume, ...]:
        names = [volume.pop("name", _NO_NAME) for volume in volumes]
        sources = self._sources[_encode(volumes)]
        if not sources.has_ephemeral:
            return sources.recorded
        return with_claims_of(pod, sources, [_decode(name, type=str) for name in names])


def _told(status: forms.StatusForm) -> bytes:
    grants = []
    statuses = (*status.container_statuses, *status.init_container_statuses)
    if any([each.allocated_resources is not UNSET or each.resources is not UNSET for each in statuses]):  # noqa: C419 - runs per pod
        grants = [forms.Grant(each.name, each.allocated_resources, each.resources) for each in statuses]
    pending = [each for each in status.conditions if each.type == "PodResizePending"]
    return _encode(forms.Told(grants, status.allocated_resources, status.resources, pending))


_TOLD_NOTHING = _encode(forms.Told())


def _container(status: forms.ContainerStatusForm) -> ContainerStatus:
    return ContainerStatus(
        intern(status.name),
        status.ready,
        status.started,
        status.restart_count,
        None if status.state is None else _state(status.state),
        None if status.last_state is None else _state(status.last_state),
    )


def _state(state: forms.State) -> ContainerState | None:
    if state.running is not None:
        return Running(seconds(state.running.started_at))
    if state.waiting is not None:
        return Waiting(intern(state.waiting.reason), state.waiting.message)
    if state.terminated is not None:
        end = state.terminated
        return Terminated(
            end.exit_code, end.signal, intern(end.reason), seconds(end.started_at), seconds(end.finished_at)
        )
    return None


# -- each is a function of its bytes alone, so that it may be remembered


def _labels(raw: bytes) -> dict[str, str]:
    return {intern(name): intern(value) for name, value in _decode_labels(raw).items()} if raw else {}


def _owners(raw: bytes) -> tuple[Owner, ...]:
    return _decode_owners(raw) if raw else ()


def _untimed(key: _ConditionKey) -> tuple[PodCondition, bool]:
    """The condition at no time in particular, and whether its time is kept."""
    kind, status, reason, message = key
    return PodCondition(intern(kind), intern(status), intern(reason), message), keeps_time(kind, status)


def _shape(template: bytes) -> PodShape:
    return shape_from(_decode(template))


def _affinity(raw: bytes) -> Affinity:
    return affinity_from(_decode(raw) if raw else {})


def _sources(raw: bytes) -> Sources:
    return sources_of(map(volume_from, without_nulls(_decode(raw))))


def _requests(key: tuple[bytes, bytes]) -> Resources:
    template, told = key
    return requests_from(_decode(template), _decode(told))
