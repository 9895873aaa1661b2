"""Whether a pod keeps failing, what was tried and what comes next, as `explain` tells it."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from rescheduler.cli.terminal import Terminal, wrapped
from rescheduler.cli.wording import counted
from rescheduler.planner.recovery_explained import Recovery
from rescheduler.recovery.ledger import Try

__all__ = ["recovery_form", "recovery_lines"]


def recovery_lines(told: Recovery, terminal: Terminal) -> Iterator[str]:
    """Without what keeps it, which is told like every refusal."""
    yield ""
    if told.trouble:
        yield f"{terminal.bold('Does it fail?')}  {terminal.styled('yes', {'fg': 'red'})}"
        yield from wrapped(terminal, f"{told.trouble}, since {_moment(told.since_s)}", indent="  ")
    else:
        yield f"{terminal.bold('Does it fail?')}  {terminal.styled('no', {'fg': 'green'})}"
    if told.retries is not None:
        allowed = f"{counted(told.retries, 'rescheduling')} allowed by {told.by}"
        yield from wrapped(terminal, f"{allowed}, {told.used} used", indent="  ")
    for each in told.tries:
        yield f"    {_where(each)}"
    if told.next:
        yield from wrapped(terminal, f"next: {told.next}", indent="  ")


def recovery_form(told: Recovery | None) -> dict[str, Any] | None:
    if told is None:
        return None
    return {
        "failing": bool(told.trouble),
        "trouble": told.trouble,
        "since": _written(told.since_s),
        "retries": told.retries,
        "allowedBy": told.by,
        "used": told.used,
        "tries": [
            {"time": _written(each.at_s), "node": each.node, "podUid": each.pod} for each in told.tries
        ],
        "next": told.next,
    }


def _where(each: Try) -> str:
    at = _moment(each.at_s) if each.at_s else "at an unknown time"
    return f"{at} on {each.node or 'a node that is not known'}"


def _moment(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _written(at_s: float) -> str | None:
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if at_s else None
