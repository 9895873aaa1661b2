"""Windows are hours on the wall clock of their own time zone."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from rescheduler.config.policy import Policy
from rescheduler.config.policy_blocks import Weekday, Window

SATURDAY = datetime(2026, 1, 3, tzinfo=UTC)
NIGHTS = Window(days=(Weekday.SAT, Weekday.SUN), from_=22 * 60, to=6 * 60)


def at(days, hours, minutes=0):
    return SATURDAY + timedelta(days=days, hours=hours, minutes=minutes)


@pytest.mark.parametrize(
    ("moment", "is_open"),
    [
        pytest.param(at(0, 21, 59), False, id="closed a minute before it opens"),
        pytest.param(at(0, 22), True, id="open when it opens"),
        pytest.param(at(1, 5, 59), True, id="open after midnight"),
        pytest.param(at(1, 6), False, id="closed when it closes"),
        pytest.param(at(1, 23), True, id="open on the second night"),
        pytest.param(at(2, 3), True, id="open on Monday morning, for it opened on Sunday"),
        pytest.param(at(2, 23), False, id="closed on Monday night"),
        pytest.param(at(0, 3), False, id="closed on Saturday morning, for Friday is no such day"),
    ],
)
def test_a_window_over_midnight(moment, is_open):
    assert NIGHTS.is_open(moment) is is_open


def test_a_window_within_a_day():
    office = Window(days=(Weekday.SAT,), from_=9 * 60, to=17 * 60)
    assert [hour for hour in range(48) if office.is_open(at(0, hour))] == list(range(9, 17))


def test_a_whole_day_ends_at_24_hours():
    whole = Window(days=(Weekday.SUN,), from_=0, to=24 * 60)
    assert [hour for hour in range(72) if whole.is_open(at(0, hour))] == list(range(24, 48))


def test_the_clock_on_the_wall_counts_in_summer_and_winter():
    window = Window(from_=9 * 60, to=10 * 60, zone=ZoneInfo("Europe/Berlin"))
    assert window.is_open(datetime(2026, 1, 5, 8, 30, tzinfo=UTC))
    assert window.is_open(datetime(2026, 7, 6, 7, 30, tzinfo=UTC))
    assert not window.is_open(datetime(2026, 7, 6, 8, 30, tzinfo=UTC))


def test_without_windows_moves_may_always_start():
    assert Policy().in_window(SATURDAY)
    assert not Policy(windows=(NIGHTS,)).in_window(SATURDAY)
    assert Policy(windows=(NIGHTS, Window(from_=0, to=1))).in_window(SATURDAY)
