"""Timers for any number of keys; the earliest time of each key counts."""

import asyncio
import heapq
from collections.abc import Callable
from datetime import UTC, datetime

__all__ = ["Wakes"]


class Wakes:
    """Calls `ring` with each key when its time has come. A new time for a key replaces the one it had."""

    def __init__(self, ring: Callable[[str], None]) -> None:
        self._ring = ring
        self._when: dict[str, datetime] = {}
        self._order: list[tuple[datetime, str]] = []
        self._changed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._when)

    def at(self, key: str, moment: datetime | None) -> None:
        """None takes a wake back."""
        if moment is None:
            self._when.pop(key, None)
        elif self._when.get(key) != moment:
            self._when[key] = moment
            heapq.heappush(self._order, (moment, key))
            self._changed.set()

    async def run(self) -> None:
        while True:
            self._changed.clear()
            wait_s = self._ring_all_due()
            try:
                async with asyncio.timeout(wait_s):
                    await self._changed.wait()
            except TimeoutError:
                pass

    def _ring_all_due(self) -> float | None:
        """Seconds until the next one; None if there is none."""
        while self._order:
            moment, key = self._order[0]
            left_s = (moment - datetime.now(UTC)).total_seconds()
            if self._when.get(key) != moment:
                heapq.heappop(self._order)  # taken back or replaced
            elif left_s > 0:
                return left_s
            else:
                heapq.heappop(self._order)
                del self._when[key]
                self._ring(key)
        return None
