"""When the server last gave a sign of life: the measure of how far a cache can be trusted."""

import math

__all__ = ["SETTLE_S", "Contact"]

SETTLE_S = 1.0
"""How long a new watch must hold before it counts: what was missed comes right after its headers."""


class Contact:
    """Times are the caller's, of one clock."""

    def __init__(self) -> None:
        self._heard_at = -math.inf
        self._open_since: float | None = None

    def heard(self, now: float) -> None:
        """An event, a bookmark or a list came in."""
        self._heard_at = max(self._heard_at, now)

    def opened(self, now: float) -> None:
        """The server accepted a watch."""
        self._open_since = now

    def closed(self, now: float) -> None:
        """The watch is over; if it had held for a while, the server was there when it began."""
        if self._open_since is not None and now - self._open_since >= SETTLE_S:
            self.heard(self._open_since)
        self._open_since = None

    def staleness(self, now: float) -> float:
        """Seconds during which changes may have been missed; infinite before the first sign of life."""
        heard_at = self._heard_at
        if self._open_since is not None and now - self._open_since >= SETTLE_S:
            heard_at = max(heard_at, self._open_since)
        return max(0.0, now - heard_at)
