"""The small values that behaviour is written in: durations, amounts of a resource, names with wildcards."""

from dataclasses import dataclass
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import Annotated

from pydantic import Field, PlainValidator

from rescheduler.model.duration import parse_duration
from rescheduler.model.quantity import parse_quantity

__all__ = [
    "IGNORED",
    "NOTHING",
    "Amount",
    "AmountText",
    "Duration",
    "LongerThanNothing",
    "Pattern",
    "Termination",
    "fits",
]

NOTHING = timedelta(0)
IGNORED = timedelta.max
"""The termination time of a container that does not listen to SIGTERM."""

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


def _some_time(value: timedelta) -> timedelta:
    if value == NOTHING:
        raise ValueError("must be longer than 0s")
    return value


Duration = Annotated[timedelta, PlainValidator(_duration)]
LongerThanNothing = Annotated[timedelta, PlainValidator(lambda value: _some_time(_duration(value)))]
Termination = Annotated[
    timedelta, PlainValidator(lambda value: IGNORED if value == "ignored" else _duration(value))
]


@dataclass(frozen=True, slots=True)
class Amount:
    """So much of a resource, or a share of what was requested: `250m`, `1Gi`, `80%`."""

    units: float = 0.0
    """Cores or bytes."""
    share: float = 0.0

    def of(self, requested: float) -> float:
        return self.units + self.share * requested


def _amount(value: object) -> Amount:
    if isinstance(value, Amount):
        return value
    text = str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value
    if not isinstance(text, str):
        raise ValueError("must be a quantity such as 250m or 1Gi, or a share such as 80%")  # noqa: TRY004
    if text.endswith("%"):
        try:
            amount = Amount(share=float(text[:-1]) / 100)
        except ValueError:
            raise ValueError("must be a number of percent such as 80%") from None
    else:
        amount = Amount(units=parse_quantity(text).nanos / 1e9)
    if not 0 <= amount.units + amount.share < float("inf"):
        raise ValueError("must not be negative or endless")
    return amount


AmountText = Annotated[Amount, PlainValidator(_amount)]
