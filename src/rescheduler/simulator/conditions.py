"""Conditions in a status: replaced by type, with the time of the last change."""

from datetime import datetime

from rescheduler.simulator.clock import timestamp
from rescheduler.simulator.exchange import Object

__all__ = ["condition", "set_condition", "set_pod_condition"]


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
