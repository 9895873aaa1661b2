"""Usage over time: a level, a wave or a ramp, each with noise. Pure: the same time gives the same amount.

cpu: 80%                                            a level, as a share of the request
cpu: {level: 250m, noise: 0.1}                      up to ten percent more or less, at random
cpu: {mean: 60%, swing: 30%, every: 24h, peak: 14h} a wave with its peak at 14:00 UTC
memory: {start: 20%, end: 110%, over: 6h}           a ramp that begins when the container starts: a leak
"""

import hashlib
import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, PlainValidator, Tag

from kubevalues.duration import parse_duration
from kubevalues.quantity import parse_quantity

__all__ = [
    "DEFAULT_USAGE",
    "IGNORED",
    "NOTHING",
    "AmountText",
    "Duration",
    "Pattern",
    "PositiveDuration",
    "Termination",
    "UsageAmount",
    "UsageLevel",
    "UsageMoment",
    "UsagePattern",
    "UsageRamp",
    "UsageWave",
    "amount_at",
    "fits",
]

NOTHING = timedelta(0)
IGNORED = timedelta.max
"""The termination time of a container that ignores SIGTERM."""

Pattern = Annotated[str, Field(min_length=1)]
"""A name, or a name with the wildcards `*`, `?` and `[…]`."""


def fits(text: str, pattern: str) -> bool:
    return pattern in ("*", text) or fnmatchcase(text, pattern)


def _duration(value: object) -> timedelta:
    if isinstance(value, timedelta):
        parsed = value
    elif isinstance(value, str):
        parsed = parse_duration(value)
    else:
        raise ValueError("must be a duration such as 90s, 1h30m or 500ms")  # noqa: TRY004 - pydantic collects these
    if parsed < NOTHING:
        raise ValueError("must not be negative")
    return parsed


def _positive(value: timedelta) -> timedelta:
    if value == NOTHING:
        raise ValueError("must be longer than 0s")
    return value


Duration = Annotated[timedelta, PlainValidator(_duration)]
PositiveDuration = Annotated[timedelta, PlainValidator(lambda value: _positive(_duration(value)))]
Termination = Annotated[
    timedelta, PlainValidator(lambda value: IGNORED if value == "ignored" else _duration(value))
]


@dataclass(frozen=True, slots=True)
class UsageAmount:
    """An amount of a resource, or a share of the request: `250m`, `1Gi`, `80%`."""

    units: float = 0.0
    """Cores or bytes."""
    share: float = 0.0

    def of(self, requested: float) -> float:
        return self.units + self.share * requested


def _amount(value: object) -> UsageAmount:
    if isinstance(value, UsageAmount):
        return value
    text = str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value
    if not isinstance(text, str):
        raise ValueError("must be a quantity such as 250m or 1Gi, or a share such as 80%")  # noqa: TRY004
    if text.endswith("%"):
        try:
            amount = UsageAmount(share=float(text[:-1]) / 100)
        except ValueError:
            raise ValueError("must be a percentage such as 80%") from None
    else:
        amount = UsageAmount(units=parse_quantity(text).nanos / 1e9)
    if not 0 <= amount.units + amount.share < float("inf"):
        raise ValueError("must be finite and not negative")
    return amount


AmountText = Annotated[UsageAmount, PlainValidator(_amount)]

_NOISE_STEP_S = 15.0
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Noise = Annotated[float, Field(ge=0, le=1)]


class _Pattern(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    noise: Noise = 0.0
    """The largest random deviation, up or down, as a fraction; it changes every 15 seconds."""


class UsageLevel(_Pattern):
    level: AmountText


class UsageWave(_Pattern):
    mean: AmountText
    swing: AmountText
    every: PositiveDuration
    peak: Duration = NOTHING
    """The peak, this long after 1970 (for a day: after midnight UTC), repeated every period."""


class UsageRamp(_Pattern):
    start: AmountText
    end: AmountText
    over: PositiveDuration


def _shape(value: Any) -> str:
    named = value if isinstance(value, dict) else vars(value) if isinstance(value, _Pattern) else {}
    if named.keys() & {"mean", "swing", "every", "peak"}:
        return "wave"
    return "ramp" if named.keys() & {"start", "end", "over"} else "level"


UsagePattern = Annotated[
    Annotated[UsageLevel, Tag("level")]
    | Annotated[UsageWave, Tag("wave")]
    | Annotated[UsageRamp, Tag("ramp")],
    Discriminator(_shape),
    BeforeValidator(lambda value: value if isinstance(value, dict | _Pattern) else {"level": value}),
]

DEFAULT_USAGE: UsageLevel | UsageWave | UsageRamp = UsageLevel(level=UsageAmount(share=0.5))


class UsageMoment(NamedTuple):
    """The values besides pattern and request on which an amount depends."""

    at: datetime
    age: timedelta
    identity: str
    seed: int


def amount_at(pattern: UsageLevel | UsageWave | UsageRamp, requested: float, moment: UsageMoment) -> float:
    """Return the amount in the unit of the request; it is never negative."""
    amount = _without_noise(pattern, requested, moment)
    return max(0.0, amount * (1 + pattern.noise * _chance(moment)) if pattern.noise else amount)


def _without_noise(
    pattern: UsageLevel | UsageWave | UsageRamp, requested: float, moment: UsageMoment
) -> float:
    match pattern:
        case UsageLevel():
            return pattern.level.of(requested)
        case UsageWave():
            turn = (moment.at - _EPOCH - pattern.peak) / pattern.every
            return pattern.mean.of(requested) + pattern.swing.of(requested) * math.cos(2 * math.pi * turn)
        case UsageRamp():
            part = min(max(moment.age / pattern.over, 0.0), 1.0)
            start, end = pattern.start.of(requested), pattern.end.of(requested)
            return start + (end - start) * part


def _chance(moment: UsageMoment) -> float:
    """Return noise between -1 and 1, derived from seed, subject and time."""
    step = math.floor((moment.at - _EPOCH).total_seconds() / _NOISE_STEP_S)
    digest = hashlib.blake2b(f"{moment.seed}/{moment.identity}/{step}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**63 - 1
