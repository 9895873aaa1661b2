"""Parse and format durations as Go writes them (`1h30m`, `500ms`).

A duration is a `timedelta`. Go counts nanoseconds; fractions of a microsecond are rounded away from zero,
so that a positive timeout never becomes zero. Only `parse_nanoseconds` is exact.
"""

import re
from datetime import timedelta

__all__ = [
    "DurationError",
    "format_duration",
    "format_nanoseconds",
    "parse_duration",
    "parse_nanoseconds",
    "short_duration",
]

ALLOWED = "a duration such as 90s, 1h30m or 500ms (units: h, m, s, ms, us, ns)"

_MICROSECOND = 1_000
_MILLISECOND = 1_000_000
_SECOND = 1_000_000_000
_UNITS = {
    "ns": 1,
    "us": _MICROSECOND,
    "µs": _MICROSECOND,  # U+00B5, the micro sign
    "μs": _MICROSECOND,  # U+03BC, the Greek letter: Go accepts both
    "ms": _MILLISECOND,
    "s": _SECOND,
    "m": 60 * _SECOND,
    "h": 3600 * _SECOND,
}
_PART = re.compile(r"(?P<integer>[0-9]*)(?P<fraction>\.[0-9]*)?(?P<unit>[^0-9.]*)")
_LARGEST = 2**63
_LONGEST_TEXT = 1000


class DurationError(ValueError):
    """The text is not a duration; the message says why and what is allowed."""


def parse_duration(text: str) -> timedelta:
    """Parse a duration to the microsecond, rounded away from zero; raise `DurationError`."""
    nanoseconds = parse_nanoseconds(text)
    microseconds = -(-abs(nanoseconds) // _MICROSECOND)
    return timedelta(microseconds=microseconds if nanoseconds >= 0 else -microseconds)


def parse_nanoseconds(text: str) -> int:
    """Parse a duration as Go's `time.ParseDuration` does, to the nanosecond; raise `DurationError`."""
    if len(text) > _LONGEST_TEXT:
        raise DurationError(f"{text[:40]!r}… is too long: {ALLOWED}")
    unsigned = text[1:] if text[:1] in ("-", "+") else text
    if unsigned == "0":
        return 0
    if not unsigned:
        raise DurationError(f"{text!r} is not a duration: {ALLOWED}")
    total = 0
    position = 0
    while position < len(unsigned):
        part = _PART.match(unsigned, position)
        assert part is not None  # the pattern matches anything, even the empty text
        total += _part_nanoseconds(part, text)
        position = part.end()
    if total > _LARGEST or (total == _LARGEST and not text.startswith("-")):
        raise DurationError(f"{text!r} is too long: at most 2562047h47m (about 292 years)")
    return -total if text.startswith("-") else total


def _part_nanoseconds(part: re.Match[str], text: str) -> int:
    digits = (part["fraction"] or "").removeprefix(".")
    if not (part["integer"] or digits):
        raise DurationError(f"{text!r} is not a duration: {ALLOWED}")
    if not part["unit"]:
        raise DurationError(f"{text!r} has a number without a unit: {ALLOWED}")
    unit = _UNITS.get(part["unit"])
    if unit is None:
        raise DurationError(f"{text!r} has the unknown unit {part['unit']!r}: {ALLOWED}")
    return int(part["integer"] or "0") * unit + _fraction(digits, unit)


def _fraction(digits: str, unit: int) -> int:
    """Compute the fraction in floating point, as Go does: `0.3333333333333333333h` is 20 minutes."""
    kept = 0
    scale = 1.0
    for digit in digits:
        longer = kept * 10 + int(digit)
        if kept > (_LARGEST - 1) // 10 or longer > _LARGEST:
            break
        kept = longer
        scale *= 10
    return int(float(kept) * (unit / scale))


def format_duration(duration: timedelta) -> str:
    """Format a duration as Go's `Duration.String` does: `1h30m0s`, `1.5ms`, `0s`."""
    return format_nanoseconds(duration // timedelta(microseconds=1) * _MICROSECOND)


def short_duration(duration: timedelta) -> str:
    """Format a duration without the zeros at its end: `1h30m`, as people write it."""
    text = format_duration(duration)
    for tail, kept in (("m0s", "m"), ("h0m", "h")):
        text = text.removesuffix(tail) + kept if text.endswith(tail) else text
    return text


def format_nanoseconds(nanoseconds: int) -> str:
    """Format nanoseconds as Go's `Duration.String` does."""
    sign = "-" if nanoseconds < 0 else ""
    rest = abs(nanoseconds)
    if rest < _SECOND:
        return sign + _below_a_second(rest)
    minutes, rest = divmod(rest, 60 * _SECOND)
    hours, minutes = divmod(minutes, 60)
    seconds = f"{_decimal(rest, _SECOND)}s"
    if hours:
        return f"{sign}{hours}h{minutes}m{seconds}"
    return f"{sign}{minutes}m{seconds}" if minutes else f"{sign}{seconds}"


def _below_a_second(nanoseconds: int) -> str:
    if nanoseconds == 0:
        return "0s"
    if nanoseconds < _MICROSECOND:
        return f"{nanoseconds}ns"
    if nanoseconds < _MILLISECOND:
        return f"{_decimal(nanoseconds, _MICROSECOND)}µs"
    return f"{_decimal(nanoseconds, _MILLISECOND)}ms"


def _decimal(amount: int, unit: int) -> str:
    """Return amount / unit, exactly, without zeros at the end."""
    integer, rest = divmod(amount, unit)
    fraction = str(unit + rest)[1:].rstrip("0")
    return f"{integer}.{fraction}" if fraction else str(integer)
