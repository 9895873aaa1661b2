"""Time, as the simulated API server sees it: what it is now, and a call when some of it has passed.

An event loop whose time is the simulation's: when nobody has anything to do, it jumps to the next alarm.

    run_virtual(main())        # an hour of cluster life in seconds, the same every time

Everything that waits by the loop (sleeps, time-outs, `LoopClock`) follows, so the real client, informers and
controllers run unchanged. Only for what lives in this process: a socket answers in real time, and the loop
would have jumped ahead of it long before. What is given to a thread is done at once.
"""

import asyncio
import heapq
import selectors
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, Protocol, TypeVar

__all__ = [
    "Clock",
    "LoopClock",
    "ManualClock",
    "NothingLeftToHappen",
    "Timer",
    "VirtualLoop",
    "pause",
    "run_virtual",
    "timestamp",
]


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


T = TypeVar("T")


class NothingLeftToHappen(RuntimeError):  # noqa: N818 - says what is the case
    """Every task waits for something that no alarm, and so nobody, will ever bring about."""


class _Jump(selectors.DefaultSelector):
    """Instead of waiting for the next alarm, says that the time has come."""

    loop: "VirtualLoop"

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if timeout is None:
            raise NothingLeftToHappen("the simulation stands still: all tasks wait, and no alarm is set")
        self.loop.jump(timeout)
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self, start_s: float = 0.0) -> None:
        self._virtual_s = start_s
        selector = _Jump()
        selector.loop = self
        super().__init__(selector)

    def time(self) -> float:
        return self._virtual_s

    def jump(self, seconds: float) -> None:
        self._virtual_s += max(seconds, 0.0)

    def run_in_executor(  # type: ignore[override]
        self, _executor: Any, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """Work takes no time here, in whichever thread: nobody could say how much."""
        done = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - whoever waits for it gets it
            done.set_exception(error)
        return done


def run_virtual(main: Coroutine[Any, Any, T]) -> T:
    """Like `asyncio.run`, in virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)
