"""How often an overloaded server is asked again, and how long is waited in between."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple, TypeVar

from rescheduler.kube import errors

__all__ = ["QUICK", "USUAL", "Patience", "patiently"]

log = logging.getLogger(__name__)

R = TypeVar("R")

LONGEST_DELAY_S = 10.0
"""A server that asks for more than this gets its error raised."""


class Patience(NamedTuple):
    tries: int
    wait_at_most_s: float
    """Between two tries, even if the server asks for more."""


USUAL: Final = Patience(tries=4, wait_at_most_s=LONGEST_DELAY_S)
QUICK: Final = Patience(tries=2, wait_at_most_s=0.2)
"""For what one can do without: everything else waits for it."""


async def patiently(ask: Callable[[], Awaitable[R]], patience: Patience = USUAL) -> R:
    """Repeated when an overloaded server says for how long to wait: reading twice harms nobody."""
    for left in reversed(range(patience.tries)):
        try:
            return await ask()
        except errors.Overloaded as overloaded:
            if not left or overloaded.delay_s > LONGEST_DELAY_S:
                raise
            log.info("%s", overloaded)
            await asyncio.sleep(min(overloaded.delay_s, patience.wait_at_most_s))
    raise AssertionError("the last try returns or raises")
