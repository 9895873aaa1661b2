"""Objects are looked at far more often than they change: each version is read into its record once."""

from collections.abc import Callable
from typing import Final, Generic, TypeVar

from rescheduler.kube.resources import Object

__all__ = ["ReadOnce"]

R = TypeVar("R")

_MOST: Final = 20_000


class ReadOnce(Generic[R]):
    def __init__(self, read: Callable[[Object], R]) -> None:
        self._read = read
        self._known: dict[str, tuple[str, R]] = {}

    def __call__(self, item: Object) -> R:
        metadata = item["metadata"]
        uid, version = metadata.get("uid", ""), metadata.get("resourceVersion", "")
        known = self._known.pop(uid, None)
        if known is None or known[0] != version:
            known = version, self._read(item)
        # At the end again: who has not been asked about for longest is forgotten first.
        self._known[uid] = known
        if len(self._known) > _MOST:
            del self._known[next(iter(self._known))]
        return known[1]
