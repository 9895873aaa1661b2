"""Share the moves of one check between namespaces, and between failing pods and all others.

    slots      `maxReschedulePods`: moves that one plan may have
    queued     migrations that wait for their turn; they count as moves that their namespace has already

Namespaces take turns, the one with the fewest moves first, so that none has to wait because another one asks
for more. Queued moves count only against their own namespace: however many of them one namespace has, every
other one gets its share (`slots` divided by the number of namespaces, and at least one move).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heapreplace
from typing import Generic, TypeVar

__all__ = [
    "NOTHING_QUEUED",
    "NamespaceTurns",
    "QueuedMigrations",
    "interleave_namespaces",
    "reserved_slots",
    "share_of_each",
]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class QueuedMigrations:
    """Migrations that exist and have not started."""

    by_namespace: Mapping[str, int]
    maintenance: int = 0
    """The number of them that empty nodes."""


NOTHING_QUEUED = QueuedMigrations({})


def reserved_slots(slots: int) -> int:
    """Return how many moves of a check are reserved: failing pods and less urgent moves can't use them."""
    return (slots + 1) // 2


def share_of_each(slots: int, namespaces: int) -> int:
    """Return how many moves every namespace may have, regardless of the others."""
    return max(1, slots // max(1, namespaces))


class NamespaceTurns(Generic[T]):
    """Yield items of the namespaces in turn. The caller answers each before it takes the next."""

    def __init__(
        self,
        waiting: Mapping[str, Sequence[T]],
        has: Mapping[str, int],
        *,
        slots: int,
        free: int,
        share: int,
        first: int = 0,
    ) -> None:
        """Hand out at most `slots` moves, `free` of them to any namespace in turn. A namespace that has less
        than `share`, including what it `has` already, gets one even if no free move is left.

        `first` is the position, in the order of names, of the namespace that goes first among equals.
        """
        names = sorted(name for name, items in waiting.items() if items)
        self._waiting = {name: iter(waiting[name]) for name in names}
        self._heap = [
            (has.get(name, 0), (place - first) % len(names), name) for place, name in enumerate(names)
        ]
        heapify(self._heap)
        self._slots, self._free, self._share = slots, free, share

    def next(self) -> T | None:
        """Return the next item; None if nothing is left, or nothing may be added."""
        while self._heap:
            count, _, name = self._heap[0]
            # This namespace has the fewest: if it may not have one more, none may.
            if self._slots <= 0 or (self._free <= 0 and count >= self._share):
                return None
            for item in self._waiting[name]:
                return item
            heappop(self._heap)
        return None

    def answer(self, moves: int) -> None:
        """Record how many moves resulted from the item that `next` returned; 0 if they were refused."""
        count, place, name = self._heap[0]
        self._slots -= moves
        self._free -= moves
        heapreplace(self._heap, (count + moves, place, name))


def interleave_namespaces(items: Iterable[T], namespace_of: Callable[[T], str], *, first: int = 0) -> list[T]:
    """Return the same items: one of each namespace, then a second one of each, and so on."""
    waiting: dict[str, list[T]] = {}
    for item in items:
        waiting.setdefault(namespace_of(item), []).append(item)
    names = sorted(waiting)
    order = {name: (place - first) % len(names) for place, name in enumerate(names)}
    turns = (
        (turn, order[name], item) for name, of_it in waiting.items() for turn, item in enumerate(of_it)
    )  # fmt: skip
    return [item for _, _, item in sorted(turns, key=lambda each: each[:2])]
