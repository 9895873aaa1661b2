"""Which Events are worth writing: as client-go's event correlator has it.

What is the same is one Event with a count. About one object there may be a burst of Events, then one every
few minutes: something that goes on and on must not drown the rest, nor the API server. Likewise about all
objects of one namespace: a tenant with thousands of failing workloads must not use up what others need.
"""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

__all__ = ["BURST", "NAMESPACE_BURST", "NAMESPACE_REFILL_S", "REFILL_S", "SAME_FOR_S", "EventLimits", "Told"]

BURST: Final = 25
REFILL_S: Final = 300.0
"""One more Event about the same object after so long."""
NAMESPACE_BURST: Final = 100
NAMESPACE_REFILL_S: Final = 3.0
"""One more Event about objects of the same namespace after so long."""
SAME_FOR_S: Final = 600.0
"""What was last told longer ago is a new story."""
_MOST_REMEMBERED: Final = 4096

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Told:
    count: int
    """How often by now; 1 if it is new."""
    name: str
    """Of the Event that has it."""
    first: str
    """When it was first told, as the Event says it."""
    last_s: float


@dataclass(frozen=True, slots=True)
class _Bucket:
    tokens: float
    at_s: float


class _Remembered(OrderedDict[K, V], Generic[K, V]):
    """Forgets what was used longest ago."""

    def note(self, key: K, value: V) -> None:
        self[key] = value
        self.move_to_end(key)
        if len(self) > _MOST_REMEMBERED:
            self.popitem(last=False)


class EventLimits:
    """Times are the caller's, of one clock."""

    def __init__(self) -> None:
        self._told: _Remembered[tuple[str, ...], Told] = _Remembered()
        self._objects: _Remembered[str, _Bucket] = _Remembered()
        self._namespaces: _Remembered[str, _Bucket] = _Remembered()
        self.dropped = 0

    def known(self, what: tuple[str, ...], now_s: float) -> Told | None:
        """As it was last told, if that is not too long ago."""
        told = self._told.get(what)
        return told if told is not None and now_s - told.last_s < SAME_FOR_S else None

    def admit(self, subject: str, namespace: str, now_s: float) -> bool:
        """Whether one more may be told about it now: then it counts. Objects without a namespace have no
        tenant who could cause more than a few."""
        is_admitted = _take(self._objects, subject, BURST, REFILL_S, now_s) and (
            not namespace or _take(self._namespaces, namespace, NAMESPACE_BURST, NAMESPACE_REFILL_S, now_s)
        )
        self.dropped += not is_admitted
        return is_admitted

    def note(self, what: tuple[str, ...], told: Told) -> None:
        self._told.note(what, told)


def _take(buckets: _Remembered[str, _Bucket], key: str, burst: int, refill_s: float, now_s: float) -> bool:
    bucket = buckets.get(key, _Bucket(burst, now_s))
    tokens = min(burst, bucket.tokens + (now_s - bucket.at_s) / refill_s)
    is_admitted = tokens >= 1
    buckets.note(key, _Bucket(tokens - is_admitted, now_s))
    return is_admitted
