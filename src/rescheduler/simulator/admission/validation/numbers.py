"""Rules for numbers and for numbers or percentages."""

from collections.abc import Iterable, Iterator

from rescheduler.simulator.admission import causes, names
from rescheduler.simulator.exchange import Object
from rescheduler.simulator.failures import Cause

__all__ = ["as_number", "check_at_most_all", "check_count_or_percent", "check_not_negative", "check_positive"]

NOT_NEGATIVE = "must be greater than or equal to 0"


def check_not_negative(holder: Object, fields: Iterable[str], path: str) -> Iterator[Cause]:
    for field in fields:
        if holder.get(field, 0) < 0:
            yield causes.invalid(f"{path}.{field}", holder[field], NOT_NEGATIVE)


def check_positive(number: int, path: str) -> Iterator[Cause]:
    if number <= 0:
        yield causes.invalid(path, number, "must be greater than zero")


def check_count_or_percent(value: int | str, path: str) -> Iterator[Cause]:
    if isinstance(value, str):
        for complaint in names.percentage(value):
            yield causes.invalid(path, value, complaint)
    elif value < 0:
        yield causes.invalid(path, value, NOT_NEGATIVE)


def as_number(value: int | str) -> int:
    """Of what counts, only whether it is zero matters: `0%` is as little as 0."""
    if isinstance(value, int):
        return value
    return int(value[:-1]) if not names.percentage(value) else 0


def check_at_most_all(value: int | str, path: str) -> Iterator[Cause]:
    if isinstance(value, str) and as_number(value) > 100:
        yield causes.invalid(path, value, "must not be greater than 100%")
