"""Rate limit, back-off and retries of requests."""

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
    """A token bucket as in client-go: `burst` requests immediately, then `per_second`. 0 means no limit.

    First come, first served: each caller reserves the next free slot and waits for it, so no caller overtakes
    another. Time is that of the running loop, so a virtual clock works too.
    """

    def __init__(self, per_second: float = 0.0, burst: int = 1) -> None:
        if per_second < 0:
            raise ValueError(f"invalid rate limit of {per_second} requests per second: use 0 for no limit")
        if burst < 1:
            raise ValueError(f"invalid burst of {burst}: use at least 1")
        self.per_second = per_second
        self.burst = burst
        self._full_at = float("-inf")
        """When the bucket will be full again; each request adds one interval."""

    async def wait(self) -> float:
        """Wait until the caller may proceed; return how many seconds that took.

        A caller that is cancelled while waiting leaves its slot unused: the rate gets lower, never higher.
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
    """Exponential back-off: each delay is random in the upper half of a range that doubles up to `longest_s`.

    The jitter prevents a thousand clients from reconnecting to a restarted server at the same time.
    """

    def __init__(self, first_s: float, longest_s: float, rng: random.Random) -> None:
        self._first_s = first_s
        self._longest_s = longest_s
        self._rng = rng
        self._tries = 0

    def next_delay_s(self) -> float:
        # The exponent is bounded: it grows for as long as a server is unreachable.
        ceiling = min(self._longest_s, self._first_s * 2.0 ** min(self._tries, 32))
        self._tries += 1
        return ceiling * self._rng.uniform(0.5, 1.0)

    def reset(self) -> None:
        self._tries = 0


log = logging.getLogger(__name__)

R = TypeVar("R")

LONGEST_RETRY_DELAY_S = 10.0
"""If a server asks for a longer delay, its error is raised."""


class RetryPolicy(NamedTuple):
    tries: int
    wait_at_most_s: float
    """The longest wait between two tries, even if the server asks for more."""


DEFAULT_RETRIES: Final = RetryPolicy(tries=4, wait_at_most_s=LONGEST_RETRY_DELAY_S)
QUICK_RETRIES: Final = RetryPolicy(tries=2, wait_at_most_s=0.2)
"""For optional reads that everything else waits for."""


async def retry_while_overloaded(
    read: Callable[[], Awaitable[R]], retry_policy: RetryPolicy = DEFAULT_RETRIES
) -> R:
    """Repeat a read while the server is overloaded and says how long to wait."""
    for left in reversed(range(retry_policy.tries)):
        try:
            return await read()
        except errors.Overloaded as overloaded:
            if not left or overloaded.delay_s > LONGEST_RETRY_DELAY_S:
                raise
            log.info("%s", overloaded)
            await asyncio.sleep(min(overloaded.delay_s, retry_policy.wait_at_most_s))
    raise AssertionError("the last try returns or raises")
