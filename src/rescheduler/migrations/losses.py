"""What a move has cost: for how long its pod had no ready successor."""

from rescheduler.model.migrations import ConditionType, Migration
from rescheduler.model.plan import Handover

__all__ = ["ready_seconds_lost"]


def ready_seconds_lost(migration: Migration) -> float:
    """From when the pod was handed over until its successor was ready; nothing if that was before.

    By our own clock on both sides: that of the API server may be another.
    """
    status = migration.status
    handed_over = status.condition(ConditionType.HANDED_OVER)
    if handed_over is None or handed_over.status != "True" or status.finished_at is None:
        return 0.0
    ready = status.condition(ConditionType.COPY_READY)
    is_copied = status.handover is not Handover.EVICT and ready is not None and ready.status == "True"
    until = ready.last_transition_time if is_copied and ready is not None else status.finished_at
    return max(0.0, (until - handed_over.last_transition_time).total_seconds())
