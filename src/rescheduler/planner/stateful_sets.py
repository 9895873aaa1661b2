"""What a StatefulSet does when one of its pods goes: which comes back, when, and of which revision."""

from collections.abc import Iterable

from rescheduler.model.ordinals import ordinal_in
from rescheduler.model.pods import PodRecord
from rescheduler.model.workloads import WorkloadRecord

__all__ = ["first_gap", "goes_in_order", "ordinal_of", "revision_of_successor"]

_ORDERED = "OrderedReady"
_REVISION = "controller-revision-hash"


def goes_in_order(record: WorkloadRecord | None) -> bool:
    """Whether it makes no pod before all those with smaller numbers are ready. Unless told, it does."""
    return record is None or record.pod_management == _ORDERED


def ordinal_of(pod: PodRecord) -> int | None:
    """Its number among its siblings; None if its name has none."""
    return None if pod.owner is None else ordinal_in(pod.name, pod.owner.name)


def first_gap(pods: Iterable[PodRecord], record: WorkloadRecord | None, now_s: float) -> int:
    """The smallest number of which no pod is there, or one that is not available: none after it is made.

    Without the StatefulSet, its first pod is the first that is there.
    """
    by_number = {number: pod for pod in pods if (number := ordinal_of(pod)) is not None}
    least_s = record.min_ready_s if record is not None else 0
    number = record.first_ordinal if record is not None else min(by_number, default=0)
    while number in by_number and _is_available(by_number[number], least_s, now_s):
        number += 1
    return number


def revision_of_successor(pod: PodRecord, record: WorkloadRecord | None) -> str:
    """If it is another than the pod's own; empty if it is the same, or nobody knows."""
    own, ordinal = pod.labels.get(_REVISION), ordinal_of(pod)
    if record is None or not record.update_revision or own is None or ordinal is None:
        return ""
    held_back = record.update_type == "RollingUpdate" and ordinal < record.first_ordinal + record.partition
    successor = record.current_revision if held_back else record.update_revision
    return successor if successor != own else ""


def _is_available(pod: PodRecord, least_s: int, now_s: float) -> bool:
    ready = pod.condition("Ready")
    if pod.is_terminating or ready is None or ready.status != "True":
        return False
    return now_s - ready.since_s >= least_s
