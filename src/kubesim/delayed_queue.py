"""Work that goes on behind the API's back: things to look at again, a moment later.

Keys that wait to be looked at: never the same one twice at a time, failures again after a pause.

A key says which object, never what happened to it: whoever is woken looks at what is there now.
"""

import asyncio
from collections.abc import Awaitable, Callable

from kubesim.apiserver.status_errors import StatusError
from kubesim.virtual_time import Clock, Timer

__all__ = ["DelayedQueue", "KeyQueue"]


class DelayedQueue:
    """Keys that wait to be looked at; a key that is added twice is looked at once.

    Whatever `work` does may add keys again: they get their turn after another delay.
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

    def _run(self) -> None:
        self._scheduled = False
        keys, self._waiting = list(self._waiting), {}
        broken: list[Exception] = []
        for key in keys:
            try:
                self._work(key)
            except Exception as error:  # noqa: BLE001 - raised below: one that breaks must not take the others' turn
                broken.append(error)
        if broken:
            raise ExceptionGroup("work in the background broke", broken)


_FIRST_RETRY_S, _LONGEST_RETRY_S = 0.005, 1000.0

Work = Callable[[str], Awaitable[float | None]]
"""Looks at one key; answers after how many seconds to look again, if at all."""


class KeyQueue:
    def __init__(self, clock: Clock, react_s: float, work: Work) -> None:
        """`react_s` is how long a change takes to be noticed; what happens meanwhile is seen together."""
        self._clock = clock
        self._react_s = react_s
        self._work = work
        self._waiting: dict[str, None] = {}
        self._scheduled = False
        self._running: dict[str, asyncio.Task[None]] = {}
        self._failures: dict[str, int] = {}
        self._alarms: dict[str, Timer] = {}
        self._stopped = False

    def add(self, key: str) -> None:
        if self._stopped:
            return
        self._waiting[key] = None
        if not self._scheduled:
            self._scheduled = True
            self._clock.call_later(self._react_s, self._start_waiting)

    def add_after(self, key: str, delay_s: float) -> None:
        """Replaces an alarm that was set for this key before."""
        if self._stopped:
            return
        if (alarm := self._alarms.pop(key, None)) is not None:
            alarm.cancel()
        self._alarms[key] = self._clock.call_later(delay_s, lambda: self._ring(key))

    def stop(self) -> None:
        """Forgets all that waits, hears of nothing new, and leaves half done what it has begun."""
        self._stopped = True
        self._waiting.clear()
        self._failures.clear()
        for alarm in self._alarms.values():
            alarm.cancel()
        self._alarms.clear()
        for task in self._running.values():
            task.cancel()

    def start(self) -> None:
        self._stopped = False

    def _ring(self, key: str) -> None:
        self._alarms.pop(key, None)
        self.add(key)

    def _start_waiting(self) -> None:
        self._scheduled = False
        keys, self._waiting = list(self._waiting), {}
        loop = asyncio.get_running_loop()
        for key in keys:
            if key in self._running:
                self._waiting[key] = None  # looked at again when the look that goes on has ended
                continue
            task = self._running[key] = loop.create_task(self._look_at(key))
            task.add_done_callback(_report)

    async def _look_at(self, key: str) -> None:
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
            if key in self._waiting:
                self.add(key)


def _report(task: asyncio.Task[None]) -> None:
    """A mistake of ours must not stay silent because nobody waits for the task."""
    if not task.cancelled() and (error := task.exception()) is not None:
        context = {"message": "a simulated controller failed", "exception": error, "task": task}
        task.get_loop().call_exception_handler(context)
