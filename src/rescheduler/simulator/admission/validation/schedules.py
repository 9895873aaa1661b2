"""The five fields of a cron schedule, checked and complained about as the controller's parser does it."""

from collections.abc import Iterator

from rescheduler.model.duration import parse_duration

__all__ = ["schedule_fault"]

_FIELDS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
_NAMED = ("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly")


def schedule_fault(schedule: str) -> str | None:
    """What is wrong with it; none if nothing is."""
    if schedule.startswith("@"):
        if schedule in _NAMED:
            return None
        if schedule.startswith("@every "):
            return _interval_fault(schedule)
        return f"unrecognized descriptor: {schedule}"
    fields = schedule.split()
    if len(fields) != len(_FIELDS):
        return f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]"
    return next((fault for index, field in enumerate(fields) for fault in _field_faults(field, index)), None)


def _interval_fault(schedule: str) -> str | None:
    try:
        parse_duration(schedule.removeprefix("@every "))
    except ValueError as wrong:
        return f"failed to parse duration {schedule}: {wrong}"
    return None


def _field_faults(field: str, index: int) -> Iterator[str]:
    for expression in field.split(","):
        if fault := _range_fault(expression, index):
            yield fault


def _range_fault(expression: str, index: int) -> str | None:
    lowest, highest = _FIELDS[index]
    bounds, slash, step = expression.partition("/")
    if "/" in step:
        return f"too many slashes: {expression}"
    if slash and not step.isdecimal():
        return _no_number(step)
    if slash and int(step) == 0:
        return f"step of range should be a positive number: {expression}"
    if bounds in ("*", "?"):
        return None
    start_text, dash, end_text = bounds.partition("-")
    if "-" in end_text:
        return f"too many hyphens: {expression}"
    start = _number(start_text, index)
    if start is None:
        return _no_number(start_text)
    end = _number(end_text, index) if dash else highest if slash else start
    if end is None:
        return _no_number(end_text)
    if start < lowest:
        return f"beginning of range ({start}) below minimum ({lowest}): {expression}"
    if end > highest:
        return f"end of range ({end}) above maximum ({highest}): {expression}"
    return f"beginning of range ({start}) beyond end of range ({end}): {expression}" if start > end else None


def _number(text: str, index: int) -> int | None:
    if text.isdecimal() and text.isascii():
        return int(text)
    if index == 3 and text.lower() in _MONTHS:
        return _MONTHS.index(text.lower()) + 1
    if index == 4 and text.lower() in _DAYS:
        return _DAYS.index(text.lower())
    return None


def _no_number(text: str) -> str:
    return f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": invalid syntax'
