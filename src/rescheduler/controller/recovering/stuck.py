"""New pods that find no place because we keep them off the nodes that were tried.

Better where it failed before than nowhere: the nodes are forgotten, and the pod, which never ran, is made
anew by its controller, without our exclusions.
"""

from datetime import timedelta

from rescheduler.controller.followed import Followed
from rescheduler.model.migrations import FAILED_PODS
from rescheduler.model.pods import PodRecord
from rescheduler.model.steering import STEERED_BY, avoided
from rescheduler.recovery.ledger import Ledger

__all__ = ["is_left_to_its_migration", "is_stuck", "stuck_at_s", "with_nodes_forgotten"]


def stuck_at_s(pod: PodRecord, patience: timedelta) -> float | None:
    """When it counts as stuck if it finds no place until then; None for pods that we keep off no node."""
    scheduled = pod.condition("PodScheduled")
    if pod.node or pod.is_terminating or scheduled is None or scheduled.reason != "Unschedulable":
        return None
    return scheduled.since_s + patience.total_seconds() if avoided(pod.marks) else None


def is_stuck(pod: PodRecord, patience: timedelta, now_s: float) -> bool:
    at_s = stuck_at_s(pod, patience)
    return at_s is not None and now_s >= at_s


def is_left_to_its_migration(pod: PodRecord, seen: Followed) -> bool:
    """A move that is under way has it made anew itself; and what other strategies steer is none of ours."""
    if STEERED_BY not in pod.marks:
        return False
    item = seen.migrations.get(f"{pod.namespace}/{pod.marks[STEERED_BY]}")
    migration = None if item is None else seen.records.migration(item)
    return migration is None or migration.spec.strategy != FAILED_PODS or not migration.is_finished


def with_nodes_forgotten(ledger: Ledger, pod: PodRecord) -> Ledger:
    """Of every line because of which it is kept off."""
    nodes = set(avoided(pod.marks))
    for name, line in ledger.lines.items():
        if nodes.intersection(line.nodes):
            ledger = ledger.forgiving(name, last_too=True)
    return ledger
