"""ReplicaSets from protobuf, as the plain objects that JSON would give; of their templates only nodeName.

There are thousands of them, because each Deployment keeps its old ones. In JSON each is three times as long,
nearly all of it template, and takes the server five times as long to write.
"""

from datetime import UTC, datetime
from typing import Any

from rescheduler.kube.wire import replica_sets_pb2
from rescheduler.kube.wire.builtins_of import builtins_of

__all__ = ["replica_sets_from"]

Object = dict[str, Any]


def replica_sets_from(items: bytes) -> list[Object]:
    """From consecutive items of a list. Raises protobuf's `DecodeError`."""
    found = map(builtins_of, replica_sets_pb2.ReplicaSetList.FromString(items).items)
    return [_as_in_json(each) for each in found]


def _as_in_json(replica_set: Object) -> Object:
    """With times as text, and without the 0 that JSON leaves away where a controller has not looked yet."""
    metadata, status = replica_set.get("metadata", {}), replica_set.get("status", {})
    for moment in ("creationTimestamp", "deletionTimestamp"):
        if moment in metadata:
            metadata[moment] = datetime.fromtimestamp(metadata[moment], UTC).isoformat()
    if not status.get("observedGeneration"):
        status.pop("observedGeneration", None)
    return replica_set
