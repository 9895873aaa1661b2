"""The clocks of a simulated cluster, and an event loop that runs in virtual time.

    run_virtual(main())        # an hour of cluster time in seconds, with the same result every time

When no task is ready, a `VirtualLoop` advances its time to the next timer instead of waiting. Sleeps,
time-outs and `LoopClock` follow that time, so real clients and controllers run on it unchanged. Real sockets
don't work on it, because they answer in real time. Work for a thread is done immediately, in the loop.
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
    "NoPendingTimers",
    "Timer",
    "VirtualLoop",
    "pause",
    "report_failure",
    "run_virtual",
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
    """A clock that follows the running event loop, in real or in virtual time.

    It starts at `start`, by default at the current time. `speed` is the number of its seconds that pass
    per second of the loop.
    """

    def __init__(self, start: datetime | None = None, *, speed: float = 1.0) -> None:
        self._start = start
        self._speed = speed
        self._origin_s: float | None = None
        self._early: list[tuple[float, _ManualTimer, Callable[[], object]]] = []

    def now(self) -> datetime:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # objects may be loaded before a loop runs
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
        """Start the clock at the first running loop, and the timers that were set before with it."""
        if self._origin_s is None or self._start is None:
            self._start = self._start or datetime.now(UTC)
            self._origin_s = loop.time()
            for delay_s, timer, callback in self._early:
                loop.call_later(delay_s / self._speed, _unless_cancelled, timer, callback)
            self._early.clear()
        return self._start


class ManualClock:
    """A clock that stands still until `advance` is called, for tests."""

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
        """Advance the clock and call all timers that become due, in their order and at their time."""
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


def report_failure(task: asyncio.Task[None], message: str) -> None:
    """Hand an unexpected exception of a task that no caller awaits to the event loop's handler."""
    if not task.cancelled() and (error := task.exception()) is not None:
        context = {"message": message, "exception": error, "task": task}
        task.get_loop().call_exception_handler(context)


T = TypeVar("T")


class NoPendingTimers(RuntimeError):  # noqa: N818 - names the state
    """All tasks wait, and no timer is set that could wake one of them."""


class _TimeJumpSelector(selectors.DefaultSelector):
    """Advance the loop's time to the next timer instead of waiting for it."""

    loop: "VirtualLoop"

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if timeout is None:
            raise NoPendingTimers("the simulation can't continue: all tasks wait, and no timer is set")
        self.loop.jump(timeout)
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self, start_s: float = 0.0) -> None:
        self._virtual_s = start_s
        selector = _TimeJumpSelector()
        selector.loop = self
        super().__init__(selector)

    def time(self) -> float:
        return self._virtual_s

    def jump(self, seconds: float) -> None:
        self._virtual_s += max(seconds, 0.0)

    def run_in_executor(  # type: ignore[override]
        self, _executor: Any, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """Run the function immediately: work takes no virtual time."""
        done = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - raised where the result is awaited
            done.set_exception(error)
        return done


def run_virtual(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine like `asyncio.run`, in virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)
