"""Set defaults of absent fields, and read other objects (priority class, namespace, definition) for them."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, Protocol

from kubesim.apiserver.api_messages import Object
from kubesim.apiserver.kind_registry import ResourceKind

__all__ = [
    "DefaultingContext",
    "Lookup",
    "Operation",
    "fill",
    "inner",
]


class Lookup(Protocol):
    def __call__(self, api_version: str, kind_name: str, namespace: str, name: str) -> Object | None: ...


Operation = Literal["CREATE", "UPDATE"]


@dataclass(frozen=True, slots=True)
class DefaultingContext:
    """The values besides the object on which some defaults depend."""

    kind: ResourceKind
    operation: Operation
    now: datetime
    lookup: Lookup
    subresource: str = ""

    @property
    def creating(self) -> bool:
        return self.operation == "CREATE"

    def stored(self, obj: Object) -> Object | None:
        """Return the object as it was before this update."""
        metadata = obj["metadata"]
        return self.lookup(
            self.kind.api_version, self.kind.name, metadata.get("namespace", ""), metadata.get("name", "")
        )


def fill(target: Object, values: Object | None = None, **more: Any) -> None:
    """Set each missing field; an empty string counts as missing, zero and false do not."""
    for field, value in (values | more if values else more).items():
        if target.get(field) in (None, ""):
            target[field] = value


def inner(target: Object, field: str) -> Object:
    """Return the object in `field`, and create it if it is missing."""
    found: Object = target.setdefault(field, {})
    return found
