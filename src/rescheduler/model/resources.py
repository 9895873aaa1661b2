"""Amounts of resources in whole numbers, as the scheduler counts them."""

from collections.abc import Iterable, Mapping

import msgspec

from rescheduler.model.quantity import Quantity

__all__ = ["Resources", "is_counted_by_name", "resources_of"]

_SCALAR_PREFIXES = ("hugepages-", "attachable-volumes-")


class Resources(msgspec.Struct, frozen=True, gc=False):
    """What a node has, or what a pod asks for."""

    cpu_millis: int = 0
    memory_bytes: int = 0
    ephemeral_bytes: int = 0
    pods: int = 0
    """How many pods a node takes; 0 in what a pod asks for, which is always one."""
    extended: tuple[tuple[str, int], ...] = ()
    """Devices, huge pages and the like, sorted by name."""


def resources_of(amounts: Mapping[str, Quantity]) -> Resources:
    """Sums are made before this, exactly: it rounds up to whole numbers, as the scheduler does."""
    nothing = Quantity(0)
    return Resources(
        cpu_millis=amounts.get("cpu", nothing).millis,
        memory_bytes=amounts.get("memory", nothing).whole,
        ephemeral_bytes=amounts.get("ephemeral-storage", nothing).whole,
        pods=amounts.get("pods", nothing).whole,
        extended=tuple(sorted(_extended(amounts.items()))),
    )


def _extended(amounts: Iterable[tuple[str, Quantity]]) -> Iterable[tuple[str, int]]:
    return ((name, amount.whole) for name, amount in amounts if is_counted_by_name(name))


def is_counted_by_name(resource: str) -> bool:
    """What the scheduler counts beside cpu, memory, ephemeral storage and pods; it ignores the rest."""
    if resource.startswith(_SCALAR_PREFIXES) or "kubernetes.io/" in resource:
        return True
    return "/" in resource and not resource.startswith("requests.")
