"""Records by key, of one kind, of which there are not too many to be copied when some have changed."""

from collections.abc import Mapping
from typing import Generic, Protocol, TypeVar

__all__ = ["Keyed", "Shelf"]


class Keyed(Protocol):
    @property
    def key(self) -> str: ...


T = TypeVar("T")


class Shelf(Generic[T]):
    def __init__(self) -> None:
        self._records: dict[str, T] = {}
        self._frozen: Mapping[str, T] | None = {}
        self.version = 0
        """Grows with every change."""

    def put(self, key: str, record: T) -> None:
        self._records[key] = record
        self._changed()

    def remove(self, key: str) -> None:
        """Nothing happens if it isn't there."""
        if self._records.pop(key, None) is not None:
            self._changed()

    def get(self, key: str) -> T | None:
        return self._records.get(key)

    def frozen(self) -> Mapping[str, T]:
        """All of them, sorted by key; later changes don't show in it."""
        if self._frozen is None:
            self._frozen = dict(sorted(self._records.items()))
        return self._frozen

    def _changed(self) -> None:
        self._frozen = None
        self.version += 1
