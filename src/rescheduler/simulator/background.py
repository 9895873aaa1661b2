"""Work that goes on behind the API's back: things to look at again, a moment later."""

from collections.abc import Callable

from rescheduler.simulator.clock import Clock

__all__ = ["WorkQueue"]


class WorkQueue:
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
