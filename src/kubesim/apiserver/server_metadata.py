"""The metadata that the API server sets itself and clients can't change."""

import random
import uuid
from collections.abc import Container, Iterator
from datetime import datetime

from kubesim.apiserver.api_messages import Object
from kubesim.apiserver.kind_registry import ResourceKind
from kubesim.apiserver.status_errors import FieldError, bad_request
from kubesim.common_fields import format_timestamp

__all__ = [
    "ObjectNaming",
    "carry_over",
    "check_namespace",
    "drop_empty",
    "fill_in",
    "generation_counts",
    "without",
]

_SUFFIX_LETTERS = (
    "bcdfghjklmnpqrstvwxz2456789"  # no vowels, no digits that look like them: no words by chance
)
_SUFFIX_LENGTH = 5
_LONGEST_BASE = 63 - _SUFFIX_LENGTH
_WRITTEN_BY_SERVER = ("uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "generation",
                      "deletionGracePeriodSeconds", "selfLink")  # fmt: skip


class ObjectNaming:
    """Random names and uids, the same for the same seed."""

    def __init__(self, seed: int | None = None) -> None:
        self._random = random.Random(seed)  # noqa: S311 - names, not secrets

    def uid(self) -> str:
        return str(uuid.UUID(int=self._random.getrandbits(128), version=4))

    def name(self, base: str, taken: Container[str]) -> str:
        """Return `base` with five random characters; try again a few times if the name is taken."""
        name = base
        for _ in range(8):
            name = base[:_LONGEST_BASE] + "".join(self._random.choices(_SUFFIX_LETTERS, k=_SUFFIX_LENGTH))
            if name not in taken:
                break
        return name


def check_namespace(kind: ResourceKind, content: Object, namespace: str) -> None:
    """Set the namespace of the URL; an object may repeat it but not contradict it."""
    metadata = content["metadata"]
    if not kind.namespaced:
        if metadata.get("namespace"):
            raise bad_request(
                "the namespace of the provided object does not match the namespace sent on the request"
            )
        metadata.pop("namespace", None)
        return
    if metadata.setdefault("namespace", namespace) != namespace:
        if metadata["namespace"]:
            raise bad_request(
                "the namespace of the provided object does not match the namespace sent on the request"
            )
        metadata["namespace"] = namespace


def drop_empty(metadata: Object) -> None:
    """Remove empty fields, which are not stored."""
    for field in ("labels", "annotations", "finalizers", "ownerReferences", "managedFields"):
        if field in metadata and not metadata[field]:
            del metadata[field]


def fill_in(kind: ResourceKind, content: Object, *, uid: str, now: datetime) -> None:
    """Set the metadata of a new object."""
    metadata = content["metadata"]
    for field in _WRITTEN_BY_SERVER:
        metadata.pop(field, None)
    drop_empty(metadata)
    metadata["uid"] = uid
    if kind.has_generation or kind.custom:
        metadata["generation"] = 1
    metadata["creationTimestamp"] = format_timestamp(now)


def carry_over(kind: ResourceKind, new: Object, old: Object) -> list[FieldError]:
    """Restore or check the metadata that an update must not change."""
    metadata, before = new["metadata"], old["metadata"]
    faults = []
    if metadata.get("uid", before["uid"]) != before["uid"]:
        shown = f'"{metadata["uid"]}"'
        faults.append(
            FieldError("metadata.uid", "FieldValueInvalid", f"Invalid value: {shown}: field is immutable")
        )
    faults += [
        FieldError(f"metadata.{field}", "FieldValueInvalid", f"Invalid value: {shown}: field is immutable")
        for field, shown in _deletion_fields(metadata, before)
    ]
    for field in ("uid", "creationTimestamp", "generation", "deletionTimestamp"):
        _restore(metadata, before, field)
    if "deletionGracePeriodSeconds" in before:
        metadata.setdefault("deletionGracePeriodSeconds", before["deletionGracePeriodSeconds"])
    metadata.pop("selfLink", None)
    drop_empty(metadata)
    if "generateName" not in metadata and "generateName" in before:
        metadata.pop("generateName", None)
    added = set(metadata.get("finalizers") or ()) - set(before.get("finalizers") or ())
    if added and "deletionTimestamp" in before:
        listed = ", ".join(f'"{name}"' for name in sorted(added))
        message = (
            "Forbidden: no new finalizers can be added if the object is being deleted, "
            f"found new finalizers []string{{{listed}}}"
        )
        faults.append(FieldError("metadata.finalizers", "FieldValueForbidden", message))
    if (kind.has_generation or kind.custom) and generation_counts(kind, new) != generation_counts(kind, old):
        metadata["generation"] = before.get("generation", 0) + 1
    return faults


def _deletion_fields(metadata: Object, before: Object) -> Iterator[tuple[str, str]]:
    """Check the deletion fields, which only a deletion may set."""
    if metadata.get("deletionTimestamp") and "deletionTimestamp" not in before:
        yield "deletionTimestamp", f'"{metadata["deletionTimestamp"]}"'
    grace = metadata.get("deletionGracePeriodSeconds")
    if grace is not None and grace != before.get("deletionGracePeriodSeconds"):
        yield "deletionGracePeriodSeconds", str(grace)


def _restore(metadata: Object, before: Object, field: str) -> None:
    if field in before:
        metadata[field] = before[field]
    else:
        metadata.pop(field, None)


def generation_counts(kind: ResourceKind, content: Object) -> Object:
    """Return the part of an object whose change raises its generation."""
    left_out = {"metadata", "apiVersion", "kind"}
    if not kind.custom or "status" in kind.subresources:
        left_out.add("status")
    return {field: value for field, value in content.items() if field not in left_out}


def without(content: Object, *fields: str) -> Object:
    return {field: value for field, value in content.items() if field not in fields}
