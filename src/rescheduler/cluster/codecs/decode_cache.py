"""Parts that many objects share are decoded once and stored once."""

from collections.abc import Callable, Hashable
from typing import TypeVar

__all__ = ["PER_NODE_CAPACITY", "DecodeCache"]

PER_NODE_CAPACITY = 16_384
"""Capacity for parts of which there is one per node, such as the affinity of a DaemonSet's pods."""

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class DecodeCache(dict[K, V]):
    """`memo[key]` is `make(key)`, made anew only for keys not met for a while.

    It never holds more than twice its capacity: when it is full, its entries become the older
    generation, from which those still in use come back one by one; the rest goes with the next turn.
    Whoever holds a value keeps it; forgetting only means that an equal one may be made once more.
    """

    __slots__ = ("_make", "_older", "capacity")

    def __init__(self, make: Callable[[K], V], capacity: int = 4096) -> None:
        super().__init__()
        self._make = make
        self.capacity = capacity
        self._older: dict[K, V] = {}

    def __missing__(self, key: K) -> V:
        value = self._older[key] if key in self._older else self._make(key)
        if len(self) >= self.capacity:
            self._older = dict(self)
            self.clear()
        self[key] = value
        return value

    @property
    def held(self) -> int:
        """How many entries both generations have."""
        return len(self) + len(self._older)
