"""Usage as an average over time, in which what lies one half-life back counts half.

Readings come at irregular times, and the same one may be seen twice when checks are more frequent than
measurements. So a reading weighs by the time since the one before it: `1 - 2^(-dt/half-life)`. The average
is then what it would be if usage had stood at each reading since the one before, however the time is cut
into checks; a reading that is seen again weighs nothing.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache

import msgspec

from rescheduler.config.policy import UsageSource
from rescheduler.usage.readings import Readings, UsageByName, Used

__all__ = ["CLOCK_SET_BACK_S", "Average", "Smoothing", "smooth"]

CLOCK_SET_BACK_S = 300.0
"""A reading that is older than the last one comes from a replica that lags, and is skipped. If it is older
by more than this, the clock was set back: then it counts, and the average starts anew."""


class Average(msgspec.Struct, frozen=True, gc=False):
    """Of one pod or node. In fractions: in whole units a slow drift would be rounded away at every step."""

    uid: str
    """Another object of the same name starts anew."""
    cpu_millis: float
    memory_bytes: float
    at_s: float
    """When it was last measured."""


@dataclass(frozen=True, slots=True)
class Smoothing:
    """What one check leaves to the next. Begin with an empty one."""

    source: UsageSource | None = None
    pods: Mapping[str, Average] = field(default_factory=dict)
    nodes: Mapping[str, Average] = field(default_factory=dict)


def smooth(
    before: Smoothing,
    readings: Readings,
    half_life_s: float,
    *,
    pod_uids: Mapping[str, str],
    node_uids: Mapping[str, str],
) -> tuple[Smoothing, Readings]:
    """The averages with these readings in them: as state for the next check, and as readings for this one.

    Only the pods and nodes that have a uid here exist; others are forgotten. One that was not measured this
    time keeps its average and the time of it, for others to judge. Another source starts anew: it may
    measure something else.
    """
    if before.source is not readings.source:
        before = Smoothing()
    weight = cache(lambda dt_s: 1.0 - 2.0 ** (-dt_s / half_life_s))  # few different times in many readings
    after = Smoothing(
        readings.source,
        _averages(before.pods, readings.pods, pod_uids, weight),
        _averages(before.nodes, readings.nodes, node_uids, weight),
    )
    return after, replace(readings, pods=_readings(after.pods), nodes=_readings(after.nodes))


def _averages(
    before: Mapping[str, Average],
    read: UsageByName,
    uids: Mapping[str, str],
    weight: Callable[[float], float],
) -> dict[str, Average]:
    after: dict[str, Average] = {}
    for name, uid in uids.items():
        new, old = read.get(name), before.get(name)
        if old is not None and old.uid != uid:
            old = None
        if new is None:
            if old is not None:
                after[name] = old
        elif old is None or new.at_s < old.at_s - CLOCK_SET_BACK_S:
            after[name] = Average(uid, new.cpu_millis, new.memory_bytes, new.at_s)
        elif new.at_s <= old.at_s:
            after[name] = old
        else:
            share = weight(new.at_s - old.at_s)
            after[name] = Average(
                uid,
                old.cpu_millis + share * (new.cpu_millis - old.cpu_millis),
                old.memory_bytes + share * (new.memory_bytes - old.memory_bytes),
                new.at_s,
            )
    return after


def _readings(averages: Mapping[str, Average]) -> dict[str, Used]:
    return {
        name: Used(round(each.cpu_millis), round(each.memory_bytes), each.at_s)
        for name, each in averages.items()
    }
