"""What was measured, by whom and when; or why nothing was."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from rescheduler.config.policy import UsageSource

__all__ = ["LARGEST_AMOUNT", "Outcome", "Readings", "Unavailable", "UsageByName", "Used"]

LARGEST_AMOUNT = 2**50
"""Of cores or bytes: beyond it a reading is a mistake."""


class Used(msgspec.Struct, frozen=True, gc=False):
    """By one pod, or by one node. There is one for every pod of the cluster, so it is kept small."""

    cpu_millis: int
    memory_bytes: int
    at_s: float
    """When it was measured, in seconds since 1970."""


UsageByName = Mapping[str, Used]
"""Pods by `namespace/name`, nodes by name."""


@dataclass(frozen=True, slots=True)
class Readings:
    """Everything that one question brought. Whoever is not in here was not measured."""

    source: UsageSource
    pods: UsageByName = field(default_factory=dict)
    nodes: UsageByName = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    """What was left out because it made no sense, and what the source itself warned of."""


@dataclass(frozen=True, slots=True)
class Unavailable:
    """The source could not tell anything this time."""

    source: UsageSource
    why: str
    """In whole sentences: what failed, why, and what to do."""


Outcome = Readings | Unavailable
