"""Durations are read and written as Go reads and writes them."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubevalues.duration import (
    DurationError,
    format_duration,
    format_nanoseconds,
    parse_duration,
    parse_nanoseconds,
    short_duration,
)

LARGEST = 2**63 - 1
nanoseconds = st.integers(-(2**63), LARGEST)
spans = st.timedeltas(timedelta(days=-100_000), timedelta(days=100_000))


# Text, nanoseconds and String(): printed by Go 1.26.
@pytest.mark.parametrize(
    ("text", "expected", "written"),
    [
        ("0", 0, "0s"),
        ("+0", 0, "0s"),
        ("-0", 0, "0s"),
        ("1h30m", 5_400_000_000_000, "1h30m0s"),
        ("500ms", 500_000_000, "500ms"),
        ("1.5h", 5_400_000_000_000, "1h30m0s"),
        ("-1.5h", -5_400_000_000_000, "-1h30m0s"),
        (".5s", 500_000_000, "500ms"),
        ("5.s", 5_000_000_000, "5s"),
        ("+5s", 5_000_000_000, "5s"),
        ("1m90s", 150_000_000_000, "2m30s"),
        ("1h1h", 7_200_000_000_000, "2h0m0s"),
        ("1us", 1000, "1µs"),
        ("1µs", 1000, "1µs"),
        ("1μs", 1000, "1µs"),
        ("1.5µs", 1500, "1.5µs"),
        ("1500us", 1_500_000, "1.5ms"),
        ("1ns", 1, "1ns"),
        ("1.0000001s", 1_000_000_100, "1.0000001s"),
        ("39h9m14.425s", 140_954_425_000_000, "39h9m14.425s"),
        ("0.000000000001h", 3, "3ns"),
        ("0.3333333333333333333h", 1_200_000_000_000, "20m0s"),
        ("0.830103483285477580700h", 2_988_372_539_827, "49m48.372539827s"),
        ("0.100000000000000000000h", 360_000_000_000, "6m0s"),
        ("9223372036854775807ns", LARGEST, "2562047h47m16.854775807s"),
        ("-9223372036854775808ns", -LARGEST - 1, "-2562047h47m16.854775808s"),
    ],
)
def test_reads_and_writes_what_go_does(text, expected, written):
    assert parse_nanoseconds(text) == expected
    assert format_nanoseconds(expected) == written


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "not a duration"),
        ("+", "not a duration"),
        (".", "not a duration"),
        (".s", "not a duration"),
        ("s", "not a duration"),
        (" 1s", "not a duration"),
        ("--1s", "not a duration"),
        ("1", "without a unit"),
        ("1h30", "without a unit"),
        ("1d", "unknown unit 'd'"),
        ("1S", "unknown unit 'S'"),
        ("1s ", "unknown unit 's '"),
        ("1e3s", "unknown unit 'e'"),
        ("1_0s", "unknown unit '_'"),
        ("1h-30m", "unknown unit 'h-'"),
        ("\uff11s", "not a duration"),
        ("9223372036854775808ns", "too long"),
        ("2562047h47m16.854775808s", "too long"),
        ("100000000000000000000h", "too long"),
        ("9" * 5000 + "h", "too long"),
    ],
)
def test_refuses_what_go_refuses_and_says_why(text, problem):
    with pytest.raises(DurationError, match=problem):
        parse_nanoseconds(text)


@given(nanoseconds)
def test_writing_and_reading_again_loses_nothing(amount):
    assert parse_nanoseconds(format_nanoseconds(amount)) == amount


@given(spans)
def test_a_timedelta_survives_both_ways_of_writing_it(span):
    assert parse_duration(format_duration(span)) == span
    assert parse_duration(short_duration(span)) == span


@given(nanoseconds)
def test_below_a_microsecond_rounds_away_from_zero(amount):
    microseconds = parse_duration(f"{amount}ns") / timedelta(microseconds=1)
    span = parse_duration(f"{amount}ns")
    assert abs(span // timedelta(microseconds=1)) * 1000 - abs(amount) in range(1000)
    assert (microseconds > 0) is (amount > 0)
    assert (microseconds < 0) is (amount < 0)


@pytest.mark.parametrize(
    ("span", "short"),
    [
        (timedelta(hours=24), "24h"),
        (timedelta(hours=1, minutes=30), "1h30m"),
        (timedelta(hours=1, seconds=1), "1h0m1s"),
        (timedelta(minutes=10), "10m"),
        (timedelta(seconds=30), "30s"),
        (timedelta(minutes=-5), "-5m"),
        (timedelta(), "0s"),
    ],
)
def test_the_short_form_is_what_users_write(span, short):
    assert short_duration(span) == short


@given(st.text(alphabet="0123456789.hmsuµn+- ", max_size=12))
def test_any_text_is_read_or_refused_and_nothing_else(text):
    try:
        amount = parse_nanoseconds(text)
    except DurationError:
        return
    assert -(2**63) <= amount <= LARGEST
