"""Fields that objects of many kinds share: timestamps, conditions, and numbers or percentages."""

from datetime import UTC, datetime
from functools import lru_cache

from kubesim.apiserver.api_messages import Object

__all__ = [
    "condition",
    "earliest",
    "format_timestamp",
    "parse_timestamp",
    "scaled",
    "seconds_since",
    "set_condition",
    "set_pod_condition",
    "whole_second",
]


@lru_cache(maxsize=4096)
def parse_timestamp(text: str) -> datetime:
    """Read RFC 3339, with or without fractions of a second; without an offset, the time is in UTC."""
    moment = datetime.fromisoformat(text)
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)


def format_timestamp(moment: datetime) -> str:
    """Write a time as `metadata.creationTimestamp` does: whole seconds in UTC."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def seconds_since(text: str, now: datetime) -> float:
    return (now - parse_timestamp(text)).total_seconds()


def whole_second(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(microsecond=0)


def earliest(*moments: datetime | None) -> datetime | None:
    return min((moment for moment in moments if moment is not None), default=None)


def condition(status: Object, type_: str) -> Object | None:
    return next((item for item in status.get("conditions") or () if item.get("type") == type_), None)


def set_condition(status: Object, type_: str, value: str, *, now: datetime, **details: str) -> None:
    """Write a condition into `status`; keep its transition time if its value stays the same."""
    before = condition(status, type_)
    since = (before or {}).get("lastTransitionTime") if before and before.get("status") == value else None
    new = {"type": type_, "status": value, "lastTransitionTime": since or format_timestamp(now)}
    new |= {field: text for field, text in details.items() if text}
    others = list(status.get("conditions") or ())
    if before is None:
        others.append(new)
    else:
        others[others.index(before)] = new
    status["conditions"] = others


def set_pod_condition(status: Object, type_: str, value: str, *, now: datetime, **details: str) -> None:
    """Write a condition of a pod, which also has a probe time that no component sets any more."""
    before = condition(status, type_) or {}
    set_condition(status, type_, value, now=now, **details)
    changed = condition(status, type_)
    assert changed is not None
    changed["lastProbeTime"] = before.get("lastProbeTime")


def scaled(value: int | str | None, total: int, *, round_up: bool) -> int:
    """Return the number, or the percentage (`25%`) of the total; raise `ValueError` for any other text."""
    if value is None:
        return 0
    if isinstance(value, int):
        return value
    if not value.endswith("%"):
        raise ValueError(f"invalid value {value!r}: neither a number nor a percentage")
    share = int(value[:-1]) * total
    return -(-share // 100) if round_up else share // 100
