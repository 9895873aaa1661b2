"""Times as the API holds them: whole seconds, UTC.

Moments as objects have them, and how far apart they are.

Conditions in a status: replaced by type, with the time of the last change.

Numbers that may be given as a share of another.
"""

from datetime import UTC, datetime
from functools import lru_cache

from kubesim.apiserver.api_messages import Object
from kubesim.virtual_time import timestamp

__all__ = [
    "condition",
    "earliest",
    "format_timestamp",
    "moment",
    "parse_timestamp",
    "scaled",
    "seconds_since",
    "set_condition",
    "set_pod_condition",
    "whole_second",
]


def parse_timestamp(text: str) -> datetime:
    return datetime.fromisoformat(text)


def whole_second(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(microsecond=0)


def format_timestamp(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def earliest(*moments: datetime | None) -> datetime | None:
    return min((moment for moment in moments if moment is not None), default=None)


@lru_cache(maxsize=4096)
def moment(text: str) -> datetime:
    """From RFC 3339, with or without fractions of a second."""
    return datetime.fromisoformat(text).astimezone(UTC)


def seconds_since(text: str, now: datetime) -> float:
    return (now - moment(text)).total_seconds()


def condition(status: Object, type_: str) -> Object | None:
    return next((item for item in status.get("conditions") or () if item.get("type") == type_), None)


def set_condition(status: Object, type_: str, value: str, *, now: datetime, **details: str) -> None:
    """Writes into `status`. The transition time stays if the value does."""
    before = condition(status, type_)
    since = (before or {}).get("lastTransitionTime") if before and before.get("status") == value else None
    new = {"type": type_, "status": value, "lastTransitionTime": since or timestamp(now)}
    new |= {field: text for field, text in details.items() if text}
    others = list(status.get("conditions") or ())
    if before is None:
        others.append(new)
    else:
        others[others.index(before)] = new
    status["conditions"] = others


def set_pod_condition(status: Object, type_: str, value: str, *, now: datetime, **details: str) -> None:
    """Conditions of pods also say when they were last probed, which nobody does any more."""
    before = condition(status, type_) or {}
    set_condition(status, type_, value, now=now, **details)
    changed = condition(status, type_)
    assert changed is not None
    changed["lastProbeTime"] = before.get("lastProbeTime")


def scaled(value: int | str | None, total: int, *, round_up: bool) -> int:
    """`3`, or `25%` of the total. Raises `ValueError` for any other text."""
    if value is None:
        return 0
    if isinstance(value, int):
        return value
    if not value.endswith("%"):
        raise ValueError(f"invalid value {value!r}: neither a number nor a percentage")
    share = int(value[:-1]) * total
    return -(-share // 100) if round_up else share // 100
