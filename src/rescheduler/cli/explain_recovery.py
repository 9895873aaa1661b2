"""Whether a pod keeps failing, what was tried and what comes next; why a node is suspect: for `explain`."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from rescheduler.cli.terminal import Terminal, wrapped
from rescheduler.cli.wording import counted, several
from rescheduler.model.duration import short_duration
from rescheduler.planner.recovery_explained import Recovery, Suspicion
from rescheduler.recovery.ledger import Try

__all__ = ["recovery_form", "recovery_lines", "suspicion_form", "suspicion_lines"]

_MOST_ON_SCREEN = 8


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


def suspicion_lines(told: Suspicion, terminal: Terminal) -> Iterator[str]:
    yield ""
    yield f"{terminal.bold('Suspect?')}  {terminal.styled('yes', {'fg': 'red'})}"
    failed = f"{counted(len(told.workloads), 'workload')} failed here within {short_duration(told.window)}"
    most = len(told.workloads) if terminal.width is None else _MOST_ON_SCREEN
    yield from wrapped(terminal, f"{failed}: {several(told.workloads, most=most)}", indent="  ")
    remedy = "It is the last place to send pods to, until they have recovered. Look at what they fail of."
    yield from (terminal.dim(line) for line in wrapped(terminal, remedy, indent="  "))


def suspicion_form(told: Suspicion | None) -> dict[str, Any] | None:
    if told is None:
        return None
    return {"workloads": list(told.workloads), "within": short_duration(told.window)}


def _where(each: Try) -> str:
    at = _moment(each.at_s) if each.at_s else "at an unknown time"
    return f"{at} on {each.node or 'a node that is not known'}"


def _moment(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _written(at_s: float) -> str | None:
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if at_s else None
