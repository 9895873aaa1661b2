"""Pods from both encodings, into the same records."""

from msgspec import Raw

from rescheduler.kube.wire.dual import Dual
from rescheduler.kube.wire.pods_json import PodsFromJson
from rescheduler.kube.wire.pods_protobuf import PodsFromProtobuf
from rescheduler.model.pods import PodRecord

__all__ = ["PODS", "Pods"]


class Pods:
    """Reads pods, and holds what they share."""

    def __init__(self) -> None:
        self._json = PodsFromJson()
        self._protobuf = PodsFromProtobuf()

    def from_json(self, raw: bytes | Raw) -> PodRecord:
        return self._json.record(raw)

    def from_protobuf(self, items: bytes) -> list[PodRecord]:
        return self._protobuf.records(items)


PODS: Dual[PodRecord] = Dual("pods", Pods(), version_of=lambda pod: pod.resource_version)
