"""Which pods are the same replica, one after the other: so that a bad one uses up its own tries only.

Where replicas have an identity, it is that: a StatefulSet's by pod name, a DaemonSet's by node, an indexed
Job's by index, a pod without a controller by the name that it had before it was ever moved. Elsewhere it is
descent: a copy or replacement that we marked says whose place it takes; one that its controller made by
itself takes the place of the longest vacant line.
"""

from collections.abc import Iterable
from typing import Final

from rescheduler.model.pods import PodRecord
from rescheduler.recovery.ledger import Ledger, Line

__all__ = [
    "CARRIED_OVER",
    "ORIGINAL_POD",
    "ORIGINAL_POD_NAME",
    "has_identity",
    "is_live",
    "lines_of",
    "revision_of",
]

ORIGINAL_POD: Final = "scheduler.alpha.kubernetes.io/original-pod"
ORIGINAL_POD_NAME: Final = "scheduler.alpha.kubernetes.io/original-pod-name"

CARRIED_OVER: Final = "carried-over"
"""The line of a record that an older tool kept for a whole workload: whichever pod fails takes it."""

_INDEX: Final = "batch.kubernetes.io/job-completion-index"
_REVISIONS: Final = ("pod-template-hash", "controller-revision-hash")


def lines_of(ledger: Ledger, pods: Iterable[PodRecord]) -> dict[str, str]:
    """The name of each pod's line, by uid. `pods` are all that there are of the ledger's holder."""
    if not ledger.lines:
        return {pod.uid: _identity(pod) or pod.name for pod in pods}
    ordered = sorted(pods, key=lambda pod: (pod.created_s, pod.key))
    found: dict[str, str] = {}
    strangers: list[PodRecord] = []
    by_uid = {each.pod: name for name, line in ledger.lines.items() for each in line.failures if each.pod}
    for pod in ordered:
        name = _identity(pod) or by_uid.get(pod.uid) or by_uid.get(pod.marks.get(ORIGINAL_POD, ""))
        if name is None:
            strangers.append(pod)
        else:
            found[pod.uid] = name
    taken = {found[pod.uid] for pod in ordered if pod.uid in found and is_live(pod)}
    vacant = {name: line for name, line in ledger.lines.items() if name not in taken}
    for pod in sorted(strangers, key=is_live, reverse=True):
        found[pod.uid] = _oldest_vacancy(pod, strangers, vacant) or pod.name
        vacant.pop(found[pod.uid], None)
    return found


def has_identity(pod: PodRecord) -> bool:
    """Whether no two of it may ever run at the same time."""
    return pod.owner is not None and (pod.owner.kind == "StatefulSet" or _INDEX in pod.labels)


def revision_of(pod: PodRecord) -> str:
    """Which template it was made from; empty where there is only one."""
    for label in _REVISIONS:
        if label in pod.labels:
            return pod.labels[label]
    return pod.owner.name if pod.owner is not None and pod.owner.kind == "Job" else ""


def is_live(pod: PodRecord) -> bool:
    """Neither finished nor going: its controller counts it."""
    return not pod.is_finished and not pod.is_terminating


def _identity(pod: PodRecord) -> str | None:
    if pod.owner is None:
        return pod.marks.get(ORIGINAL_POD_NAME, pod.name)
    if pod.owner.kind == "StatefulSet":
        return pod.name
    if pod.owner.kind == "DaemonSet":
        return pod.node or pod.name
    if _INDEX in pod.labels:
        return f"{pod.owner.name}[{pod.labels[_INDEX]}]"
    return None


def _oldest_vacancy(pod: PodRecord, strangers: Iterable[PodRecord], vacant: dict[str, Line]) -> str | None:
    """Of those that a pod of this template, made when this one was, may have come to fill."""
    if not is_live(pod):
        return None
    revision = revision_of(pod)
    open_to = [
        (line.last_s, name)
        for name, line in vacant.items()
        if line.last_s <= pod.created_s
        and line.revision in {"", revision}
        # Nobody knows which replica it was: those that are well can't have been it.
        and (name != CARRIED_OVER or not pod.is_ready or all(map(_is_well, strangers)))
    ]
    return min(open_to)[1] if open_to else None


def _is_well(pod: PodRecord) -> bool:
    return pod.is_ready or not is_live(pod)
