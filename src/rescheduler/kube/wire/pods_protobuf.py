"""Pods from protobuf, by the views of views.proto.

Only what differs from pod to pod is looked at in Python, because each look costs as much as parsing half the
pod does; all else is found by its bytes. Several pods are parsed in one go, which halves the cost of each.
"""

from collections.abc import Sequence
from itertools import count
from sys import intern
from typing import NamedTuple

from rescheduler.kube.wire import pods_pb2, views_pb2
from rescheduler.kube.wire.builtins_of import builtins_of
from rescheduler.kube.wire.memo import PER_NODE, Memo
from rescheduler.kube.wire.meta_protobuf import MetaPart, Metas
from rescheduler.kube.wire.shapes import affinity_from, requests_from, shape_from
from rescheduler.kube.wire.status_protobuf import StatusPart, conditions_at, containers_at, status_part
from rescheduler.kube.wire.volume_sources import Sources, sources_of, volume_from, with_claims_of
from rescheduler.model.constraints import Affinity
from rescheduler.model.metadata import is_mark
from rescheduler.model.pods import PodRecord, PodShape
from rescheduler.model.resources import Resources
from rescheduler.model.volumes import Volume

__all__ = ["PodsFromProtobuf"]

_NO_MARKS: dict[str, str] = {}


class PodPart(NamedTuple):
    """All that a pod shares with its like."""

    meta: MetaPart
    shape: PodShape
    sources: Sources
    status: StatusPart
    requests: Resources
    needs_full_look: bool
    """It has marks or ephemeral volumes, which neither view sees."""


class PodsFromProtobuf:
    """Holds what pods share; one per process is enough."""

    def __init__(self) -> None:
        self._parts: Memo[bytes, PodPart] = Memo(self._part)
        self._affinities: Memo[bytes, Affinity] = Memo(_affinity, capacity=PER_NODE)
        # What follows is asked only for pods that are not quite like one seen before.
        self._metas: Memo[bytes, MetaPart] = Memo(Metas().part)
        self._shapes: Memo[bytes, PodShape] = Memo(_shape)
        self._volumes: Memo[bytes, Volume | None] = Memo(_volume)
        self._statuses: Memo[bytes, StatusPart] = Memo(status_part)
        self._granted: Memo[tuple[bytes, bytes], Resources] = Memo(_requests)

    def records(self, items: bytes) -> list[PodRecord]:
        """From consecutive items as a list has them: each with its tag and length before it.

        Raises protobuf's `DecodeError`, and ValueError for contents that make no sense.
        """
        shared = views_pb2.SharedPods.FromString(items)
        shared.DiscardUnknownFields()
        parts, affinities = self._parts, self._affinities
        in_full: Sequence[pods_pb2.Pod] = ()
        found = []
        for number, own, common in zip(count(), views_pb2.OwnPods.FromString(items).items, shared.items):
            meta, shape, sources, status, requests, needs_full_look = parts[common.SerializeToString()]
            identity, spec, times = own.metadata, own.spec, own.status
            namespace, name = intern(identity.namespace), identity.name
            volumes, marks = sources.recorded, _NO_MARKS
            if needs_full_look:
                in_full = in_full or pods_pb2.PodList.FromString(items).items
                volumes, marks = _full_look(in_full[number], sources)
            found.append(
                PodRecord(
                    f"{namespace}/{name}",
                    namespace,
                    identity.uid,
                    identity.resourceVersion,
                    identity.creationTimestamp.seconds,
                    meta.deleted_s,
                    meta.deletion_grace_s,
                    meta.labels,
                    marks,
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
                    containers_at(status.containers, times.containerStatuses),
                    containers_at(status.init_containers, times.initContainerStatuses)
                    if status.init_containers
                    else (),
                    times.startTime.seconds if times.HasField("startTime") else None,
                    status.nominated_node,
                    status.resize,
                )
            )
        return found

    def _part(self, raw: bytes) -> PodPart:
        pod = views_pb2.SharedPod.FromString(raw)
        meta = self._metas[pod.metadata.SerializeToString()]
        sources = sources_of([self._volumes[volume.volumeSource] for volume in pod.spec.volumes])
        # Without them the pods of a StatefulSet have one template too.
        pod.spec.ClearField("volumes")
        template = pod.spec.SerializeToString()
        shape = self._shapes[template]
        told = pod.status.SerializeToString()
        status = self._statuses[told]
        requests = self._granted[template, told] if status.tells_resources else shape.requests
        return PodPart(meta, shape, sources, status, requests, meta.has_marks or sources.has_ephemeral)


def _full_look(pod: pods_pb2.Pod, sources: Sources) -> tuple[tuple[Volume, ...], dict[str, str]]:
    names = [volume.name for volume in pod.spec.volumes]
    annotations = pod.metadata.annotations
    marks = {name: annotations[name] for name in annotations if is_mark(name)}
    return with_claims_of(pod.metadata.name, sources, names), marks or _NO_MARKS


# -- each is a function of its bytes alone, so that it may be remembered


def _shape(template: bytes) -> PodShape:
    return shape_from(builtins_of(pods_pb2.PodSpec.FromString(template)))


def _volume(source: bytes) -> Volume | None:
    return volume_from(builtins_of(pods_pb2.VolumeSource.FromString(source)))


def _affinity(raw: bytes) -> Affinity:
    return affinity_from(builtins_of(pods_pb2.Affinity.FromString(raw)))


def _requests(key: tuple[bytes, bytes]) -> Resources:
    template, status = key
    return requests_from(
        builtins_of(pods_pb2.PodSpec.FromString(template)),
        builtins_of(pods_pb2.PodStatus.FromString(status)),
    )
