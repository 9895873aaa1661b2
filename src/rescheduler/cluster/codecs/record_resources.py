"""Decode nodes and pods from both encodings into the same records.

Nodes are few, so both encodings are decoded via plain dicts and lists.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import lru_cache
from sys import intern
from typing import Annotated

import msgspec
from msgspec import Raw

from kubevalues.quantity import quantity_of
from rescheduler.cluster.codecs.pod_json import JsonPodReader
from rescheduler.cluster.codecs.pod_protobuf import ProtobufPodReader
from rescheduler.cluster.node_record import NodeCondition, NodeRecord, Taint
from rescheduler.cluster.object_meta import is_kept_annotation
from rescheduler.cluster.pod_record import PodRecord
from rescheduler.cluster.resource_amounts import Resources, resources_of
from rescheduler.kube.api_resources import ApiResource, ObjectIdentity
from rescheduler.kube.codecs import api_pb2
from rescheduler.kube.codecs.codec import epoch_seconds, without_nulls
from rescheduler.kube.codecs.negotiated_codec import NegotiatedCodec
from rescheduler.kube.codecs.protobuf_codec import builtins_of

__all__ = ["NODES", "NODE_CODEC", "PODS", "POD_CODEC", "NodeReader", "PodReader"]


Moment = Annotated[datetime, msgspec.Meta(tz=True)] | int
"""A time: a string in JSON, a number in protobuf."""
Quantities = Mapping[str, str | int | float]


class _Form(msgspec.Struct, rename="camel"):
    pass


class _Meta(_Form):
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: Moment = 0
    deletion_timestamp: Moment | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class _Taint(_Form):
    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: Moment | None = None


class _Spec(_Form):
    provider_id: str = msgspec.field(name="providerID", default="")
    unschedulable: bool = False
    taints: list[_Taint] = []


class _Condition(_Form):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: Moment = 0
    last_heartbeat_time: Moment = 0


class _Attached(_Form):
    name: str = ""


class _Status(_Form):
    capacity: Quantities = {}
    allocatable: Quantities = {}
    conditions: list[_Condition] = []
    volumes_in_use: tuple[str, ...] = ()
    volumes_attached: list[_Attached] = []
    declared_features: tuple[str, ...] = ()


class _Node(_Form):
    metadata: _Meta = msgspec.field(default_factory=_Meta)
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


class NodeReader:
    """A reader of nodes, without state."""

    def from_json(self, raw: bytes | msgspec.Raw) -> NodeRecord:
        try:
            return _record(_decode(raw))
        except msgspec.ValidationError:
            return _record(msgspec.convert(without_nulls(msgspec.json.decode(raw)), _Node))

    def from_protobuf(self, items: bytes) -> list[NodeRecord]:
        nodes = api_pb2.NodeList.FromString(items).items
        return [_record(msgspec.convert(builtins_of(node), _Node)) for node in nodes]


_decode = msgspec.json.Decoder(_Node).decode

NODE_CODEC: NegotiatedCodec[NodeRecord] = NegotiatedCodec(
    "nodes", NodeReader(), version_of=lambda node: node.resource_version
)


def _record(node: _Node) -> NodeRecord:
    meta, spec, status = node.metadata, node.spec, node.status
    return NodeRecord(
        name=intern(meta.name),
        uid=meta.uid,
        resource_version=meta.resource_version,
        created_s=epoch_seconds(meta.creation_timestamp),
        deleted_s=None if meta.deletion_timestamp is None else epoch_seconds(meta.deletion_timestamp),
        labels={intern(name): intern(value) for name, value in meta.labels.items()},
        annotations={name: value for name, value in meta.annotations.items() if is_kept_annotation(name)},
        taints=tuple(map(_taint, spec.taints)),
        unschedulable=spec.unschedulable,
        allocatable=_resources(status.allocatable),
        capacity=_resources(status.capacity),
        conditions=tuple(_conditions(status.conditions)),
        provider_id=spec.provider_id,
        volumes_in_use=tuple(sorted(status.volumes_in_use)),
        volumes_attached=tuple(sorted(volume.name for volume in status.volumes_attached)),
        declared_features=tuple(sorted(map(intern, status.declared_features))),
    )


def _taint(taint: _Taint) -> Taint:
    added_s = None if taint.time_added is None else epoch_seconds(taint.time_added)
    return Taint(intern(taint.key), intern(taint.value), intern(taint.effect), added_s)


def _conditions(conditions: Iterable[_Condition]) -> Iterable[NodeCondition]:
    for each in conditions:
        since_s, heartbeat_s = (
            epoch_seconds(each.last_transition_time),
            epoch_seconds(each.last_heartbeat_time),
        )
        yield NodeCondition(
            intern(each.type), intern(each.status), intern(each.reason), each.message, since_s, heartbeat_s
        )


def _resources(quantities: Quantities) -> Resources:
    return _amounts(tuple(quantities.items()))


@lru_cache(maxsize=1024)
def _amounts(quantities: tuple[tuple[str, str | int | float], ...]) -> Resources:
    """Return the amounts; cached, because nodes of one kind have the same."""
    return resources_of({name: quantity_of(value) for name, value in quantities})


class PodReader:
    """A reader of pods, which caches the parts that they share."""

    def __init__(self) -> None:
        self._json = JsonPodReader()
        self._protobuf = ProtobufPodReader()

    def from_json(self, raw: bytes | Raw) -> PodRecord:
        return self._json.record(raw)

    def from_protobuf(self, items: bytes) -> list[PodRecord]:
        return self._protobuf.records(items)


POD_CODEC: NegotiatedCodec[PodRecord] = NegotiatedCodec(
    "pods", PodReader(), version_of=lambda pod: pod.resource_version
)


def _identity_of_record(record: PodRecord | NodeRecord) -> ObjectIdentity:
    return ObjectIdentity(record.key, record.uid, record.resource_version)


PODS: ApiResource[PodRecord] = ApiResource("", "v1", "pods", "Pod", True, POD_CODEC, _identity_of_record)
NODES: ApiResource[NodeRecord] = ApiResource(
    "", "v1", "nodes", "Node", False, NODE_CODEC, _identity_of_record
)
