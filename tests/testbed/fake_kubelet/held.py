"""Pods of thousands of nodes, kept as bytes until they are processed.

A whole pod takes some 40 KB as Python objects, most of it the bookkeeping of who wrote which field; without
that, and as bytes, it is 2 KB, and decoding it when it is needed takes some ten microseconds.
"""

from typing import Any

import msgspec

from rescheduler.kube.api_resources import ApiResource, ObjectIdentity, key_of
from rescheduler.kube.codecs.codec import JsonCodec

__all__ = ["HELD_PODS", "HeldPod"]

Object = dict[str, Any]

_decode = msgspec.json.Decoder(Object).decode
_encode = msgspec.json.Encoder().encode


class HeldPod(msgspec.Struct, frozen=True, gc=False):
    identity: ObjectIdentity
    node: str
    body: bytes

    @property
    def key(self) -> str:
        return self.identity.key

    def whole(self) -> Object:
        """Decode it again each time, so that no caller can change what is held."""
        return _decode(self.body)


def _read(raw: bytes | msgspec.Raw) -> HeldPod:
    pod = _decode(raw)
    metadata = pod["metadata"]
    metadata.pop("managedFields", None)
    key = key_of(metadata["namespace"], metadata["name"])
    identity = ObjectIdentity(key, metadata["uid"], metadata["resourceVersion"])
    return HeldPod(identity, pod["spec"].get("nodeName", ""), _encode(pod))


HELD_PODS: ApiResource[HeldPod] = ApiResource(
    group="",
    version="v1",
    plural="pods",
    kind="Pod",
    namespaced=True,
    codec=JsonCodec("pods", _read, lambda pod: pod.identity.version),
    identify=lambda pod: pod.identity,
)
