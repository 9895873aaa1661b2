"""Work queues of the simulated components: keys that are processed a short time after they were added.

A key names an object, never a change of it: the work looks at the current state.
"""

import asyncio
from collections.abc import Awaitable, Callable

from kubesim.apiserver.status_errors import StatusError
from kubesim.virtual_time import Clock, Timer, report_failure

__all__ = ["DelayedQueue", "KeyQueue"]

_FIRST_RETRY_S, _LONGEST_RETRY_S = 0.005, 1000.0


class DelayedQueue:
    """Calls `work` for each key once after a delay, however often the key was added meanwhile.

    Keys that `work` adds are processed after another delay.
    """

    def __init__(self, clock: Clock, delay_s: float, work: Callable[[str], object]) -> None:
        self._clock = clock
        self._delay_s = delay_s
        self._work = work
        self._waiting: dict[str, None] = {}
        self._scheduled = False

    def add(self, key: str) -> None:
        self._waiting[key] = None
        if not self._scheduled:
            self._scheduled = True
            self._clock.call_later(self._delay_s, self._run)

    def clear(self) -> None:
        self._waiting.clear()

    def _run(self) -> None:
        self._scheduled = False
        keys, self._waiting = list(self._waiting), {}
        errors: list[Exception] = []
        for key in keys:
            try:
                self._work(key)
            except Exception as error:  # noqa: BLE001 - raised below, after the other keys have been processed
                errors.append(error)
        if errors:
            raise ExceptionGroup("background work failed", errors)


class KeyQueue:
    """Runs asynchronous work for keys: never twice at a time for one key, and again after failures.

    The work returns after how many seconds to process the key again, if at all.
    """

    def __init__(self, clock: Clock, react_s: float, work: Callable[[str], Awaitable[float | None]]) -> None:
        """Process a key `react_s` after it was added; changes in between are processed together."""
        self._clock = clock
        self._work = work
        self._ready = DelayedQueue(clock, react_s, self._start_work)
        self._running: dict[str, asyncio.Task[None]] = {}
        self._added_while_running: set[str] = set()
        self._failures: dict[str, int] = {}
        self._timers: dict[str, Timer] = {}
        self._stopped = False

    def add(self, key: str) -> None:
        if not self._stopped:
            self._ready.add(key)

    def add_after(self, key: str, delay_s: float) -> None:
        """Add the key after a delay, which replaces an earlier delay of this key."""
        if self._stopped:
            return
        if (timer := self._timers.pop(key, None)) is not None:
            timer.cancel()
        self._timers[key] = self._clock.call_later(delay_s, lambda: self._add_due(key))

    def stop(self) -> None:
        """Drop all waiting keys, cancel running work, and ignore new keys until `start`."""
        self._stopped = True
        self._ready.clear()
        self._added_while_running.clear()
        self._failures.clear()
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        for task in self._running.values():
            task.cancel()

    def start(self) -> None:
        self._stopped = False

    def _add_due(self, key: str) -> None:
        self._timers.pop(key, None)
        self.add(key)

    def _start_work(self, key: str) -> None:
        if key in self._running:
            self._added_while_running.add(key)
            return
        task = self._running[key] = asyncio.get_running_loop().create_task(self._process(key))
        task.add_done_callback(lambda task: report_failure(task, "a simulated controller failed"))

    async def _process(self, key: str) -> None:
        try:
            again_s = await self._work(key)
        except StatusError:
            count = self._failures[key] = self._failures.get(key, 0) + 1
            self.add_after(key, min(_FIRST_RETRY_S * 2 ** (count - 1), _LONGEST_RETRY_S))
        else:
            self._failures.pop(key, None)
            if again_s is not None:
                self.add_after(key, again_s)
        finally:
            del self._running[key]
            if key in self._added_while_running:
                self._added_while_running.discard(key)
                self.add(key)
