"""A token bucket, as client-go has it: `burst` requests at once, then `per_second` of them.

First come, first served: each caller takes the next free slot on the time line at once and then waits
for it, so nobody overtakes. Time is the running loop's, so a virtual clock works too.
"""

import asyncio

__all__ = ["RateLimit"]


class RateLimit:
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
