"""Count what a dry run would have moved, so that you can decide whether to let it move pods.

Nothing moves in a dry run, so check after check plans the same moves again, or equal ones: loads vary, and
with them which pod of a node is planned. Moves are therefore counted by strategy and source node. A check
counts only the pods that it plans beyond those that are counted already. When no check has planned any for
half an hour, their cause is gone, and later ones count again.
"""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from rescheduler.api.daemon_status import DryRunEvidence
from rescheduler.cluster.snapshot import Snapshot
from rescheduler.planner.plan import Plan
from rescheduler.planner.plan_builder import spread_changes

__all__ = ["DryRunTally"]

_WINDOW: Final = timedelta(days=7)
_GONE_AFTER: Final = timedelta(minutes=30)
_HOUR_S: Final = 3600
_MAX_PENDING: Final = 1_000
"""Strategies and nodes that are remembered: at most 300 kB of a ConfigMap, which holds a megabyte."""

_Number = Annotated[int, Meta(ge=0, le=2**40)]


class _Pending(msgspec.Struct, frozen=True):
    """Pods of one node that one strategy would have moved, and that are counted."""

    pods: _Number
    planned_s: _Number
    """When a check planned them last, in seconds since 1970."""


class _TallyRecord(msgspec.Struct):
    since: Annotated[datetime, Meta(tz=True)] | None = None
    pending: dict[str, _Pending] = {}
    """The pods that are counted, by strategy and source node."""
    counted: dict[_Number, _Number] = {}
    """Pods by the hour, in seconds since 1970, in which they were counted."""


class DryRunTally:
    """The number of pods that plans of a dry run would have moved within a week."""

    def __init__(self) -> None:
        self._record = _TallyRecord()

    def note(self, plan: Plan, snapshot: Snapshot, resources: Sequence[str], now: datetime) -> DryRunEvidence:
        """Count the pods of this plan, and return the evidence so far."""
        record, oldest, now_s = self._record, now - _WINDOW, int(now.timestamp())
        since = record.since = min(max(record.since or now, oldest), now)
        record.counted = {
            hour_s: pods
            for hour_s, pods in record.counted.items()
            if oldest.timestamp() <= hour_s <= now_s and hour_s % _HOUR_S == 0
        }
        hour_s = now_s // _HOUR_S * _HOUR_S
        record.counted[hour_s] = record.counted.get(hour_s, 0) + self._note_pending(plan, now_s)
        ready = [
            each
            for each in plan.nodes
            if (row := snapshot.nodes.row.get(each.name)) is not None and snapshot.nodes.ready[row]
        ]
        return DryRunEvidence(since, sum(record.counted.values()), spread_changes(ready, resources))

    def _note_pending(self, plan: Plan, now_s: int) -> int:
        """Return how many pods the plan moves beyond those that are counted already."""
        earliest_s = now_s - _GONE_AFTER.total_seconds()
        pending = {
            key: each for key, each in self._record.pending.items() if earliest_s <= each.planned_s <= now_s
        }
        added = 0
        planned = Counter(f"{move.strategy} {move.source}" for move in plan.moves if not move.hop)
        for key, pods in planned.items():
            before = pending.pop(key).pods if key in pending else 0
            added += max(0, pods - before)
            pending[key] = _Pending(max(pods, before), now_s)
        self._record.pending = dict(list(pending.items())[-_MAX_PENDING:])
        return added

    def encoded(self) -> str:
        """Return what `restore` reads."""
        return msgspec.json.encode(self._record).decode()

    def restore(self, text: str) -> None:
        """Continue the count of an earlier process; text that can't be read loses only that count."""
        try:
            self._record = msgspec.json.decode(text, type=_TallyRecord)
        except (msgspec.DecodeError, RecursionError):
            return

    def clear(self) -> None:
        """Reset all counts for the next dry run."""
        self._record = _TallyRecord()
