"""When the server last gave a sign of life: the measure of how far a cache can be trusted.

Two questions, because silence on a watch means nothing by itself (a quiet kind has nothing to tell):

- Is it followed? From the moment the watch is lost until another one has held for `SETTLE_S`, it is not.
- How long ago was the last sign of life: an event, a bookmark, a list, an accepted watch?
"""

import math

__all__ = ["SETTLE_S", "Contact"]

SETTLE_S = 1.0
"""How long a new watch must hold before it counts: what was missed comes right after its headers."""


class Contact:
    """Times are the caller's, of one clock."""

    def __init__(self) -> None:
        self._heard_at = -math.inf
        self._open_since: float | None = None
        self._lost_at: float | None = -math.inf
        """None while a watch that has settled is open."""

    def listed(self, began: float, now: float) -> None:
        """A list came in that was asked for when it `began`; the watch after it is still to be opened."""
        self._heard_at = max(self._heard_at, began)
        self._lost_at = now

    def heard(self, now: float) -> None:
        """An event or a bookmark came in."""
        self._heard_at = max(self._heard_at, now)
        self._lost_at = None

    def opened(self, now: float) -> None:
        """The server accepted a watch."""
        self._open_since = now

    def closed(self, now: float, suspect_since: float | None = None) -> None:
        """The watch is over; if it had held for a while, the server was there when it began.

        `suspect_since` if it was given up because the server did not answer a request of that time.
        """
        self._settle(now)
        self._open_since = None
        if self._lost_at is None:
            self._lost_at = now if suspect_since is None else suspect_since

    def has_heard_since(self, moment: float) -> bool:
        return self._heard_at >= moment or (self._open_since is not None and self._open_since >= moment)

    def staleness(self, now: float) -> float:
        """Seconds since the last event, bookmark, list or settled watch; infinite before the first."""
        self._settle(now)
        return max(0.0, now - self._heard_at)

    def lost(self, now: float) -> float:
        """Seconds since the watch was lost; 0 while it is open."""
        self._settle(now)
        return 0.0 if self._lost_at is None else max(0.0, now - self._lost_at)

    def _settle(self, now: float) -> None:
        if self._open_since is not None and now - self._open_since >= SETTLE_S:
            self._heard_at = max(self._heard_at, self._open_since)
            self._lost_at = None
