"""Which readings count. Where none does, requests count instead, and that is said."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta

from rescheduler.config.policy import UsageSource
from rescheduler.model.duration import short_duration
from rescheduler.usage.readings import Readings, Unavailable, UsageByName

__all__ = ["STALE_AFTER_S", "TrustedUsage", "trusted"]

STALE_AFTER_S = 300.0
"""As Prometheus has it: what was not measured for five minutes is not known."""

_NAMED = 3


@dataclass(frozen=True, slots=True)
class TrustedUsage:
    source: UsageSource
    """What load comes from: `requests` if nothing that was measured counts."""
    pods: UsageByName = field(default_factory=dict)
    """Fresh readings by `namespace/name`; the requests of all other pods count instead."""
    nodes: UsageByName = field(default_factory=dict)
    """Fresh readings of what nodes use beside their pods, by name; for all other nodes that is nothing."""
    notes: tuple[str, ...] = ()
    """What was assumed, in words, for the plan's summary."""


def trusted(
    readings: Readings,
    *,
    pods: Collection[str],
    nodes: Collection[str],
    now_s: float,
    failure: Unavailable | None = None,
) -> TrustedUsage:
    """What counts of the readings, for the pods that run and the nodes there are.

    With a `failure`, the readings are averages of earlier checks.
    """
    if readings.source is UsageSource.REQUESTS:
        return TrustedUsage(UsageSource.REQUESTS)
    oldest_s = now_s - STALE_AFTER_S
    fresh = {key: used for key in pods if (used := readings.pods.get(key)) and used.at_s >= oldest_s}
    if not fresh:
        return TrustedUsage(UsageSource.REQUESTS, notes=tuple(_nothing_counts(readings, pods, failure)))
    known_nodes = {
        name: used for name in nodes if (used := readings.nodes.get(name)) and used.at_s >= oldest_s
    }
    notes = list(readings.notes)
    if failure:
        seconds = round(now_s - max(used.at_s for used in fresh.values()))
        notes.append(f"usage of {_span(max(0, seconds))} ago counts: {failure.why}")
    notes += _left_out(readings, pods, fresh)
    return TrustedUsage(readings.source, fresh, known_nodes, tuple(notes))


def _nothing_counts(readings: Readings, pods: Collection[str], failure: Unavailable | None) -> Iterator[str]:
    yield from readings.notes
    if failure:
        yield f"requests count as load: {failure.why}"
    elif pods:
        known = any(key in readings.pods for key in pods)
        what = f"is older than {_span(STALE_AFTER_S)}" if known else "is missing"
        yield f"requests count as load: usage of every pod, from {readings.source}, {what}"


def _left_out(readings: Readings, pods: Collection[str], fresh: UsageByName) -> Iterator[str]:
    rest = [key for key in pods if key not in fresh]
    stale = sorted(key for key in rest if key in readings.pods)
    missing = sorted(key for key in rest if key not in readings.pods)
    if missing:
        yield _instead(missing, "is missing")
    if stale:
        yield _instead(stale, f"is older than {_span(STALE_AFTER_S)}")


def _instead(keys: list[str], what: str) -> str:
    if len(keys) == 1:
        return f"usage of the pod {keys[0]} {what}: its requests count instead"
    return f"usage of {len(keys)} pods {what} ({_first(keys)}): their requests count instead"


def _first(keys: Iterable[str]) -> str:
    named = list(keys)
    return ", ".join(named[:_NAMED]) + (", …" if len(named) > _NAMED else "")


def _span(seconds: float) -> str:
    return short_duration(timedelta(seconds=seconds))
