"""How a default is set: only where the request left the field out."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from rescheduler.simulator.admission.lookup import Lookup
from rescheduler.simulator.exchange import Object
from rescheduler.simulator.kinds import Kind

__all__ = ["Circumstances", "Operation", "fill", "inner", "timestamp"]

Operation = Literal["CREATE", "UPDATE"]


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What some defaults depend on besides the object itself."""

    kind: Kind
    operation: Operation
    now: datetime
    lookup: Lookup
    subresource: str = ""

    @property
    def creating(self) -> bool:
        return self.operation == "CREATE"

    def stored(self, obj: Object) -> Object | None:
        """The object as it is before this update."""
        metadata = obj["metadata"]
        return self.lookup(
            self.kind.api_version, self.kind.name, metadata.get("namespace", ""), metadata.get("name", "")
        )


def fill(target: Object, values: Object | None = None, **more: Any) -> None:
    """Set each field that is missing; an empty text counts as missing, zero and false do not."""
    for field, value in (values | more if values else more).items():
        if target.get(field) in (None, ""):
            target[field] = value


def inner(target: Object, field: str) -> Object:
    """The object in `field`, made if it is missing."""
    found: Object = target.setdefault(field, {})
    return found


def timestamp(now: datetime) -> str:
    return now.strftime("%Y-%m-%dT%H:%M:%SZ")
