"""Pods from both encodings, into the same records."""

from msgspec import Raw

from rescheduler.cluster.codecs.node_codec import NODE_CODEC
from rescheduler.cluster.codecs.pod_json import JsonPodReader
from rescheduler.cluster.codecs.pod_protobuf import ProtobufPodReader
from rescheduler.cluster.node_record import NodeRecord
from rescheduler.cluster.pod_record import PodRecord
from rescheduler.kube.api_resources import ApiResource, ObjectIdentity
from rescheduler.kube.codecs.negotiated_codec import NegotiatedCodec

__all__ = ["NODES", "PODS", "POD_CODEC", "PodReader"]


class PodReader:
    """Reads pods, and holds what they share."""

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
