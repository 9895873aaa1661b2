"""Convert Events between the core group, in whose form they are stored, and `events.k8s.io`."""

from kubesim.apiserver.api_messages import Object, decode, encode
from kubesim.apiserver.kind_registry import BUILT_IN, ResourceKind

__all__ = ["shown", "stored", "stored_kind"]

_CORE_TO_EVENTS = {
    "involvedObject": "regarding",
    "message": "note",
    "reportingComponent": "reportingController",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
}
_OPTIONAL = frozenset({"reportingComponent", "reportingInstance"})
"""Fields that the core group shows even if they are empty."""
_EVENTS_TO_CORE = {new: old for old, new in _CORE_TO_EVENTS.items()}

_STORED_EVENT = next(kind for kind in BUILT_IN if kind.name == "Event" and not kind.group)


def _is_new_event(kind: ResourceKind) -> bool:
    return kind.group == "events.k8s.io"


def shown(kind: ResourceKind, raw: bytes) -> bytes:
    """Return stored bytes in the form of this kind."""
    if not _is_new_event(kind):
        return raw
    content = {name: value for name, value in decode(raw).items() if value != "" or name not in _OPTIONAL}
    return encode({_CORE_TO_EVENTS.get(name, name): value for name, value in content.items()})


def stored_kind(kind: ResourceKind) -> ResourceKind:
    return _STORED_EVENT if _is_new_event(kind) else kind


def stored(kind: ResourceKind, content: Object) -> tuple[ResourceKind, Object]:
    """Return what a client sent in its stored form, and the kind under which it is stored."""
    if not _is_new_event(kind):
        return kind, content
    renamed = {_EVENTS_TO_CORE.get(name, name): value for name, value in content.items()}
    return _STORED_EVENT, renamed | {"apiVersion": _STORED_EVENT.api_version}
