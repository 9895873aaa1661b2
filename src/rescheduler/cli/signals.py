"""How a command that runs for ever is asked to end: Ctrl-C, or SIGTERM."""

import asyncio
import contextlib
import signal
from collections.abc import Iterator

__all__ = ["ended_by_signals", "interrupted_by_sigterm"]


def ended_by_signals() -> asyncio.Event:
    """Set when either arrives; from now on they do nothing else."""
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    return ended


@contextlib.contextmanager
def interrupted_by_sigterm() -> Iterator[None]:
    """Where no event loop runs yet: SIGTERM raises KeyboardInterrupt, as Ctrl-C does."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
