"""Cron schedules: when the next time is. Pure; what is wrong with one was told at admission."""

from datetime import datetime, timedelta
from functools import lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo

from rescheduler.model.duration import parse_duration

__all__ = ["next_time"]

_EVERY = "@every "
_NAMED = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_BOUNDS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))
_NAMES = {
    3: ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"),
    4: ("sun", "mon", "tue", "wed", "thu", "fri", "sat"),
}
_FARTHEST = timedelta(days=5 * 366)


class _Schedule(NamedTuple):
    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    any_day: bool
    any_weekday: bool

    def includes_day(self, day: datetime) -> bool:
        if day.month not in self.months:
            return False
        by_day, by_weekday = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        # Both given: either will do.
        return by_day and by_weekday if self.any_day or self.any_weekday else by_day or by_weekday


def next_time(schedule: str, after: datetime, zone: str = "UTC") -> datetime | None:
    """The first time later than `after`; none if there is none in the next years."""
    if schedule.startswith(_EVERY):
        delay = parse_duration(schedule.removeprefix(_EVERY))
        return after.replace(microsecond=0) + max(delay, timedelta(seconds=1))
    parsed = _parse(_NAMED.get(schedule, schedule))
    moment = after.astimezone(ZoneInfo(zone)).replace(second=0, microsecond=0) + timedelta(minutes=1)
    end = moment + _FARTHEST
    while moment < end:
        if not parsed.includes_day(moment):
            moment = (moment + timedelta(days=1)).replace(hour=0, minute=0)
        elif moment.hour not in parsed.hours:
            moment = (moment + timedelta(hours=1)).replace(minute=0)
        elif moment.minute not in parsed.minutes:
            moment += timedelta(minutes=1)
        else:
            return moment.astimezone(after.tzinfo)
    return None


@lru_cache(maxsize=256)
def _parse(schedule: str) -> _Schedule:
    fields = schedule.split()
    minutes, hours, days, months, weekdays = (_values(field, at) for at, field in enumerate(fields))
    free = [field.startswith(("*", "?")) for field in fields]
    return _Schedule(minutes, hours, days, months, weekdays, any_day=free[2], any_weekday=free[4])


def _values(field: str, at: int) -> frozenset[int]:
    lowest, highest = _BOUNDS[at]
    found: set[int] = set()
    for part in field.split(","):
        bounds, slash, step = part.partition("/")
        if bounds in {"*", "?"}:
            first, last = lowest, highest
        else:
            start, dash, end = bounds.partition("-")
            first = _number(start, at)
            last = _number(end, at) if dash else highest if slash else first
        found.update(range(first, last + 1, int(step) if slash else 1))
    return frozenset(found)


def _number(text: str, at: int) -> int:
    names = _NAMES.get(at, ())
    return names.index(text.lower()) + _BOUNDS[at][0] if text.lower() in names else int(text)
