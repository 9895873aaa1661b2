"""Define when and how often pods may move: windows, moves per hour, and annotations for both."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta, tzinfo
from enum import StrEnum
from functools import lru_cache
from typing import Annotated

from kubevalues.quantity import IntOrString
from rescheduler.config.policy_blocks import BLOCK_CONFIG
from rescheduler.config.setting_rules import (
    InvalidSetting,
    clock_time,
    number_or_percentage,
    one_of,
    time_zone,
)

__all__ = [
    "MALFORMED_LIMIT",
    "MALFORMED_WINDOWS",
    "MovesPerHour",
    "Weekday",
    "Window",
    "next_opening",
    "next_opening_text",
    "parse_limit",
    "parse_windows",
]


class Weekday(StrEnum):
    """The days of the week, in the order of `datetime.weekday()`."""

    MON = "Mon"
    TUE = "Tue"
    WED = "Wed"
    THU = "Thu"
    FRI = "Fri"
    SAT = "Sat"
    SUN = "Sun"


_WEEK = tuple(Weekday)


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    __pydantic_config__ = BLOCK_CONFIG

    days: tuple[Annotated[Weekday, one_of(Weekday)], ...] = _WEEK
    """Days on which the window opens."""
    from_: Annotated[int, clock_time()]
    """When it opens."""
    to: Annotated[int, clock_time()]
    """When it closes; a time before `from` is on the next day."""
    zone: Annotated[tzinfo, time_zone()] = UTC
    """Time zone of `from` and `to`."""

    def __post_init__(self) -> None:
        if self.from_ == self.to:
            raise InvalidSetting('from and to must differ; a whole day is from "00:00" to "24:00"')
        if not self.days:
            raise InvalidSetting("at least one day; leave days unset for every day")

    def is_open(self, moment: datetime) -> bool:
        """Return whether the window is open in the local time of its zone. `moment` must have a zone, too."""
        local = moment.astimezone(self.zone)
        minute = local.hour * 60 + local.minute
        opens_today = _WEEK[local.weekday()] in self.days
        if self.from_ < self.to:
            return opens_today and self.from_ <= minute < self.to
        opened_yesterday = _WEEK[(local - timedelta(days=1)).weekday()] in self.days
        return (opens_today and minute >= self.from_) or (opened_yesterday and minute < self.to)

    def opens_after(self, moment: datetime) -> datetime:
        """Return when the window opens next, in UTC."""
        today = moment.astimezone(self.zone).date()
        days = (today + timedelta(days=number) for number in range(9))
        openings = (
            (datetime.combine(day, time(), self.zone) + timedelta(minutes=self.from_)).astimezone(UTC)
            for day in days
            if _WEEK[day.weekday()] in self.days
        )
        return next(each for each in openings if each > moment)


def next_opening(windows: Iterable[Window], moment: datetime) -> datetime:
    """Return when the first of these windows opens after that moment, in UTC."""
    return min(window.opens_after(moment) for window in windows)


def next_opening_text(windows: Iterable[Window], moment: datetime) -> str:
    """Return `next_opening` for messages: `Tue 22:00 UTC`."""
    return f"{next_opening(windows, moment):%a %H:%M} UTC"


Limit = Annotated[IntOrString | None, number_or_percentage()]


@dataclass(frozen=True, slots=True, kw_only=True)
class MovesPerHour:
    __pydantic_config__ = BLOCK_CONFIG

    total: Limit = None
    """Moves that may start per hour; a percentage is of all pods on nodes. Unset means no limit."""
    per_namespace: Limit = None
    """Moves that may start per hour in each namespace; a percentage is of its pods."""
    per_workload: Limit = None
    """Moves that may start per hour of each workload; a percentage is of its pods."""

    @property
    def is_set(self) -> bool:
        return any(each is not None for each in (self.total, self.per_namespace, self.per_workload))


# -- annotations

_MAX_LENGTH = 1000
_WINDOW = re.compile(
    r"(?:(?P<days>[A-Z][a-z]{2}(?:[-,][A-Z][a-z]{2})*) +)?"
    r"(?P<from>[0-9]{1,2}:[0-9]{2})-(?P<to>[0-9]{1,2}:[0-9]{2})"
    r"(?: +(?P<zone>[A-Za-z0-9_+/-]+))?"
)

MALFORMED_WINDOWS = (
    "is not a list of windows such as `Mon-Fri 22:00-06:00 Europe/Berlin; Sat,Sun 00:00-24:00`"
)
MALFORMED_LIMIT = "is neither an integer from 0 nor a percentage such as `10%`"


@lru_cache(maxsize=4096)
def parse_windows(text: str) -> tuple[Window, ...] | None:
    """Return the windows of an annotation: `[DAYS] FROM-TO [ZONE]`, separated by semicolons.

    Return None if the text is malformed.
    """
    if len(text) > _MAX_LENGTH:
        return None
    try:
        return tuple(_window(part.strip()) for part in text.split(";"))
    except InvalidSetting:
        return None


def _window(text: str) -> Window:
    found = _WINDOW.fullmatch(text)
    if found is None:
        raise InvalidSetting
    opens, closes = (clock_time().read(found[each]) for each in ("from", "to"))
    zone = time_zone().read(found["zone"] or "UTC")
    return Window(days=_days(found["days"] or "Mon-Sun"), from_=opens, to=closes, zone=zone)


def _days(text: str) -> tuple[Weekday, ...]:
    found: set[Weekday] = set()
    for part in text.split(","):
        ends = [one_of(Weekday).read(name) for name in part.split("-")]
        if len(ends) > 2:
            raise InvalidSetting
        first, last = _WEEK.index(ends[0]), _WEEK.index(ends[-1])
        found.update(_WEEK[(first + number) % 7] for number in range((last - first) % 7 + 1))
    return tuple(day for day in _WEEK if day in found)


@lru_cache(maxsize=4096)
def parse_limit(text: str) -> IntOrString | None:
    """Return the number or percentage of an annotation; None if the text is malformed."""
    is_number = text.isascii() and text.isdigit() and len(text) < 10
    try:
        found: IntOrString = number_or_percentage().read(int(text) if is_number else text)
    except InvalidSetting:
        return None
    return found
