"""Plain objects, as JSON has them, into forms that name what is needed of them.

Pods and nodes have codecs of their own, because there are many; all else is read through here.
"""

from collections.abc import Mapping
from datetime import datetime
from math import floor
from typing import Annotated, Any, TypeVar

import msgspec

from rescheduler.model.json_faults import fault_in
from rescheduler.model.metadata import Owner, is_mark
from rescheduler.model.quantity import QuantityError, quantity_of

__all__ = ["Form", "Meta", "Moment", "Object", "UnreadableObject", "bytes_of", "read", "seconds_of"]

Object = Mapping[str, Any]
Moment = Annotated[datetime, msgspec.Meta(tz=True)]
T = TypeVar("T", bound="Form")


class UnreadableObject(ValueError):  # noqa: N818 - says what the object is
    """Which object, where in it, and what is wrong there."""

    def __init__(self, kind: str, key: str, fault: str) -> None:
        self.kind, self.key, self.fault = kind, key, fault
        super().__init__(f"{kind} {key}: {fault}" if key else f"{kind} without a name: {fault}")


class Meta(msgspec.Struct, rename="camel", frozen=True, gc=False):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    generation: int = 0
    creation_timestamp: Moment | None = None
    deletion_timestamp: Moment | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: tuple[Owner, ...] = ()

    @property
    def key(self) -> str:
        """`namespace/name`, or only the name of an object without namespace."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def marks(self) -> dict[str, str]:
        return {name: value for name, value in self.annotations.items() if is_mark(name)}

    @property
    def deleted_s(self) -> int | None:
        return None if self.deletion_timestamp is None else seconds_of(self.deletion_timestamp)


class Form(msgspec.Struct, rename="camel", frozen=True, gc=False):
    """What is read of an object of one kind; all other fields of it are skipped."""

    metadata: Meta = Meta()


def read(kind: str, item: Object, form: type[T]) -> T:
    """Raises `UnreadableObject`."""
    try:
        found = msgspec.convert(_tidy(item), form)
    except (msgspec.ValidationError, RecursionError) as error:
        raise UnreadableObject(kind, _key_of(item), fault_in("", error)) from None
    if not found.metadata.name:
        raise UnreadableObject(kind, "", "metadata.name is missing")
    return found


def seconds_of(moment: datetime | None) -> int:
    """Since 1970; 0 where there is none."""
    return 0 if moment is None else floor(moment.timestamp())


def bytes_of(kind: str, meta: Meta, path: str, value: object) -> int:
    """A quantity in whole units. Raises `UnreadableObject`."""
    try:
        return quantity_of(value).whole
    except QuantityError as error:
        raise UnreadableObject(kind, meta.key, f"{path}: {error}") from None


def _key_of(item: object) -> str:
    """As well as it can be told of an object that can't be read."""
    metadata = item.get("metadata") if isinstance(item, Mapping) else None
    if not isinstance(metadata, Mapping):
        return ""
    parts = (metadata.get("namespace"), metadata.get("name"))
    return "/".join(part for part in parts if isinstance(part, str) and part)


def _tidy(value: Any) -> Any:
    """Without nulls, which mean "absent", and with selectors' `matchLabels` as sorted pairs."""
    if isinstance(value, dict):
        return {
            key: sorted(part.items()) if key == "matchLabels" and isinstance(part, dict) else _tidy(part)
            for key, part in value.items()
            if part is not None
        }
    if isinstance(value, list):
        return [_tidy(part) for part in value]
    return value
