"""Decode the metadata that all objects have, and plain JSON objects into structs.

Pods and nodes have their own codecs, because there are many of them; all other kinds are decoded here.
"""

from collections.abc import Mapping
from datetime import datetime
from math import floor
from typing import Annotated, Any, NamedTuple, Protocol, TypeVar

import msgspec

from kubevalues.bounded_yaml import json_error_text
from kubevalues.quantity import QuantityError, quantity_of
from rescheduler.api.well_known_names import ANNOTATION_PREFIXES

__all__ = [
    "KEPT_ANNOTATIONS",
    "KEPT_ANNOTATION_PREFIXES",
    "Object",
    "ObjectMeta",
    "OwnerKey",
    "OwnerReference",
    "PartialObject",
    "Timestamp",
    "UnreadableObject",
    "decode_bytes",
    "decode_object",
    "is_kept_annotation",
    "normalized",
    "owner_key",
    "owner_keys_of_object",
]

KEPT_ANNOTATION_PREFIXES = (
    *ANNOTATION_PREFIXES,
    "cluster-autoscaler.kubernetes.io/",
    "descheduler.alpha.kubernetes.io/",
    "karpenter.sh/",
    "kse.com/",
)
KEPT_ANNOTATIONS = frozenset(
    {
        "scheduling-retries",
        "kubernetes.io/config.mirror",
        "controller.kubernetes.io/pod-deletion-cost",
    }
)


def is_kept_annotation(annotation: str) -> bool:
    """Return whether records keep this annotation. Others belong to other programs, and can be large."""
    return annotation.startswith(KEPT_ANNOTATION_PREFIXES) or annotation in KEPT_ANNOTATIONS


class OwnerReference(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """An entry of `ownerReferences`."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    controller: bool = False


class OwnerKey(NamedTuple):
    """The owner that a reference names. Owners are in the namespace of the objects that they own.

    A uid alone proves nothing: users who may create a pod can write the uid of a workload of another
    namespace into its owner references, and the API server does not check it.
    """

    namespace: str
    kind: str
    name: str
    uid: str


class _Reference(Protocol):
    @property
    def kind(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def uid(self) -> str: ...


def owner_key(namespace: str, owner: _Reference) -> OwnerKey:
    """Return the owner that a reference of an object in `namespace` names."""
    return OwnerKey(namespace, owner.kind, owner.name, owner.uid)


def owner_keys_of_object(item: Mapping[str, Any]) -> list[OwnerKey]:
    """Return the owners that the references of a whole object name."""
    metadata = item["metadata"]
    return [
        OwnerKey(metadata["namespace"], str(each.get("kind")), str(each.get("name")), str(each.get("uid")))
        for each in metadata.get("ownerReferences") or ()
    ]


Object = Mapping[str, Any]
Timestamp = Annotated[datetime, msgspec.Meta(tz=True)]
T = TypeVar("T", bound="PartialObject")


class UnreadableObject(ValueError):  # noqa: N818 - says what the object is
    """An object can't be read; the message says where and why."""

    def __init__(self, kind: str, key: str, fault: str) -> None:
        self.kind, self.key, self.fault = kind, key, fault
        super().__init__(f"{kind} {key}: {fault}" if key else f"{kind} without a name: {fault}")


class ObjectMeta(msgspec.Struct, rename="camel", frozen=True, gc=False):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    generation: int = 0
    creation_timestamp: Timestamp | None = None
    deletion_timestamp: Timestamp | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()

    @property
    def key(self) -> str:
        """Return `namespace/name`, or only the name of an object without namespace."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def kept_annotations(self) -> dict[str, str]:
        return {name: value for name, value in self.annotations.items() if is_kept_annotation(name)}

    @property
    def deleted_s(self) -> int | None:
        moment = self.deletion_timestamp
        return None if moment is None else floor(moment.timestamp())


class PartialObject(msgspec.Struct, rename="camel", frozen=True, gc=False):
    """The fields of an object of one kind that are read; all others are skipped."""

    metadata: ObjectMeta = ObjectMeta()


def decode_object(kind: str, item: Object, form: type[T]) -> T:
    """Decode an object into a struct; raise `UnreadableObject`."""
    try:
        found = msgspec.convert(normalized(item), form)
    except (msgspec.ValidationError, RecursionError) as error:
        raise UnreadableObject(kind, _key_of(item), json_error_text("", error)) from None
    if not found.metadata.name:
        raise UnreadableObject(kind, "", "metadata.name is missing")
    return found


def decode_bytes(kind: str, meta: ObjectMeta, path: str, value: object) -> int:
    """Return a quantity in whole units; raise `UnreadableObject`."""
    try:
        return quantity_of(value).whole
    except QuantityError as error:
        raise UnreadableObject(kind, meta.key, f"{path}: {error}") from None


def _key_of(item: object) -> str:
    """Return the key of an object that can't be decoded, if it is readable."""
    metadata = item.get("metadata") if isinstance(item, Mapping) else None
    if not isinstance(metadata, Mapping):
        return ""
    parts = (metadata.get("namespace"), metadata.get("name"))
    return "/".join(part for part in parts if isinstance(part, str) and part)


def normalized(value: Any) -> Any:
    """Return the JSON value without nulls, which mean "absent", and with `matchLabels` as sorted pairs.

    The managed fields are left out: they are larger than the rest, and no record has them.
    """
    if isinstance(value, dict):
        return {
            key: sorted(part.items()) if key == "matchLabels" and isinstance(part, dict) else normalized(part)
            for key, part in value.items()
            # A label may have the same name, but never a list as its value.
            if part is not None and not (key == "managedFields" and isinstance(part, list))
        }
    if isinstance(value, list):
        return [normalized(part) for part in value]
    return value
