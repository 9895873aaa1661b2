"""From a pod template to pods, and to the short hash that tells templates apart."""

from rescheduler.simulator.controllers.ownership import controller_reference
from rescheduler.simulator.exchange import Object, encode
from rescheduler.simulator.kinds import Kind

__all__ = ["pod_from_template", "template_hash"]

_SAFE = "bcdfghjklmnpqrstvwxz2456789"
_FNV_OFFSET, _FNV_PRIME = 2166136261, 16777619


def pod_from_template(template: Object, owner_kind: Kind, owner: Object) -> Object:
    """A pod that the server names after its owner."""
    described = template.get("metadata") or {}
    metadata: Object = {
        "generateName": f"{owner['metadata']['name']}-",
        "labels": dict(described.get("labels") or {}),
        "annotations": dict(described.get("annotations") or {}),
        "finalizers": list(described.get("finalizers") or ()),
        "ownerReferences": [controller_reference(owner_kind, owner)],
    }
    return {
        "metadata": {field: value for field, value in metadata.items() if value},
        "spec": dict(template["spec"]),
    }


def template_hash(template: Object, collisions: int = 0) -> str:
    """Of the same look as the real one, which hashes what Go prints: nobody may rely on its value."""
    return _text_hash(encode(_sorted(template)) + (f"/{collisions}".encode() if collisions else b""))


def _text_hash(text: bytes) -> str:
    """FNV-1a, its decimal digits written in letters that make no words."""
    number = _FNV_OFFSET
    for byte in text:
        number = ((number ^ byte) * _FNV_PRIME) & 0xFFFFFFFF
    return "".join(_SAFE[ord(digit) % len(_SAFE)] for digit in str(number))


def _sorted(value: object) -> object:
    if isinstance(value, dict):
        return {field: _sorted(value[field]) for field in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value
