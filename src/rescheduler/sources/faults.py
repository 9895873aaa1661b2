"""What is wrong with an object that could not be read: all of it, each with its path.

Parsers stop at the first fault and know only the part they were given; this goes through the whole object
with the table of fields, which says what every value should be. It runs for faulty objects only.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rescheduler.model.json_faults import fault_in
from rescheduler.model.objects import UnreadableObject
from rescheduler.model.quantity import QuantityError, quantity_of
from rescheduler.sources.fields import FIELDS, Fields, What

__all__ = ["faults_of"]

_MOST = 20
_LONGEST = 60


def faults_of(kind: str, content: Any, error: Exception | None = None) -> list[str]:
    """`error` is what the parser said; it counts where this finds nothing."""
    found = [fault for _, fault in zip(range(_MOST), _walk(content, FIELDS[kind], ""), strict=False)]
    if not found and error is not None:
        found.append(_said_by(error))
    return found


def _said_by(error: Exception) -> str:
    if isinstance(error, UnreadableObject):
        return error.fault
    if isinstance(error, KeyError):
        return f"metadata.{error.args[0]} is missing"
    return fault_in("", error)


def _walk(value: Any, fields: Fields, path: str) -> Iterator[str]:
    if value is None:
        return
    if isinstance(fields, What):
        if check := _CHECKS.get(fields):
            yield from check(value, path)
    elif isinstance(value, list):
        for place, each in enumerate(value):
            at = f"{path}[{place}]"
            if each is None:
                yield f"{at}: an object is needed, not None"
            yield from _walk(each, fields, at)
    elif isinstance(value, dict):
        for name, part in value.items():
            if name in fields:
                yield from _walk(part, fields[name], f"{path}.{name}" if path else name)
    else:
        yield f"{path}: an object is needed, not {_shown(value)}"


def _texts(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, list):
        for place, each in enumerate(value):
            yield from _text(each, f"{path}[{place}]")
    else:
        yield from _text(value, path)


def _text(value: Any, path: str) -> Iterator[str]:
    if not isinstance(value, str):
        yield f"{path}: a text is needed, not {_shown(value)}"


def _quantity(value: Any, path: str) -> Iterator[str]:
    try:
        if quantity_of(value).nanos < 0:
            yield f"{path}: {_shown(value)} is less than nothing"
    except QuantityError as error:
        yield f"{path}: {error}"
    except (TypeError, ValueError, OverflowError):
        yield f"{path}: a quantity is needed, not {_shown(value)}"


def _entries(check: Callable[[Any, str], Iterator[str]]) -> Callable[[Any, str], Iterator[str]]:
    def each(value: Any, path: str) -> Iterator[str]:
        if not isinstance(value, dict):
            yield f"{path}: an object is needed, not {_shown(value)}"
            return
        for name, part in value.items():
            yield from check(part, f'{path}["{name}"]')

    return each


def _requirements(value: Any, path: str) -> Iterator[str]:
    for place, each in enumerate(value if isinstance(value, list) else [value]):
        at = f"{path}[{place}]"
        if not isinstance(each, dict):
            yield f"{at}: an object is needed, not {_shown(each)}"
            continue
        for name in ("key", "operator", "values", "value", "effect"):
            if each.get(name) is not None or (name == "key" and name in each):
                yield from _texts(each[name], f"{at}.{name}")


_CHECKS: Mapping[What, Callable[[Any, str], Iterator[str]]] = {
    **dict.fromkeys(
        (
            What.NAME, What.NAMESPACE, What.CLAIM, What.UID, What.KIND, What.DRIVER, What.CONDITION,
            What.ADDRESS, What.LABEL_KEY,
        ),
        _texts,
    ),
    What.LABELS: _entries(_text),
    What.MARKS: _entries(_text),
    What.TIMES: _entries(_text),
    What.AMOUNTS: _entries(_quantity),
    What.REQUIREMENT: _requirements,
    What.FIELD_REQUIREMENT: _requirements,
    What.TAINT: _requirements,
}  # fmt: skip


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
