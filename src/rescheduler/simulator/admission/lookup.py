"""How admission reads other objects: a priority class, a namespace, a definition."""

from typing import Protocol

from rescheduler.simulator.exchange import Object

__all__ = ["Lookup", "nothing"]


class Lookup(Protocol):
    def __call__(self, api_version: str, kind_name: str, namespace: str, name: str) -> Object | None: ...


def nothing(api_version: str, kind_name: str, namespace: str, name: str) -> Object | None:  # noqa: ARG001
    """An empty store."""
    return None
