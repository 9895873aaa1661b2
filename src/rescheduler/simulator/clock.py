"""Time, as the simulated API server sees it: what it is now, and a call when some of it has passed."""

import asyncio
import heapq
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Protocol

__all__ = ["Clock", "LoopClock", "ManualClock", "Timer", "pause", "timestamp"]


class Timer(Protocol):
    def cancel(self) -> None: ...


class Clock(Protocol):
    def now(self) -> datetime: ...

    def call_later(self, delay_s: float, callback: Callable[[], object]) -> Timer: ...


class _ManualTimer:
    cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


def _unless_cancelled(timer: _ManualTimer, callback: Callable[[], object]) -> None:
    if not timer.cancelled:
        callback()


class LoopClock:
    """Follows the running event loop's time: real time, or a virtual one if the loop has that.

    `start` is what the clock shows first; without it, the wall clock at that moment. With a `speed`, so
    many of its seconds pass in one of the loop's.
    """

    def __init__(self, start: datetime | None = None, *, speed: float = 1.0) -> None:
        self._start = start
        self._speed = speed
        self._origin_s: float | None = None
        self._early: list[tuple[float, _ManualTimer, Callable[[], object]]] = []

    def now(self) -> datetime:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # objects may be loaded before any loop runs
            return self._start or datetime.now(UTC)
        return self._begin(loop) + timedelta(seconds=(loop.time() - (self._origin_s or 0.0)) * self._speed)

    def call_later(self, delay_s: float, callback: Callable[[], object]) -> Timer:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            timer = _ManualTimer()
            self._early.append((delay_s, timer, callback))
            return timer
        self._begin(loop)
        return loop.call_later(delay_s / self._speed, callback)

    def _begin(self, loop: asyncio.AbstractEventLoop) -> datetime:
        """Starts on first sight of a loop; what was asked for before that waits from then on."""
        if self._origin_s is None or self._start is None:
            self._start = self._start or datetime.now(UTC)
            self._origin_s = loop.time()
            for delay_s, timer, callback in self._early:
                loop.call_later(delay_s / self._speed, _unless_cancelled, timer, callback)
            self._early.clear()
        return self._start


class ManualClock:
    """Stands still until told to advance: for tests, where waiting is a waste."""

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self._now = start
        self._order = count()
        self._timers: list[tuple[datetime, int, Callable[[], object], _ManualTimer]] = []

    def now(self) -> datetime:
        return self._now

    def call_later(self, delay_s: float, callback: Callable[[], object]) -> Timer:
        timer = _ManualTimer()
        due = self._now + timedelta(seconds=delay_s)
        heapq.heappush(self._timers, (due, next(self._order), callback, timer))
        return timer

    def advance(self, seconds: float) -> None:
        """Everything due on the way is called in its order, at its time."""
        end = self._now + timedelta(seconds=seconds)
        while self._timers and self._timers[0][0] <= end:
            due, _, callback, timer = heapq.heappop(self._timers)
            self._now = max(self._now, due)
            if not timer.cancelled:
                callback()
        self._now = end


async def pause(clock: Clock, delay_s: float) -> None:
    passed = asyncio.Event()
    clock.call_later(delay_s, passed.set)
    await passed.wait()


def timestamp(moment: datetime) -> str:
    """As `metadata.creationTimestamp` has it: whole seconds, UTC."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
