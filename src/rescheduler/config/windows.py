"""When moves may start: hours of chosen days, in a time zone of one's own."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from enum import StrEnum
from typing import Annotated

from rescheduler.config.shape import BLOCK
from rescheduler.config.values import Refused, clock_time, one_of, time_zone

__all__ = ["Weekday", "Window"]


class Weekday(StrEnum):
    """In the order of `datetime.weekday()`."""

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
    __pydantic_config__ = BLOCK

    days: tuple[Annotated[Weekday, one_of(Weekday)], ...] = _WEEK
    """Days on which the window opens."""
    from_: Annotated[int, clock_time()]
    """When it opens."""
    to: Annotated[int, clock_time()]
    """When it closes; earlier than `from` means on the next day."""
    zone: Annotated[tzinfo, time_zone()] = UTC
    """Time zone of `from` and `to`."""

    def __post_init__(self) -> None:
        if self.from_ == self.to:
            raise Refused('from and to must differ; a whole day is from "00:00" to "24:00"')
        if not self.days:
            raise Refused("at least one day, or no days at all for every day")

    def is_open(self, moment: datetime) -> bool:
        """`moment` needs a time zone, any; what counts is the clock on the wall in ours."""
        local = moment.astimezone(self.zone)
        minute = local.hour * 60 + local.minute
        opens_today = _WEEK[local.weekday()] in self.days
        if self.from_ < self.to:
            return opens_today and self.from_ <= minute < self.to
        opened_yesterday = _WEEK[(local - timedelta(days=1)).weekday()] in self.days
        return (opens_today and minute >= self.from_) or (opened_yesterday and minute < self.to)
