"""Windows are hours in their own time zone."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.config.move_limits import Weekday, Window, next_opening, parse_limit, parse_windows
from rescheduler.config.policy import Policy

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


@pytest.mark.parametrize(
    ("windows", "moment", "opens"),
    [
        pytest.param((NIGHTS,), at(0, 3), at(0, 22), id="later today"),
        pytest.param((NIGHTS,), at(0, 22), at(1, 22), id="after the one that opens now"),
        pytest.param((NIGHTS,), at(2, 7), at(7, 22), id="next week"),
        pytest.param((NIGHTS, Window(from_=0, to=1)), at(0, 3), at(0, 22), id="the first of several"),
        pytest.param((NIGHTS, Window(from_=0, to=1)), at(0, 23), at(1, 0), id="the other one"),
    ],
)
def test_when_a_window_opens_next(windows, moment, opens):
    assert next_opening(windows, moment) == opens


def test_the_next_opening_is_by_the_clock_on_the_wall():
    """In the night in between, clocks are set forward."""
    window = Window(from_=9 * 60, to=10 * 60, zone=ZoneInfo("Europe/Berlin"))
    assert window.opens_after(datetime(2026, 3, 28, 12, tzinfo=UTC)) == datetime(2026, 3, 29, 7, tzinfo=UTC)


def test_windows_of_an_annotation():
    berlin = ZoneInfo("Europe/Berlin")
    assert parse_windows("Fri-Mon 22:00-06:00 Europe/Berlin; 9:30-24:00") == (
        Window(
            days=(Weekday.MON, Weekday.FRI, Weekday.SAT, Weekday.SUN), from_=22 * 60, to=6 * 60, zone=berlin
        ),
        Window(from_=9 * 60 + 30, to=24 * 60),
    )


@given(st.text(alphabet="MonTueSat0123456789:-,; UTC/%", max_size=40))
def test_any_text_is_windows_and_a_limit_or_malformed(text):
    windows, limit = parse_windows(text), parse_limit(text)
    assert windows is None or all(isinstance(each, Window) for each in windows)
    assert limit is None or isinstance(limit, int) or limit.endswith("%")
