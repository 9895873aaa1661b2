"""Which row a key has, for keys that are sorted."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence

__all__ = ["KeyRows"]


class KeyRows(Mapping[str, int]):
    """A mapping that needs no more than the keys: a snapshot is frozen often, and asked for few keys."""

    __slots__ = ("_keys",)

    def __init__(self, keys: Sequence[str]) -> None:
        self._keys = keys

    def __getitem__(self, key: str) -> int:
        row = bisect_left(self._keys, key)
        if row < len(self._keys) and self._keys[row] == key:
            return row
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)
