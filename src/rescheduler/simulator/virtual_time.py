"""An event loop whose time is the simulation's: when nobody has anything to do, it jumps to the next alarm.

    run_virtual(main())        # an hour of cluster life in seconds, the same every time

Everything that waits by the loop (sleeps, time-outs, `LoopClock`) follows, so the real client, informers and
controllers run unchanged. Only for what lives in this process: a socket answers in real time, and the loop
would have jumped ahead of it long before. What is given to a thread is done at once.
"""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

__all__ = ["NothingLeftToHappen", "VirtualLoop", "run_virtual"]

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
