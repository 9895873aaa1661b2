"""The known fields of every built-in type, as data: `fields.txt`, read once when first needed."""

from functools import cache
from pathlib import Path

from rescheduler.simulator.kinds import Kind

__all__ = ["EXTRA_KINDS", "fields_by_type", "type_of"]

EXTRA_KINDS: tuple[tuple[str, str, str], ...] = (
    ("", "v1", "Binding"),
    ("autoscaling", "v1", "Scale"),
    ("policy", "v1", "Eviction"),
)
"""Group, version and kind of what is only ever posted to a subresource."""

_CLASHING = {("events.k8s.io", "Event"): "events.Event"}
_WITHOUT_FIELDS = ("metrics.k8s.io",)
"""Served, never written: no request carries such an object."""


@cache
def fields_by_type() -> dict[str, dict[str, str]]:
    """Type → field → type of its value, in the notation of the file.

    `string`, `int32`, `[Container]` (a list), `{quantity}` (a map), `PodSpec` (another line).
    """
    table: dict[str, dict[str, str]] = {}
    for line in Path(__file__).with_name("fields.txt").read_text("utf-8").splitlines():
        if not line.startswith("#"):
            name, *fields = line.split()
            table[name] = dict(field.split("=", 1) for field in fields)
    return table


def type_of(kind: Kind) -> str | None:
    """The line of the table that describes `kind`; none for custom kinds."""
    if kind.custom or kind.group in _WITHOUT_FIELDS:
        return None
    name = _CLASHING.get((kind.group, kind.name), kind.name)
    return name if name in fields_by_type() else None
