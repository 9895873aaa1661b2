"""A token bucket, as client-go has it: `burst` requests at once, then `per_second` of them.

First come, first served: each caller takes the next free slot on the time line at once and then waits
for it, so nobody overtakes. Time is the running loop's, so a virtual clock works too.

How long to wait before the next try: ever longer, and never all at the same time.

How often an overloaded server is asked again, and how long is waited in between.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple, TypeVar

from rescheduler.kube import errors

__all__ = [
    "DEFAULT_RETRIES",
    "QUICK_RETRIES",
    "Backoff",
    "RateLimiter",
    "RetryPolicy",
    "retry_while_overloaded",
]


class RateLimiter:
    """`RateLimit(0)` never makes anyone wait."""

    def __init__(self, per_second: float = 0.0, burst: int = 1) -> None:
        if per_second < 0:
            raise ValueError(
                f"a rate limit of {per_second} requests per second makes no sense: use 0 for none"
            )
        if burst < 1:
            raise ValueError(f"a burst of {burst} would let no request through: use at least 1")
        self.per_second = per_second
        self.burst = burst
        self._full_at = float("-inf")
        """When the bucket will be full again; each request moves it one interval further."""

    async def wait(self) -> float:
        """Returns when the caller may go ahead; says how many seconds that took.

        A caller that is cancelled while waiting leaves its slot unused: slower, never faster than allowed.
        """
        if not self.per_second:
            return 0.0
        loop = asyncio.get_running_loop()
        now = loop.time()
        interval = 1.0 / self.per_second
        self._full_at = max(self._full_at, now) + interval
        delay = self._full_at - self.burst * interval - now
        if delay <= 1e-9:
            return 0.0
        await asyncio.sleep(delay)
        return delay


class Backoff:
    """Each delay is drawn from the upper half of a range that doubles up to `longest_s`.

    The jitter keeps a thousand clients from coming back to a restarted server in one wave.
    """

    def __init__(self, first_s: float, longest_s: float, dice: random.Random) -> None:
        self._first_s = first_s
        self._longest_s = longest_s
        self._dice = dice
        self._tries = 0

    def next_delay_s(self) -> float:
        # The exponent is bounded, for it grows for as long as a server is away.
        ceiling = min(self._longest_s, self._first_s * 2.0 ** min(self._tries, 32))
        self._tries += 1
        return ceiling * self._dice.uniform(0.5, 1.0)

    def reset(self) -> None:
        self._tries = 0


log = logging.getLogger(__name__)

R = TypeVar("R")

LONGEST_RETRY_DELAY_S = 10.0
"""A server that asks for more than this gets its error raised."""


class RetryPolicy(NamedTuple):
    tries: int
    wait_at_most_s: float
    """Between two tries, even if the server asks for more."""


DEFAULT_RETRIES: Final = RetryPolicy(tries=4, wait_at_most_s=LONGEST_RETRY_DELAY_S)
QUICK_RETRIES: Final = RetryPolicy(tries=2, wait_at_most_s=0.2)
"""For what one can do without: everything else waits for it."""


async def retry_while_overloaded(
    ask: Callable[[], Awaitable[R]], patience: RetryPolicy = DEFAULT_RETRIES
) -> R:
    """Repeated when an overloaded server says for how long to wait: reading twice harms nobody."""
    for left in reversed(range(patience.tries)):
        try:
            return await ask()
        except errors.Overloaded as overloaded:
            if not left or overloaded.delay_s > LONGEST_RETRY_DELAY_S:
                raise
            log.info("%s", overloaded)
            await asyncio.sleep(min(overloaded.delay_s, patience.wait_at_most_s))
    raise AssertionError("the last try returns or raises")
