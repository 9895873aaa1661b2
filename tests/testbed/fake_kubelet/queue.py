"""A work queue: each key is in it once, and is processed by one worker at a time."""

import asyncio
from collections import OrderedDict

__all__ = ["WorkQueue"]


class WorkQueue:
    def __init__(self) -> None:
        self._waiting: OrderedDict[str, None] = OrderedDict()
        self._in_hand: set[str] = set()
        self._again: set[str] = set()
        self._filled = asyncio.Event()

    def __len__(self) -> int:
        return len(self._waiting) + len(self._in_hand)

    def put(self, key: str) -> None:
        """A key that is being worked on comes back when that is done."""
        if key in self._in_hand:
            self._again.add(key)
        else:
            self._waiting[key] = None
            self._filled.set()

    async def take(self) -> str:
        while not self._waiting:
            self._filled.clear()
            await self._filled.wait()
        key, _ = self._waiting.popitem(last=False)
        self._in_hand.add(key)
        return key

    def done(self, key: str) -> None:
        self._in_hand.discard(key)
        if key in self._again:
            self._again.discard(key)
            self.put(key)
