"""Whether the API server answers the requests of one client, and what follows when it does not.

The kernel finds connections whose peer is gone (`network` sets keep-alive and user timeout). It can't see a
proxy that keeps a connection open and forwards nothing, nor a server process that is stopped. Those show only
in requests without an answer. Therefore:

- every request that was sent and not answered makes watches suspect that have told nothing since: informers
  open them again, and a watch that is accepted again is alive;
- if nothing else is sent, a cheap read is sent every `PROBE_EVERY_S`. A leader renews its Lease more often,
  so it hardly needs one.
"""

import asyncio
import math
from collections.abc import Callable
from typing import Final

__all__ = ["PROBE_EVERY_S", "PROBE_TIMEOUT_S", "Liveness"]

PROBE_EVERY_S: Final = 3.0
PROBE_TIMEOUT_S: Final = 3.0

OnUnanswered = Callable[[float], None]
"""Called with the loop time at which the request was sent."""


class Liveness:
    """Times are loop times."""

    def __init__(self) -> None:
        self.answered_at = -math.inf
        """When the latest answer came, of any HTTP status."""
        self._handlers: dict[object, OnUnanswered] = {}

    def answered(self) -> None:
        self.answered_at = asyncio.get_running_loop().time()

    def unanswered(self, sent_at: float) -> None:
        for handler in tuple(self._handlers.values()):
            handler(sent_at)

    def on_unanswered(self, handler: OnUnanswered) -> Callable[[], None]:
        """Returns what ends it."""
        subscription = object()
        self._handlers[subscription] = handler

        def end() -> None:
            self._handlers.pop(subscription, None)

        return end
