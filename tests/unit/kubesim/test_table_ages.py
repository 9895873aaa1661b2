"""Ages are rounded as the real server rounds them."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesim.printers.table_columns import human_duration, since

NOW = datetime(2026, 11, 15, 12, 0, 0, tzinfo=UTC)

MINUTE, HOUR, DAY, YEAR = 60, 3600, 86400, 365 * 86400


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        pytest.param(-2, "<invalid>", id="two seconds in the future are an error"),
        pytest.param(-1.9, "0s", id="less than two seconds in the future are clocks that differ"),
        pytest.param(0, "0s", id="now"),
        pytest.param(119.9, "119s", id="seconds up to two minutes, rounded down"),
        pytest.param(2 * MINUTE, "2m", id="then minutes"),
        pytest.param(5 * MINUTE + 30, "5m30s", id="with seconds up to ten minutes"),
        pytest.param(10 * MINUTE - 1, "9m59s", id="just below ten minutes"),
        pytest.param(10 * MINUTE + 30, "10m", id="without seconds from ten minutes"),
        pytest.param(3 * HOUR - 1, "179m", id="minutes up to three hours"),
        pytest.param(3 * HOUR, "3h", id="then hours"),
        pytest.param(3 * HOUR + 5 * MINUTE + 59, "3h5m", id="with minutes up to eight hours"),
        pytest.param(8 * HOUR + 5 * MINUTE, "8h", id="without minutes from eight hours"),
        pytest.param(2 * DAY - 1, "47h", id="hours up to two days"),
        pytest.param(2 * DAY, "2d", id="then days"),
        pytest.param(3 * DAY + 4 * HOUR, "3d4h", id="with hours up to eight days"),
        pytest.param(8 * DAY + 4 * HOUR, "8d", id="without hours from eight days"),
        pytest.param(2 * YEAR - 1, "729d", id="days up to two years"),
        pytest.param(2 * YEAR, "2y", id="then years"),
        pytest.param(2 * YEAR + 10 * DAY, "2y10d", id="with days up to eight years"),
        pytest.param(8 * YEAR + 10 * DAY, "8y", id="without days from eight years"),
        pytest.param(100 * YEAR, "100y", id="a century"),
    ],
)
def test_a_duration_is_shown_in_two_or_three_figures(seconds, shown):
    assert human_duration(timedelta(seconds=seconds)) == shown


UNITS = {"s": 1, "m": MINUTE, "h": HOUR, "d": DAY, "y": YEAR}


def seconds_of(shown):
    total, number = 0, ""
    for char in shown:
        if char.isdigit():
            number += char
        else:
            total, number = total + int(number) * UNITS[char], ""
    return total


@given(st.integers(0, 20 * YEAR))
def test_what_is_shown_is_never_longer_than_the_truth_and_at_most_an_eighth_shorter(seconds):
    shown = seconds_of(human_duration(timedelta(seconds=seconds)))

    assert shown <= seconds < shown + max(1, seconds / 8 + 1)


@given(st.integers(0, 20 * YEAR), st.integers(0, 20 * YEAR))
def test_older_never_looks_younger(one, other):
    younger, older = (seconds_of(human_duration(timedelta(seconds=s))) for s in sorted((one, other)))

    assert younger <= older


@pytest.mark.parametrize(
    ("timestamp", "shown"),
    [
        pytest.param("2026-11-15T11:59:00Z", "60s", id="a time in UTC"),
        pytest.param("2026-11-15T13:59:00+02:00", "60s", id="a time of another zone"),
        pytest.param("2026-11-15T11:59:00.500000Z", "59s", id="a time with fractions"),
        pytest.param(None, "<unknown>", id="no time"),
        pytest.param("", "<unknown>", id="an empty time"),
        pytest.param("yesterday", "<invalid>", id="no time at all"),
    ],
)
def test_an_age_is_the_time_since_a_timestamp(timestamp, shown):
    assert since(timestamp, NOW) == shown
