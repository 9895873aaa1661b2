"""Usage over time: a level, a wave, a ramp, each with some noise. Pure: the same moment, the same amount.

cpu: 80%                                            a level, here a share of the request
cpu: {level: 250m, noise: 0.1}                      ten percent up or down, by chance
cpu: {mean: 60%, swing: 30%, every: 24h, peak: 14h} a wave that is highest at 14:00 UTC
memory: {start: 20%, end: 110%, over: 6h}           a ramp from the container's start on: a leak
"""

import hashlib
import math
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag

from rescheduler.simulator.behaviour.values import NOTHING, Amount, AmountText, Duration, LongerThanNothing

__all__ = ["DEFAULT_USAGE", "Level", "Moment", "Ramp", "UsagePattern", "Wave", "amount_at"]

_NOISE_STEP_S = 15.0
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Noise = Annotated[float, Field(ge=0, le=1)]


class _Pattern(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    noise: Noise = 0.0
    """The largest part by which chance moves it, up or down; another one every 15 seconds."""


class Level(_Pattern):
    level: AmountText


class Wave(_Pattern):
    mean: AmountText
    swing: AmountText
    every: LongerThanNothing
    peak: Duration = NOTHING
    """So long after 1970 (for a day: after midnight UTC), and a period later, and so on."""


class Ramp(_Pattern):
    start: AmountText
    end: AmountText
    over: LongerThanNothing


def _shape(value: Any) -> str:
    named = value if isinstance(value, dict) else vars(value) if isinstance(value, _Pattern) else {}
    if named.keys() & {"mean", "swing", "every", "peak"}:
        return "wave"
    return "ramp" if named.keys() & {"start", "end", "over"} else "level"


UsagePattern = Annotated[
    Annotated[Level, Tag("level")] | Annotated[Wave, Tag("wave")] | Annotated[Ramp, Tag("ramp")],
    Discriminator(_shape),
    BeforeValidator(lambda value: value if isinstance(value, dict | _Pattern) else {"level": value}),
]

DEFAULT_USAGE: Level | Wave | Ramp = Level(level=Amount(share=0.5))


class Moment(NamedTuple):
    """When, for whom: everything that an amount depends on beside its pattern and what was requested."""

    at: datetime
    age: timedelta
    identity: str
    seed: int


def amount_at(pattern: Level | Wave | Ramp, requested: float, moment: Moment) -> float:
    """In the unit of what was requested; never below nothing."""
    amount = _without_noise(pattern, requested, moment)
    return max(0.0, amount * (1 + pattern.noise * _chance(moment)) if pattern.noise else amount)


def _without_noise(pattern: Level | Wave | Ramp, requested: float, moment: Moment) -> float:
    match pattern:
        case Level():
            return pattern.level.of(requested)
        case Wave():
            turn = (moment.at - _EPOCH - pattern.peak) / pattern.every
            return pattern.mean.of(requested) + pattern.swing.of(requested) * math.cos(2 * math.pi * turn)
        case Ramp():
            part = min(max(moment.age / pattern.over, 0.0), 1.0)
            start, end = pattern.start.of(requested), pattern.end.of(requested)
            return start + (end - start) * part


def _chance(moment: Moment) -> float:
    """Between -1 and 1, by the seed, who asks, and the time."""
    step = math.floor((moment.at - _EPOCH).total_seconds() / _NOISE_STEP_S)
    digest = hashlib.blake2b(f"{moment.seed}/{moment.identity}/{step}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**63 - 1
